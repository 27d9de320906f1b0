//! Tests the errors of the plugin if reading fails: they have words, and no types of Rust.

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, Status, User};

use crate::server::{Shop, shop_objects, stderr, stdout};

/// Runs commands. Returns each with its exit code and its output on standard error.
async fn reported(shop: &Shop, commands: &[&[&str]]) -> String {
    let mut text = String::new();
    for arguments in commands {
        let output = shop.run(arguments).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        text += &format!("$ {}\n{}", arguments.join(" "), stderr(&output));
    }
    text
}

const COMMANDS: [&[&str]; 5] =
    [&["explain", "cart"], &["explain", "pod/cart-0"], &["lint"], &["diff"], &["cleanup"]];

fn user() -> User {
    User { name: "jane".to_owned(), groups: vec!["system:authenticated".to_owned()] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_expired() {
    let builder = EmbeddedApiServer::builder().load([shop_objects()]).token("valid", user()).require_token();
    let shop = Shop::of(builder.build().unwrap()).await;
    let kubeconfig = std::fs::read_to_string(shop.kubeconfig.path()).unwrap();
    std::fs::write(shop.kubeconfig.path(), kubeconfig.replace("valid", "expired")).unwrap();
    insta::assert_snapshot!(reported(&shop, &COMMANDS).await, @"
    $ explain cart
    error: Service shop/cart cannot be read: the API server answered 401 Unauthorized; have the credentials expired?
    $ explain pod/cart-0
    error: pod shop/cart-0 cannot be read: the API server answered 401 Unauthorized; have the credentials expired?
    $ lint
    error: the services of namespace shop cannot be listed: the API server answered 401 Unauthorized; have the credentials expired?
    $ diff
    error: the services of namespace shop cannot be listed: the API server answered 401 Unauthorized; have the credentials expired?
    $ cleanup
    error: the endpointslices of namespace shop cannot be listed: the API server answered 401 Unauthorized; have the credentials expired?
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forbidden() {
    let message = r#"it is forbidden: User "jane" cannot read resources in the namespace "shop""#;
    let refuse = Fault::RefuseWith(Status::new(403, "Forbidden", message));
    let shop = Shop::start(vec![FaultRule::new(refuse, |_| true)]).await;
    insta::assert_snapshot!(reported(&shop, &COMMANDS).await, @r#"
    $ explain cart
    error: Service shop/cart cannot be read: it is forbidden: User "jane" cannot read resources in the namespace "shop"
    $ explain pod/cart-0
    error: pod shop/cart-0 cannot be read: it is forbidden: User "jane" cannot read resources in the namespace "shop"
    $ lint
    error: the services of namespace shop cannot be listed: it is forbidden: User "jane" cannot read resources in the namespace "shop"
    $ diff
    error: the services of namespace shop cannot be listed: it is forbidden: User "jane" cannot read resources in the namespace "shop"
    $ cleanup
    error: without Services nothing can be said. You may not read services: it is forbidden: User "jane" cannot read resources in the namespace "shop".
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down() {
    let shop = Shop::start(Vec::new()).await;
    // Nobody listens there any more.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::fs::write(shop.kubeconfig.path(), shop.server.kubeconfig(address)).unwrap();
    let text = reported(&shop, &COMMANDS).await.replace(&address.to_string(), "127.0.0.1:6443");
    insta::assert_snapshot!(text, @"
    $ explain cart
    error: Service shop/cart cannot be read: cannot connect to http://127.0.0.1:6443: Connection refused (os error 111)
    $ explain pod/cart-0
    error: pod shop/cart-0 cannot be read: cannot connect to http://127.0.0.1:6443: Connection refused (os error 111)
    $ lint
    error: the services of namespace shop cannot be listed: cannot connect to http://127.0.0.1:6443: Connection refused (os error 111)
    $ diff
    error: the services of namespace shop cannot be listed: cannot connect to http://127.0.0.1:6443: Connection refused (os error 111)
    $ cleanup
    error: the endpointslices of namespace shop cannot be listed: cannot connect to http://127.0.0.1:6443: Connection refused (os error 111)
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_cannot_be_read() {
    let shop = Shop::start(Vec::new()).await;
    let good = shop.kubeconfig.path().to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("empty", ""), ("blank", " \n"), ("broken", "clusters: ["), ("comment", "# none\n")]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let folder = folder.path().to_str().unwrap();
    let explain = |variable: String| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
        let output =
            command.args(["explain", "cart", "-n", "shop"]).env("KUBECONFIG", variable).output().unwrap();
        stderr(&output) + &stdout(&output)
    };
    let mut told = String::new();
    for name in ["empty", "blank", "missing", ".", "broken", "comment"] {
        told += &explain(format!("{folder}/{name}")).replace(folder, "FOLDER");
    }
    for name in ["empty", "missing", "broken"] {
        told += &explain(format!("{folder}/missing:{folder}/{name}")).replace(folder, "FOLDER");
    }
    insta::assert_snapshot!(told);
    // Beside one that has contents, as for kubectl.
    for name in ["empty", "missing"] {
        let told = explain(format!("{folder}/{name}:{good}"));
        assert!(told.contains("Service shop/cart"), "{told}");
    }
    // As for kubectl, flags may say where the server is.
    let server = format!("http://{}", shop.address());
    std::fs::write(good, "").unwrap();
    let output = shop.run(&["explain", "cart", "--server", &server]).await;
    assert!(stdout(&output).contains("Service shop/cart"), "{}", stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_empty() {
    let shop = Shop::start(Vec::new()).await;
    let commands: [&[&str]; 2] = [&["explain", ""], &["explain", "pod/"]];
    insta::assert_snapshot!(reported(&shop, &commands).await, @"
    $ explain 
    error: the name of the Service is empty
    $ explain pod/
    error: the name of the pod is empty
    ");
}

/// A check in CI must not pass because a namespace is mistyped.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_does_not_exist() {
    let commands = ["explain none", "explain pod/none", "lint", "diff", "cleanup"];
    let shop = Shop::start(Vec::new()).await;
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').collect();
        let output = shop.run_in("nope", &arguments).await;
        let said = (output.status.code(), stderr(&output));
        assert_eq!(said, (Some(2), "error: there is no namespace nope\n".to_owned()), "{command}");
    }
    // An existing namespace may be empty, and a user who may not ask gets no error.
    let check = async |shop: &Shop, namespace: &str| {
        let output = shop.run_in(namespace, &["lint"]).await;
        let said = (output.status.code(), stdout(&output));
        assert_eq!(
            said,
            (Some(0), "0 errors, 0 warnings in 0 Services.\n".to_owned()),
            "{}",
            stderr(&output)
        );
    };
    check(&shop, "default").await;
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    check(&Shop::start(vec![FaultRule::on(refuse, "get", "namespaces")]).await, "nope").await;
}

#[test]
fn a_code_is_explained_without_a_cluster() {
    let explain = |code: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
        command.args(["explain", code]).env("KUBECONFIG", "/nonexistent").output().unwrap()
    };
    assert_eq!(explain("ep066"), explain("EP066"));
    assert_eq!(explain("headless-port"), explain("EP066"));
    let page = explain("EP066");
    assert_eq!(page.status.code(), Some(0), "{}", stderr(&page));
    insta::assert_snapshot!(stdout(&page));
    let unknown = explain("EP999");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("\"EP999\" is no code; write one such as"), "{}", stderr(&unknown));
}

#[test]
fn a_code_is_a_document_and_takes_no_other_flags() {
    let explain = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
        command.arg("explain").args(words).env("KUBECONFIG", "/nonexistent").output().unwrap()
    };
    for code in ["EP066", "headless-port"] {
        let printed = explain(&[code, "-o", "json"]);
        let document: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
        assert_eq!((&document["kind"], &document["code"]), (&"CodeExplanation".into(), &"EP066".into()));
        let yaml = explain(&[code, "-o", "yaml"]);
        assert!(stdout(&yaml).contains("severity: warning"), "{}", stdout(&yaml));
    }
    let wrong: [&[&str]; 7] = [
        &["EP066", "-n", "shop"],
        &["EP066", "--from", "shop/web"],
        &["EP066", "--brief", "-o", "json"],
        &["EP066", "-f", "none.yaml"],
        &["EP066", "--compatibility", "upstream"],
        &["headless-port", "--context", "kind"],
        &["EP066", "-o", "sarif"],
    ];
    for words in wrong {
        let refused = explain(words);
        assert_eq!((refused.status.code(), &*stdout(&refused)), (Some(2), ""), "{words:?}");
    }
    // The namespace shows that the Service is meant.
    let service = explain(&["headless-port", "-n", "shop"]);
    assert!(stderr(&service).contains("kubeconfig"), "{}", stderr(&service));
}

/// The watches of `top` and the page of `ui` would only tell later.
#[tokio::test(flavor = "multi_thread")]
async fn what_runs_for_long_needs_a_server_at_the_start() {
    let shop = Shop::start(Vec::new()).await;
    let top = shop.run(&["top"]).await;
    assert!(stderr(&top).contains("standard input or output is none"), "{}", stderr(&top));
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::fs::write(shop.kubeconfig.path(), shop.server.kubeconfig(address)).unwrap();
    let text = reported(&shop, &[&["top"], &["ui", "--without-manager"]]).await;
    insta::assert_snapshot!(text.replace(&address.to_string(), "127.0.0.1:6443"), @"
    $ top
    error: the version of the server cannot be read: cannot connect to http://127.0.0.1:6443: Connection refused (os error 111)
    $ ui --without-manager
    error: the version of the server cannot be read: cannot connect to http://127.0.0.1:6443: Connection refused (os error 111)
    ");
}
