//! Tests that kubectl's options reach the client, for every command.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, ListenOptions, User};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::recorder::Recorder;
use crate::server::{stderr, stdout};

/// Starts a server without objects.
async fn server() -> Recorder {
    Recorder::start(|path| {
        let answer = match path.split('?').next().unwrap_or_default().rsplit('/').next() {
            Some("version") => json!({"major": "1", "minor": "36", "gitVersion": "v1.36.2", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            Some("services") => json!({"kind": "ServiceList", "apiVersion": "v1", "metadata": {}, "items": []}),
            _ => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
                return (404, status.to_string());
            }
        };
        (200, answer.to_string())
    })
    .await
}

/// Returns a kubeconfig with two contexts, clusters and users; the current context is of a server
/// that does not exist.
fn kubeconfig(server: &Recorder) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let address = format!("http://{}", server.address);
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "none",
        "contexts": [
            {"name": "none", "context": {"cluster": "none", "user": "one", "namespace": "of-context"}},
            {"name": "other", "context": {"cluster": "here", "user": "two", "namespace": "of-other"}},
        ],
        "clusters": [
            {"name": "none", "cluster": {"server": "http://127.0.0.1:1", "tls-server-name": "of-none"}},
            {"name": "here", "cluster": {"server": address}},
        ],
        "users": [{"name": "one", "user": {"token": "of-one"}}, {"name": "two", "user": {"token": "of-two"}}],
    });
    std::fs::write(file.path(), content.to_string()).unwrap();
    file
}

/// Runs the plugin with these arguments.
async fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
    command.args(arguments).env("KUBECONFIG", "/no/kubeconfig").env("HOME", "/no/home");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Returns the headers of the first request for Services, and its path.
async fn asked(arguments: &[&str], server: &Recorder) -> (String, BTreeMap<String, String>) {
    let before = server.requests().len();
    let output = run(arguments).await;
    let requests = server.requests();
    let first = requests[before..].iter().find(|(path, _)| path.contains("/services?"));
    first.unwrap_or_else(|| panic!("{arguments:?}: {}{}", stdout(&output), stderr(&output))).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn context_cluster_user_and_namespace_choose_parts_of_the_kubeconfig() {
    let server = server().await;
    let file = kubeconfig(&server);
    let kubeconfig = file.path().to_str().unwrap();
    for (flags, namespace, token) in [
        (&["--context=other"][..], "of-other", "of-two"),
        (&["--cluster=here"], "of-context", "of-one"),
        (&["--cluster=here", "--user=two"], "of-context", "of-two"),
        (&["--context", "other", "--user", "one", "-n", "shop"], "shop", "of-one"),
        (&["--cluster=here", "--token=given"], "of-context", "given"),
    ] {
        let arguments = [&["lint", "--kubeconfig", kubeconfig], flags].concat();
        let (path, headers) = asked(&arguments, &server).await;
        assert!(path.contains(&format!("/namespaces/{namespace}/")), "{flags:?}: {path}");
        assert_eq!(headers["authorization"], format!("Bearer {token}"), "{flags:?}");
    }
    for (flags, want) in [
        (["--user=nobody", "--cluster=here"], "the kubeconfig has no user nobody"),
        (["--cluster=nowhere", "--server=http://127.0.0.1:1"], "the kubeconfig has no cluster nowhere"),
    ] {
        let output = run(&[&["lint", "--kubeconfig", kubeconfig], &flags[..]].concat()).await;
        assert_eq!((output.status.code(), stderr(&output)), (Some(2), format!("error: {want}\n")));
    }
}

/// The server alone needs no kubeconfig, as for kubectl.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_replaces_that_of_the_kubeconfig_or_stands_alone() {
    let server = server().await;
    let file = kubeconfig(&server);
    let address = format!("http://{}", server.address);
    let (path, headers) =
        asked(&["lint", "-s", &address, "--kubeconfig", file.path().to_str().unwrap()], &server).await;
    assert!(path.contains("/namespaces/of-context/"), "{path}");
    assert_eq!(headers["authorization"], "Bearer of-one");
    let (path, headers) = asked(&["lint", "--server", &address, "--token=t"], &server).await;
    assert!(path.contains("/namespaces/default/"), "{path}");
    assert_eq!(headers["authorization"], "Bearer t");
    let output = run(&["lint"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).starts_with("error: kubeconfig /no/kubeconfig does not exist; "),
        "{}",
        stderr(&output)
    );
}

/// Each command connects by itself.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_impersonates() {
    let server = server().await;
    let address = format!("--server=http://{}", server.address);
    let flags = [
        &*address,
        "--as=jane",
        "--as-group=ops",
        "--as-group=dev,eu",
        "--as-uid=7",
        "--as-user-extra=scopes=a",
        "--as-user-extra=scopes=b",
    ];
    for command in [
        &["explain", "web"][..],
        &["lint"],
        &["diff"],
        &["cleanup"],
        &["doctor"],
        &["retire"],
        &["__complete", "explain", ""],
    ] {
        let before = server.requests().len();
        // The words to complete come last.
        let arguments = match command {
            ["__complete", rest @ ..] => [&["__complete"], &flags[..], rest].concat(),
            command => [command, &flags[..]].concat(),
        };
        run(&arguments).await;
        let requests = server.requests();
        assert!(requests.len() > before, "{command:?}");
        for (path, headers) in &requests[before..] {
            let of = |name: &str| headers.get(&format!("impersonate-{name}")).map(String::as_str);
            assert_eq!(
                [of("user"), of("group"), of("uid"), of("extra-scopes")],
                [Some("jane"), Some("ops|dev,eu"), Some("7"), Some("a|b")],
                "{command:?} {path}"
            );
        }
    }
    let output = run(&["lint", &address, "--as-group=ops"]).await;
    assert_eq!(
        (output.status.code(), &*stderr(&output)),
        (Some(2), "error: --as-group, --as-uid and --as-user-extra need a user: --as USER\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_given_up_after_the_timeout() {
    // The kernel accepts connections, and nobody reads from them.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("--server=http://{}", listener.local_addr().unwrap());
    for command in ["lint", "cleanup", "doctor", "retire"] {
        let output = run(&[command, &server, "--request-timeout=200ms"]).await;
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("has not begun to answer within 200ms"), "{}", stderr(&output));
    }
    for wrong in ["soon", "-5s", "5 parsecs"] {
        let output = run(&["lint", &server, &format!("--request-timeout={wrong}")]).await;
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("is no time; write a number with a unit"), "{}", stderr(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_reads_the_chosen_server_and_the_names_of_the_kubeconfig() {
    let server = server().await;
    let file = kubeconfig(&server);
    let kubeconfig = file.path().to_str().unwrap();
    for (flag, want) in
        [("--cluster", "none\nhere\n"), ("--user", "one\ntwo\n"), ("--context", "none\nother\n")]
    {
        let output = run(&["__complete", "lint", "--kubeconfig", kubeconfig, flag, ""]).await;
        assert_eq!(stdout(&output), format!("{want}:4\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_of_the_server_is_verified_as_the_flags_say() {
    let user = User { name: "jane".to_owned(), groups: vec![] };
    // The plugin compares the certificate with the time of the machine.
    let builder = EmbeddedApiServer::builder().start_time(jiff::Timestamp::now()).token("secret", user);
    let api_server = builder.require_token().build().unwrap();
    let options = ListenOptions { allow_any_address: false, tls: true };
    let listener = api_server.listen_with(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let ca = NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), listener.certificate_authority().unwrap()).unwrap();
    let (ca, server) =
        (format!("--certificate-authority={}", ca.path().display()), format!("--server={}", listener.url()));
    let kubeconfig = NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), api_server.kubeconfig_of(&listener)).unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.path().display());
    for (flags, is_trusted) in [
        (&[&*server, "--token=secret"][..], false),
        (&[&server, "--token=secret", &ca], true),
        (&[&server, "--token=secret", "--insecure-skip-tls-verify"], true),
        (&[&server, "--token=secret", &ca, "--tls-server-name=localhost"], true),
        (&[&server, "--token=secret", &ca, "--tls-server-name=other.example"], false),
        // The flag replaces the CA of the kubeconfig.
        (&[&kubeconfig, &ca], true),
        (&[&kubeconfig, "--tls-server-name=other.example"], false),
        (&[&kubeconfig, "--tls-server-name=other.example", "--insecure-skip-tls-verify"], true),
    ] {
        let output = run(&[&["lint", "-A"], flags].concat()).await;
        let (code, error) = (output.status.code(), stderr(&output));
        let want =
            if is_trusted { (Some(0), error.is_empty()) } else { (Some(2), error.contains("certificate")) };
        assert_eq!((code, true), want, "{flags:?}: {error}");
    }
    for (flags, want) in [
        (
            &[&*ca, "--insecure-skip-tls-verify"][..],
            "--certificate-authority has no effect with --insecure-skip-tls-verify",
        ),
        (&["--certificate-authority=/no/ca"], "/no/ca"),
        (&[&ca, "--client-certificate=/no/certificate", "--client-key=/no/key"], "/no/certificate"),
    ] {
        let output = run(&[&["lint", &server], flags].concat()).await;
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(want), "{flags:?}: {}", stderr(&output));
    }
}
