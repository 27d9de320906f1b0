//! Tests the listener with TLS, with a client that trusts its CA only.

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, ListenOptions, Listener, User};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::protocol::common::*;

const TLS: ListenOptions = ListenOptions { allow_any_address: false, tls: true };

fn server() -> EmbeddedApiServer {
    let user = User { name: "alice".to_owned(), groups: vec![] };
    // Clients compare the certificate with the time of the machine.
    #[expect(clippy::disallowed_methods, reason = "a real client checks the certificate")]
    let now = jiff::Timestamp::now();
    let builder = EmbeddedApiServer::builder().start_time(now).token("secret", user).require_token();
    builder.build().unwrap()
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn listen(server: &EmbeddedApiServer, address: &str) -> Listener {
    server.listen_with(address.parse().unwrap(), TLS).await.unwrap()
}

#[tokio::test]
async fn the_kubeconfig_has_the_ca_and_no_token_in_its_url() {
    let server = server();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = listen(&server, address).await;
        let kubeconfig = server.kubeconfig_of(&listener);
        let url = format!("https://{}", listener.address());
        assert_eq!(listener.url(), url);
        assert!(
            kubeconfig.contains(&format!("server: \"{url}\", certificate-authority-data: ")),
            "{kubeconfig}"
        );
        assert!(kubeconfig.contains("user: {token: \"secret\"}"), "{kubeconfig}");
        let version = client(&kubeconfig).await.apiserver_version().await.unwrap();
        assert_eq!(version.minor, "36");
        // The certificate is valid for the name, too.
        let by_name = kubeconfig.replace(&url, &format!("https://localhost:{}", listener.address().port()));
        if address.starts_with("127") {
            client(&by_name).await.list_core_api_versions().await.unwrap();
        }
        listener.shutdown().await;
    }
}

/// kubectl asks for a user name if a kubeconfig has no credentials.
#[tokio::test]
async fn a_server_without_tokens_has_a_kubeconfig_with_one() {
    #[expect(clippy::disallowed_methods, reason = "a real client checks the certificate")]
    let now = jiff::Timestamp::now();
    let server = EmbeddedApiServer::builder().start_time(now).build().unwrap();
    let listener = listen(&server, "127.0.0.1:0").await;
    let kubeconfig = server.kubeconfig_of(&listener);
    assert!(kubeconfig.contains("user: {token: \"unchecked\"}"), "{kubeconfig}");
    client(&kubeconfig).await.list_core_api_versions().await.unwrap();
    // Nobody checks it.
    let other = kubeconfig.replace("unchecked", "other");
    client(&other).await.list_core_api_versions().await.unwrap();
}

#[tokio::test]
async fn another_listener_has_another_ca() {
    let server = server();
    let (one, other) = (listen(&server, "127.0.0.1:0").await, listen(&server, "127.0.0.1:0").await);
    assert_ne!(one.certificate_authority(), other.certificate_authority());
    let wrong = server.kubeconfig_of(&one).replace(&one.url(), &other.url());
    let error = client(&wrong).await.apiserver_version().await.unwrap_err();
    assert!(
        format!("{error:?}").contains("UnknownIssuer") || format!("{error:?}").contains("BadSignature"),
        "{error:?}"
    );
}

/// A client that sends nothing, or no TLS, does not hold the listener up. One that sends a request
/// without TLS learns why it is disconnected.
#[tokio::test]
async fn a_client_without_tls_is_disconnected() {
    let server = server();
    let listener = listen(&server, "127.0.0.1:0").await;
    let _silent = TcpStream::connect(listener.address()).await.unwrap();
    let answer_to = async |sent: &[u8]| {
        let mut plain = TcpStream::connect(listener.address()).await.unwrap();
        plain.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        let ended = plain.read_to_end(&mut answer).await;
        (ended.is_ok(), String::from_utf8_lossy(&answer).into_owned())
    };
    let (ended, answer) = answer_to(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(ended && answer.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"), "{answer}");
    let (_, answer) = answer_to(b"\0neither\r\n\r\n").await;
    assert!(!answer.contains("HTTP"), "{answer}");
    client(&server.kubeconfig_of(&listener)).await.apiserver_version().await.unwrap();
    listener.shutdown().await;
}

#[tokio::test]
async fn in_process_nothing_changes() {
    let server = server();
    let _listener = listen(&server, "127.0.0.1:0").await;
    Raw::of(server.service()).get("/version").await.expect(200);
}
