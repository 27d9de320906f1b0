//! Credential plugins: shell scripts that are slow, fail, or give one credential after the other.
#![expect(clippy::disallowed_methods, reason = "a credential ends at a time of the system's clock")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use kube::Config;
use kube::config::{ExecConfig, ExecInteractiveMode};
use kube_endpoint_testing::Log;
use tracing::Level;

use super::{Authority, Credentials, Server, config, get, limits, until};
use crate::client::client;
use crate::timeouts::Timeouts;

const VERSION: &str = "client.authentication.k8s.io/v1";

/// Returns a plugin that runs `script` in the directory and notes each run in the file `runs`.
fn plugin(files: &Credentials, script: &str) -> ExecConfig {
    files.write("script", format!("cd {}\necho run >> runs\n{script}\n", files.path("").display()));
    // Starts the shell, not the script: a file that was just written may be busy while another test
    // forks.
    ExecConfig {
        api_version: Some(VERSION.to_owned()),
        command: Some("/bin/sh".to_owned()),
        args: Some(vec![files.path("script").display().to_string()]),
        interactive_mode: Some(ExecInteractiveMode::Never),
        ..ExecConfig::default()
    }
}

fn runs(files: &Credentials) -> usize {
    std::fs::read_to_string(files.path("runs")).unwrap_or_default().lines().count()
}

fn answer(status: &serde_json::Value) -> String {
    serde_json::json!({"apiVersion": VERSION, "kind": "ExecCredential", "status": status}).to_string()
}

fn token(token: &str, lifetime: SignedDuration) -> String {
    answer(&serde_json::json!({"token": token, "expirationTimestamp": Timestamp::now() + lifetime}))
}

fn configured(server: &Server, files: &Credentials, plugin: ExecConfig) -> Config {
    let mut config = config(server, &files.path("ca.crt"));
    config.auth_info.exec = Some(plugin);
    config
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);

#[tokio::test]
async fn a_plugin_that_hangs_is_reported_and_then_killed_and_blocks_no_thread() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    let limits = Timeouts {
        plugin: Duration::from_millis(600),
        plugin_warning: Duration::from_millis(100),
        ..limits()
    };
    let log = Log::capture(Level::INFO);
    let config = configured(&server, &files, plugin(&files, "exec sleep 600"));
    let ended = AtomicBool::new(false);
    // The runtime of this test has one thread: if a plugin blocked it, the report would come only
    // after the plugin's end.
    let (error, ()) = tokio::join!(
        async {
            let error = client(config, limits).await.err().unwrap();
            ended.store(true, Ordering::SeqCst);
            error.to_string()
        },
        async {
            until("the plugin is reported", async || !log.text().is_empty()).await;
            assert!(!ended.load(Ordering::SeqCst), "the report came only at the end");
        }
    );
    assert_eq!(runs(&files), 1);
    insta::assert_snapshot!(format!("{}{error}", log.text()));
}

#[tokio::test]
async fn waiting_for_a_plugin_can_be_cancelled() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    let config = configured(&server, &files, plugin(&files, "echo $$ > pid; exec sleep 600"));
    let pid = || {
        let written = std::fs::read_to_string(files.path("pid")).ok()?;
        written.strip_suffix('\n').map(str::to_owned)
    };
    // The binary does this on a signal.
    tokio::select! {
        biased;
        _ = client(config, limits()) => panic!("the plugin has ended"),
        () = until("the plugin runs", async || pid().is_some()) => {}
    }
    let process = format!("/proc/{}/exe", pid().unwrap());
    until("the plugin is killed", async || !std::path::Path::new(&process).exists()).await;
}

#[tokio::test]
async fn an_expired_credential_is_asked_for_again_and_replaced_by_a_new_one() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("answer", token("expired", SignedDuration::from_hours(-1)));
    server.accept_only("new");
    let config = configured(&server, &files, plugin(&files, "cat answer"));
    let client = client(config, limits()).await.unwrap();
    // This machine's clock may be wrong, so the server decides what has expired.
    assert_eq!(client.send(get("/")).await.unwrap().status(), 401);
    assert_eq!(server.last().token.as_deref(), Some("expired"));

    files.write("answer", token("new", HOUR));
    until("the new credential is used", async || client.send(get("/")).await.unwrap().status() == 200).await;
    let after = runs(&files);
    for _ in 0..10 {
        assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
    }
    assert_eq!(runs(&files), after, "a credential that is good for an hour is not asked for again");
}

#[tokio::test]
async fn after_401_the_plugin_runs_before_the_next_request_and_cuts_no_watch_off() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    // The credential has no end: only the server can say that it is no longer good.
    files.write("answer", answer(&serde_json::json!({"token": "old"})));
    let config = configured(&server, &files, plugin(&files, "cat answer"));
    let limits = Timeouts { reload: Timeouts::default().reload, ..limits() };
    let client = client(config, limits).await.unwrap();
    let mut watch = client.send(get("/watch")).await.unwrap().into_body();

    files.write("answer", answer(&serde_json::json!({"token": "new"})));
    server.accept_only("new");
    tokio::time::sleep(limits.retry).await;
    assert_eq!(client.send(get("/")).await.unwrap().status(), 401);
    assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
    assert_eq!(runs(&files), 2);
    assert_eq!(server.send("still there"), 1);
    assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "still there");
}

#[tokio::test]
async fn looking_at_the_files_again_does_not_run_the_plugin() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("answer", token("any", HOUR));
    let config = configured(&server, &files, plugin(&files, "cat answer"));
    let client = client(config, limits()).await.unwrap();
    let other = Authority::new();
    files.write("ca.crt", other.pem());
    server.use_certificate_of(&other);
    until("the new CA is used", async || {
        assert_eq!(client.send(get("/")).await.map_or(200, |answer| answer.status().as_u16()), 200);
        server.connections() > 1
    })
    .await;
    assert_eq!(runs(&files), 1);
}

#[tokio::test]
async fn a_server_that_always_refuses_does_not_run_the_plugin_for_every_request() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("answer", token("any", HOUR));
    server.accept_only("none");
    let config = configured(&server, &files, plugin(&files, "cat answer"));
    let client = client(config, Timeouts { retry: Duration::from_secs(60), ..limits() }).await.unwrap();
    for _ in 0..20 {
        assert_eq!(client.send(get("/")).await.unwrap().status(), 401);
    }
    assert_eq!(runs(&files), 1);
}

/// Advances the client's clock, with real time before and after.
async fn jump(minutes: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60 * minutes)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_credential_is_renewed_early_while_requests_use_it() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("answer", token("first", HOUR + SignedDuration::from_secs(30)));
    let config = configured(&server, &files, plugin(&files, "[ -e hang ] && exec sleep 600; cat answer"));
    let limits =
        Timeouts { renewal_wait: Duration::from_millis(50), retry: Duration::from_millis(1), ..limits() };
    let client = client(config, limits).await.unwrap();
    files.write("hang", "");
    jump(60).await;
    until("the plugin runs again", async || {
        assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
        runs(&files) == 2
    })
    .await;
    for _ in 0..10 {
        assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
    }
    assert_eq!(server.last().token.as_deref(), Some("first"));
    assert_eq!(runs(&files), 2, "the plugin runs once for all");

    // Now the credential has expired, and the plugin has used up its time.
    jump(2).await;
    let error = kube_endpoint_core_model::causes(&client.send(get("/")).await.unwrap_err());
    assert!(
        error.contains("the credential plugin /bin/sh did not end within 60 s and was killed"),
        "{error}"
    );

    std::fs::remove_file(files.path("hang")).unwrap();
    files.write("answer", token("second", HOUR));
    until("the plugin works again", async || client.send(get("/")).await.is_ok()).await;
    assert_eq!(server.last().token.as_deref(), Some("second"));
}

#[tokio::test]
async fn requests_use_a_valid_credential_while_the_plugin_fails() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("answer", token("first", HOUR));
    let config = configured(&server, &files, plugin(&files, "cat answer"));
    let client = client(config, limits()).await.unwrap();
    std::fs::remove_file(files.path("answer")).unwrap();
    server.accept_only("another");
    until("the plugin has run again", async || {
        assert_eq!(client.send(get("/")).await.unwrap().status(), 401);
        runs(&files) > 1
    })
    .await;
    server.accept_only("first");
    assert_eq!(client.send(get("/")).await.unwrap().status(), 200);

    jump(61).await;
    let error = kube_endpoint_core_model::causes(&client.send(get("/")).await.unwrap_err());
    assert!(error.contains("the credential plugin /bin/sh failed with exit status: 1: cat: "), "{error}");
}

#[tokio::test]
async fn a_certificate_of_a_plugin_is_replaced_when_it_expires() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    let (old, new) = (authority.issue(), authority.issue());
    let credential = |identity: &super::Identity, lifetime: SignedDuration| {
        answer(&serde_json::json!({
            "clientCertificateData": identity.certificate,
            "clientKeyData": identity.key,
            "token": "beside it",
            "expirationTimestamp": Timestamp::now() + lifetime,
        }))
    };
    files.write("answer", credential(&old, SignedDuration::from_millis(1500)));
    let config = configured(&server, &files, plugin(&files, "cat answer"));
    let client = client(config, limits()).await.unwrap();
    let mut watch = client.send(get("/watch")).await.unwrap().into_body();
    assert!(server.last().is_from(&old));
    assert_eq!(server.last().token.as_deref(), Some("beside it"));

    files.write("answer", credential(&new, HOUR));
    until("the new certificate is used", async || {
        client.send(get("/")).await.unwrap();
        server.last().is_from(&new)
    })
    .await;
    assert_eq!(server.send("still there"), 1);
    assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "still there");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_plugin_gets_the_input_that_kubectl_gives_it() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("answer", token("any", HOUR));
    let mut plugin = plugin(&files, "echo \"$KUBERNETES_EXEC_INFO $REGION\" > told; cat answer");
    plugin.env =
        Some(vec![[("name", "REGION"), ("value", "eu-1")].map(|(k, v)| (k.into(), v.into())).into()]);
    plugin.provide_cluster_info = true;
    plugin.cluster = Some(kube::config::ExecAuthCluster {
        server: Some("https://10.0.0.1".to_owned()),
        ..kube::config::ExecAuthCluster::default()
    });
    client(configured(&server, &files, plugin), limits()).await.unwrap();
    insta::assert_snapshot!(std::fs::read_to_string(files.path("told")).unwrap());
}

#[tokio::test]
async fn a_plugin_that_prints_without_end_is_killed() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    for (script, stream) in [("echo $$ > pid; exec yes", "output"), ("exec yes >&2", "error output")] {
        let config = configured(&server, &files, plugin(&files, script));
        // The time limit of plugins does not pass.
        let limits = Timeouts { plugin: Duration::from_secs(3600), ..limits() };
        let error = client(config, limits).await.err().unwrap().to_string();
        let expected = format!("printed no usable ExecCredential: its {stream} is longer than 1048576 bytes");
        assert!(error.contains(&expected) && !error.contains('\n'), "{error}");
    }
    let pid = std::fs::read_to_string(files.path("pid")).unwrap();
    until("the plugin has ended", async || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // A process that was killed is a zombie until the runtime has waited for it.
        state.is_empty() || state.contains(") Z ")
    })
    .await;
    assert_eq!(runs(&files), 2);
}

#[tokio::test]
async fn plugin_errors_are_one_line() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    let error_of = async |plugin: ExecConfig| {
        let error = client(configured(&server, &files, plugin), limits()).await.err();
        error.map(|error| error.to_string()).unwrap_or_default()
    };
    let printing = |text: &str| {
        files.write("answer", text);
        plugin(&files, "cat answer")
    };
    let missing = ExecConfig {
        command: Some("/no/such/plugin".to_owned()),
        install_hint: Some("Get it from\nhttps://example.com\n".to_owned()),
        ..ExecConfig::default()
    };
    let interactive =
        ExecConfig { interactive_mode: Some(ExecInteractiveMode::Always), ..plugin(&files, "cat answer") };
    let half = answer(&serde_json::json!({"clientCertificateData": "PEM"}));
    let errors = [
        error_of(ExecConfig::default()).await,
        error_of(missing).await,
        error_of(plugin(&files, "echo 'usage: plugin' >&2; echo 'no such role' >&2; exit 3")).await,
        error_of(printing("")).await,
        error_of(printing("not: [valid")).await,
        error_of(printing(r#"{"apiVersion":"client.authentication.k8s.io/v1"}"#)).await,
        error_of(printing(r#"{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"a"}}"#))
            .await,
        error_of(printing(&answer(&serde_json::json!({})))).await,
        error_of(printing(&half)).await,
        error_of(printing(&answer(&serde_json::json!({"token": "a", "expirationTimestamp": "soon"})))).await,
        error_of(printing(&answer(&serde_json::json!({"token": "two\nlines"})))).await,
        // Gives no error if a person runs the test in a terminal, so the assertions leave it out.
        error_of(interactive).await,
    ];
    assert!(errors[..11].iter().all(|error| !error.is_empty() && !error.contains('\n')), "{errors:#?}");
    insta::assert_snapshot!(errors[..11].join("\n"));
}
