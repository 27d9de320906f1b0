//! Users that a front proxy names in headers.

use std::path::PathBuf;

use kube_endpoint_serving::{FrontProxyOptions, RequestHeaders};
use tokio::io::AsyncWriteExt;

use crate::certificates::with_config_map;
use crate::common::{
    Authority, Client, Files, Identity, Reply, Running, SCRAPER, api_server, read_reply, self_signed, start,
    start_with, until,
};

/// The common name that the proxy's certificate must have.
const PROXY: &str = "front-proxy-client";

/// The headers that a proxy sends for a user who may read the metrics.
const ALICE: &str = "X-Remote-User: alice\r\nX-Remote-Group: staff\r\n";

/// Headers that give every right.
const ADMIN: &str = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n";

fn headers(allowed: &[&str]) -> RequestHeaders {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
    RequestHeaders {
        username: list(&["x-remote-user"]),
        group: list(&["x-remote-group"]),
        extra_prefixes: list(&["x-remote-extra-"]),
        allowed_names: list(allowed),
        ..RequestHeaders::default()
    }
}

/// Returns a server with a front proxy's CA, and a client CA.
async fn server(client_ca: Option<PathBuf>, proxy_ca: PathBuf) -> Running {
    start(|options| {
        options.client_ca_file = client_ca;
        options.front_proxy =
            Some(FrontProxyOptions { client_ca_file: proxy_ca, headers: headers(&[PROXY]) });
    })
    .await
}

async fn get(server: &Running, identity: Option<&Identity>, headers: &str) -> Reply {
    Client { identity, ..Client::default() }.get(server.address, "/metrics", headers).await
}

#[tokio::test]
async fn a_front_proxy_names_the_user() {
    let (authority, files) = (Authority::new("front-proxy-ca"), Files::new());
    let server = server(None, files.write("ca.crt", authority.pem())).await;
    let proxy = authority.issue(PROXY, None, |_| {});
    assert_eq!(get(&server, Some(&proxy), ALICE).await.status, 200);
    // The rights are those of the user, and not those of the proxy.
    let reply = get(&server, Some(&proxy), "X-Remote-User: bob\r\n").await;
    assert!(reply.status == 403 && reply.body.contains("User \\\"bob\\\" cannot get"), "{reply:?}");
    let reply = get(&server, Some(&proxy), "X-Remote-User: carol\r\nX-Remote-Group: scrapers\r\n").await;
    assert_eq!(reply.status, 200, "a group counts");
    assert_eq!(get(&server, Some(&proxy), ADMIN).await.status, 200);
    assert_eq!(server.reviews("tokenreviews"), 0);
}

/// Each request of a connection has a user of its own.
#[tokio::test]
async fn the_user_of_one_request_is_not_that_of_the_next() {
    let (authority, files) = (Authority::new("front-proxy-ca"), Files::new());
    let server = server(None, files.write("ca.crt", authority.pem())).await;
    let proxy = authority.issue(PROXY, None, |_| {});
    let client = Client { identity: Some(&proxy), ..Client::default() };
    let mut stream = client.connect(server.address).await.unwrap();
    let first = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{ALICE}\r\n");
    let second =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Remote-User: bob\r\n\r\n";
    stream.write_all(format!("{first}{second}").as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let text = read_reply(&mut stream).await.unwrap();
    assert_eq!(text.status, 200);
    assert!(text.body.contains("HTTP/1.1 403 Forbidden"), "{text:?}");
}

#[tokio::test]
async fn headers_without_the_certificate_of_a_front_proxy_name_nobody() {
    let (proxies, clients, files) = (Authority::new("proxies"), Authority::new("clients"), Files::new());
    let client_ca = files.write("client-ca.crt", clients.pem());
    let server = server(Some(client_ca), files.write("proxy-ca.crt", proxies.pem())).await;
    let check = async |what: &str, identity: Option<&Identity>, status: u16| {
        for headers in [ALICE, ADMIN] {
            let reply = get(&server, identity, headers).await;
            assert_eq!(reply.status, status, "{what}: {reply:?}");
        }
    };
    check("no certificate", None, 403).await;
    check("a certificate of no CA", Some(&self_signed(PROXY)), 401).await;
    let other = Authority::new("proxies");
    check("a CA of the same name", Some(&other.issue(PROXY, None, |_| {})), 401).await;
    check("a name that is not allowed", Some(&proxies.issue("mallory", None, |_| {})), 401).await;
    check("no name", Some(&proxies.issue("", None, |_| {})), 401).await;
    let expired = proxies.issue(PROXY, None, |params| params.not_after = rcgen::date_time_ymd(2026, 11, 1));
    check("an expired certificate", Some(&expired), 401).await;
    let of_server = proxies.issue(PROXY, None, |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    });
    check("a certificate of a server", Some(&of_server), 401).await;
    // A client's certificate names the client, whatever its name and the headers are.
    check("a client named like the proxy", Some(&clients.issue(PROXY, None, |_| {})), 403).await;
    let alice = clients.issue("alice", None, |_| {});
    assert_eq!(get(&server, Some(&alice), "X-Remote-User: bob\r\n").await.status, 200);
}

#[tokio::test]
async fn a_front_proxy_that_names_nobody_may_read_nothing() {
    let (proxies, clients, files) = (Authority::new("proxies"), Authority::new("clients"), Files::new());
    let proxy = proxies.issue(PROXY, Some("system:masters"), |_| {});
    let ca = files.write("proxy-ca.crt", proxies.pem());
    let alone = server(None, ca.clone()).await;
    let both = server(Some(files.write("client-ca.crt", clients.pem())), ca).await;
    for headers in ["", "X-Remote-User: \r\n", "X-Remote-Group: system:masters\r\n"] {
        assert_eq!(get(&alone, Some(&proxy), headers).await.status, 403, "{headers}");
        assert_eq!(get(&both, Some(&proxy), headers).await.status, 401, "{headers}");
    }
    // It may have a token.
    let token = format!("Authorization: Bearer {SCRAPER}\r\n");
    assert_eq!(get(&both, Some(&proxy), &token).await.status, 200);
    let both_name = format!("{token}X-Remote-User: bob\r\n");
    assert_eq!(get(&both, Some(&proxy), &both_name).await.status, 403, "the headers come first");
}

#[tokio::test]
async fn the_front_proxy_of_the_cluster_is_known_when_it_appears() {
    let (data, asked) = (std::sync::Arc::default(), std::sync::Arc::default());
    let (_, clients) = with_config_map(std::sync::Arc::clone(&data), std::sync::Arc::clone(&asked));
    let server = start_with(api_server(), clients, |_| {}).await;
    let authority = Authority::new("front-proxy-ca");
    let proxy = authority.issue(PROXY, None, |_| {});
    let other = authority.issue("other", None, |_| {});
    assert_eq!(get(&server, Some(&proxy), ALICE).await.status, 403, "it is not known yet");
    let with_names = |names: &str| {
        serde_json::json!({
            "requestheader-client-ca-file": authority.pem(),
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
            "requestheader-allowed-names": names,
        })
    };
    *data.lock() = Some(with_names("[\"front-proxy-client\"]"));
    let status = async |identity| get(&server, Some(identity), ALICE).await.status;
    until("the proxy is known", async || status(&proxy).await == 200).await;
    assert_eq!(status(&other).await, 401);
    // If the ConfigMap is broken or gone, the last CA stays in use.
    for broken in [Some(with_names("front-proxy-client")), None] {
        *data.lock() = broken;
        let before = asked.load(std::sync::atomic::Ordering::Relaxed);
        let again = async || asked.load(std::sync::atomic::Ordering::Relaxed) >= before + 2;
        until("it is looked up", again).await;
        assert_eq!((status(&proxy).await, status(&other).await), (200, 401));
    }
    *data.lock() = Some(with_names("[\"other\"]"));
    until("another name is allowed", async || status(&other).await == 200).await;
    assert_eq!(status(&proxy).await, 401);
}
