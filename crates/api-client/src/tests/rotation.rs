//! Files with credentials that somebody replaces while the client runs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::BodyExt;
use serde_json::json;

use super::{Authority, Credentials, Identity, Server, config, get, limits, until};
use crate::client::{ApiClient, client};
use crate::timeouts::Timeouts;

/// Starts a server. Returns it, a client that reads its certificate from files, these files, the
/// identity in them, and another one.
async fn with_certificate() -> (Server, ApiClient, Credentials, [Identity; 2]) {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    let identities = [authority.issue(), authority.issue()];
    files.write("ca.crt", authority.pem());
    files.write_identity(&identities[0]);
    let mut config = config(&server, &files.path("ca.crt"));
    config.auth_info.client_certificate = Some(files.path("client.crt").display().to_string());
    config.auth_info.client_key = Some(files.path("client.key").display().to_string());
    let client = client(config, limits()).await.unwrap();
    (server, client, files, identities)
}

#[tokio::test]
async fn a_replaced_client_certificate_is_used_by_new_requests_and_cuts_no_watch_off() {
    let (server, client, files, [old, new]) = with_certificate().await;

    let mut watch = client.send(get("/watch")).await.unwrap().into_body();
    assert!(server.last().is_from(&old));

    // The certificate alone does not match the key: the client uses the previous pair until both
    // are replaced.
    files.write("client.crt", &new.certificate);
    tokio::time::sleep(limits().reload * 2).await;
    for _ in 0..3 {
        assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
        assert!(server.last().is_from(&old));
    }
    files.write("client.key", &new.key);
    until("the new certificate is used", async || {
        assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
        server.last().is_from(&new)
    })
    .await;

    assert_eq!(server.send("still there"), 1);
    assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "still there");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_server_with_a_new_ca_is_accepted_once_the_bundle_is_replaced() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = Server::start(&old).await;
    let files = Credentials::new();
    files.write("ca.crt", old.pem());
    // Only failures make the client look again: the interval is longer than the test.
    let limits = Timeouts { reload: Timeouts::default().reload, ..limits() };
    let mut with_namespace = config(&server, &files.path("ca.crt"));
    with_namespace.default_namespace = "kube-system".to_owned();
    let client = client(with_namespace, limits).await.unwrap();
    assert_eq!(client.kube().default_namespace(), "kube-system");
    let mut watch = client.send(get("/watch")).await.unwrap().into_body();

    server.use_certificate_of(&new);
    let stranger = crate::client::client(config(&server, &files.path("ca.crt")), limits).await.unwrap();
    let error = stranger.send(get("/")).await.unwrap_err();
    let error = kube_endpoint_core_model::causes(&error);
    assert!(error.contains("invalid peer certificate"), "{error}");

    files.write("ca.crt", new.pem());
    until("the new CA is trusted", async || stranger.send(get("/")).await.is_ok()).await;
    assert_eq!(server.send("still there"), 1);
    assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "still there");
}

#[tokio::test]
async fn a_replaced_token_is_used_and_a_removed_one_stays_in_use() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("token", "first\n");
    let mut config = config(&server, &files.path("ca.crt"));
    config.auth_info.token_file = Some(files.path("token").display().to_string());
    let client = client(config, limits()).await.unwrap();
    client.send(get("/")).await.unwrap();
    assert_eq!(server.last().token.as_deref(), Some("first"));

    files.write("token", "second");
    let uses = async |token: &str| {
        client.send(get("/")).await.unwrap();
        server.last().token.as_deref() == Some(token)
    };
    until("the new token is used", async || uses("second").await).await;
    assert_eq!(server.connections(), 1, "a token needs no new connection");

    files.write("token", "");
    tokio::time::sleep(limits().reload * 2).await;
    assert!(uses("second").await);
    std::fs::remove_file(files.path("token")).unwrap();
    tokio::time::sleep(limits().reload * 2).await;
    assert!(uses("second").await);
    files.write("token", "third");
    until("the third token is used", async || uses("third").await).await;
}

/// The kubelet replaces a volume's files together: it points the link `..data`, through which
/// processes reach them, elsewhere.
#[tokio::test]
async fn a_volume_whose_link_is_replaced_gives_the_new_token() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    for version in ["first", "second"] {
        std::fs::create_dir(files.path(version)).unwrap();
        std::fs::write(files.path(version).join("token"), version).unwrap();
    }
    std::os::unix::fs::symlink("first", files.path("..data")).unwrap();
    std::os::unix::fs::symlink("..data/token", files.path("token")).unwrap();
    let mut config = config(&server, &files.path("ca.crt"));
    config.auth_info.token_file = Some(files.path("token").display().to_string());
    let client = client(config, limits()).await.unwrap();
    client.send(get("/")).await.unwrap();
    assert_eq!(server.last().token.as_deref(), Some("first"));

    std::os::unix::fs::symlink("second", files.path("..data_tmp")).unwrap();
    std::fs::rename(files.path("..data_tmp"), files.path("..data")).unwrap();
    std::fs::remove_dir_all(files.path("first")).unwrap();
    until("the new token is used", async || {
        client.send(get("/")).await.unwrap();
        server.last().token.as_deref() == Some("second")
    })
    .await;
}

#[tokio::test]
async fn after_401_the_token_is_read_again_at_once() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("token", "old");
    let mut config = config(&server, &files.path("ca.crt"));
    config.auth_info.token_file = Some(files.path("token").display().to_string());
    let limits = Timeouts { reload: Timeouts::default().reload, ..limits() };
    let client = client(config, limits).await.unwrap();
    tokio::time::sleep(limits.retry).await;

    files.write("token", "new");
    server.accept_only("new");
    assert_eq!(client.send(get("/")).await.unwrap().status(), 401, "the answer goes to the caller");
    assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn credentials_that_are_not_renewed_are_sent_as_kube_sends_them() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("token", "from the file");
    let check = async |user: serde_json::Value, sent: Option<&str>| {
        let mut config = config(&server, &files.path("ca.crt"));
        config.auth_info = serde_json::from_value(user.clone()).unwrap();
        let client = client(config, limits()).await.unwrap();
        assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
        assert_eq!(server.last().token.as_deref(), sent, "{user}");
    };
    let file = files.path("token");
    let plugin = json!({"command": "/no/such/plugin"});
    check(json!({}), None).await;
    check(json!({"token": "fixed"}), Some("fixed")).await;
    check(json!({"token": "fixed", "tokenFile": file, "exec": plugin}), Some("fixed")).await;
    check(json!({"tokenFile": file, "exec": plugin}), Some("from the file")).await;
    check(json!({"username": "me", "password": "pass", "exec": plugin}), Some("Basic bWU6cGFzcw==")).await;
    let provider = json!({"name": "gcp", "config": {"cmd-path": "/bin/echo", "cmd-args": "-n printed"}});
    check(json!({"auth-provider": provider, "tokenFile": file}), Some("printed")).await;
    check(json!({"auth-provider": {"name": "oidc", "config": {"id-token": "id"}}}), Some("id")).await;
}

#[tokio::test]
async fn file_errors_are_one_line() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    let mut errors = Vec::new();
    let mut check = async |prepare: &dyn Fn(&mut kube::Config)| {
        let mut config = config(&server, &files.path("ca.crt"));
        prepare(&mut config);
        let error = client(config, limits()).await.err().map(|error| error.to_string()).unwrap_or_default();
        errors.push(error.replace(files.path("").to_str().unwrap(), "DIR/"));
    };
    let path = |name: &str| Some(files.path(name).display().to_string());
    check(&|_| {}).await;
    files.write("ca.crt", "no PEM");
    check(&|_| {}).await;
    files.write("ca.crt", "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n");
    check(&|_| {}).await;
    files.write("ca.crt", authority.pem());
    check(&|config| config.auth_info.token_file = path("token")).await;
    files.write("token", "\n");
    check(&|config| config.auth_info.token_file = path("token")).await;
    files.write("token", "two\nlines");
    check(&|config| config.auth_info.token_file = path("token")).await;
    let (one, other) = (authority.issue(), authority.issue());
    files.write("client.crt", one.certificate);
    files.write("client.key", other.key);
    check(&|config| config.auth_info.client_certificate = path("client.crt")).await;
    check(&|config| {
        config.auth_info.client_certificate = path("client.crt");
        config.auth_info.client_key = path("client.key");
    })
    .await;
    assert!(errors.iter().all(|error| !error.is_empty() && !error.contains("\n")), "{errors:#?}");
    insta::assert_snapshot!(errors.join("\n"));
}

/// rustls calls such a certificate an invalid private key.
#[tokio::test]
async fn a_client_certificate_of_version_1_is_named_as_such() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    files.write("client.crt", include_str!("version-1.crt"));
    files.write("client.key", &authority.issue().key);
    let said = "is of X.509 version 1, and only version 3 can be used; issue it again with an extension, such as \
                extendedKeyUsage (openssl x509 -req -extfile FILE)";
    let mut config = config(&server, &files.path("ca.crt"));
    config.auth_info.client_certificate = Some(files.path("client.crt").display().to_string());
    config.auth_info.client_key = Some(files.path("client.key").display().to_string());
    let error = client(config.clone(), limits()).await.err().unwrap().to_string();
    let path = files.path("client.crt");
    assert_eq!(error, format!("{}, the client certificate for the API server, {said}", path.display()));
    config.auth_info.client_certificate = None;
    config.auth_info.client_certificate_data = Some(BASE64.encode(include_bytes!("version-1.crt")));
    let error = client(config, limits()).await.err().unwrap().to_string();
    assert_eq!(error, format!("the client certificate for the API server {said}"));
}
