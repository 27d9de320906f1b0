//! Tests of the sources and the replacement of the server's certificate and the client CA.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kube_endpoint_api_client::{ApiClient, CertificatePlace, CertificateUse};
use kube_endpoint_serving::{
    CertificateSource, FrontProxyOptions, HealthChecks, RequestHeaders, ReviewClients, Server, ServingError,
    ServingOptions,
};
use parking_lot::Mutex;
use rcgen::date_time_ymd;
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tower::{ServiceExt, service_fn};
use x509_cert::Certificate;
use x509_cert::der::Decode;

use crate::common::{
    Authority, Client, Files, Identity, NOW, Running, SCRAPER, api_server, pages, start, start_with, until,
};
use crate::mounted::Mounted;

/// Returns the certificate that the server shows now.
async fn shown(server: &Running) -> CertificateDer<'static> {
    let stream = Client::default().connect(server.address).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

fn der(identity: &Identity) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()
}

/// Returns the error of a server with these options.
async fn error(change: impl FnOnce(&mut ServingOptions)) -> ServingError {
    let mut options = ServingOptions::new("127.0.0.1:0".parse().unwrap());
    change(&mut options);
    let pages = pages(HealthChecks::default(), &Mounted::default());
    let server = Server::bind(options, ReviewClients::default(), pages, || NOW.parse().unwrap()).await;
    server.err().expect("an error")
}

#[tokio::test]
async fn without_files_the_certificate_is_self_signed() {
    let server = start(|_| {}).await;
    let certificate = Certificate::from_der(&shown(&server).await).unwrap();
    let certificate = certificate.tbs_certificate();
    assert_eq!(certificate.subject().to_string(), "CN=localhost@1796083200");
    let validity = certificate.validity();
    assert_eq!(
        (validity.not_before.to_string(), validity.not_after.to_string()),
        ("2026-11-30T00:00:00Z".to_owned(), "2027-12-01T00:00:00Z".to_owned())
    );
    assert_ne!(shown(&start(|_| {}).await).await, shown(&server).await);
}

#[tokio::test]
async fn a_certificate_directory_keeps_the_generated_pair() {
    let files = Files::new();
    let directory = files.path("a/b");
    let source = CertificateSource::Directory(directory.clone());
    let server = start(|options| options.certificate = source.clone()).await;
    let certificate = shown(&server).await;
    let stored = std::fs::read(directory.join("kube-endpoint-manager.crt")).unwrap();
    assert_eq!(CertificateDer::from_pem_slice(&stored).unwrap(), certificate);
    let key = directory.join("kube-endpoint-manager.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    drop(server);
    assert_eq!(shown(&start(|options| options.certificate = source.clone()).await).await, certificate);
    std::fs::remove_file(&key).unwrap();
    let error = error(|options| options.certificate = source).await.to_string();
    assert!(error.contains("exists without") && error.contains(".key"), "{error}");
}

#[tokio::test]
async fn the_certificates_in_use_are_known() {
    let (authority, files) = (Authority::new("ca"), Files::new());
    let [clients, proxies] = ["clients.crt", "proxies.crt"].map(|name| files.write(name, authority.pem()));
    let mut options = ServingOptions::new("127.0.0.1:0".parse().unwrap());
    let bind = async |options: &ServingOptions| {
        let pages = pages(HealthChecks::default(), &Mounted::default());
        let server = Server::bind(options.clone(), ReviewClients::default(), pages, || NOW.parse().unwrap());
        let used = server.await.unwrap().certificates()();
        used.into_iter()
            .map(|used| (used.usage, used.place, used.lifetime.unwrap().end.to_string()))
            .collect::<Vec<_>>()
    };
    let serving = || {
        let end = "2027-12-01T00:00:00Z".to_owned();
        (CertificateUse::Serving, CertificatePlace::Memory, end)
    };
    assert_eq!(bind(&options).await, [serving()]);
    options.client_ca_file = Some(clients.clone());
    let headers = RequestHeaders::default();
    options.front_proxy = Some(FrontProxyOptions { client_ca_file: proxies.clone(), headers });
    let ca = |usage, path| (usage, CertificatePlace::File(path), "4096-01-01T00:00:00Z".to_owned());
    let cas = [ca(CertificateUse::ClientCa, clients), ca(CertificateUse::FrontProxyCa, proxies)];
    assert_eq!(bind(&options).await, [&[serving()][..], &cas].concat());
}

#[tokio::test]
async fn a_replaced_certificate_is_used_by_new_connections() {
    let (authority, files) = (Authority::new("ca"), Files::new());
    let [old, new] = [(); 2].map(|()| authority.issue("server", None, |_| {}));
    let certificate = files.write("tls.crt", &old.certificate);
    let key = files.write("tls.key", &old.key);
    let server = start(|options| options.certificate = CertificateSource::Files { certificate, key }).await;
    assert_eq!(shown(&server).await, der(&old));
    // Half of a pair, no PEM and nothing at all leave the old pair in use.
    files.write("tls.crt", &new.certificate);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(shown(&server).await, der(&old));
    files.write("tls.key", "no key");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(shown(&server).await, der(&old));
    std::fs::remove_file(files.path("tls.crt")).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(shown(&server).await, der(&old));
    files.write("tls.key", &new.key);
    files.write("tls.crt", &new.certificate);
    until("the new certificate is used", async || shown(&server).await == der(&new)).await;
}

#[tokio::test]
async fn a_replaced_client_ca_also_applies_to_open_connections() {
    let (old, new, files) = (Authority::new("old"), Authority::new("new"), Files::new());
    let path = files.write("ca.crt", old.pem());
    let server = start(|options| options.client_ca_file = Some(path)).await;
    let alice = old.issue("alice", None, |_| {});
    let newer = new.issue("alice", None, |_| {});
    assert_eq!(server.get_as(&alice, "/metrics").await.status, 200);
    assert_eq!(server.get_as(&newer, "/metrics").await.status, 401);
    let mut open =
        Client { identity: Some(&alice), ..Client::default() }.connect(server.address).await.unwrap();
    for broken in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        files.write("ca.crt", broken);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert_eq!(server.get_as(&alice, "/metrics").await.status, 200, "{broken:?}");
    }
    files.write("ca.crt", new.pem());
    until("the new CA is used", async || server.get_as(&newer, "/metrics").await.status == 200).await;
    assert_eq!(server.get_as(&alice, "/metrics").await.status, 401);
    use tokio::io::AsyncWriteExt;
    open.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    open.flush().await.unwrap();
    assert_eq!(crate::common::read_reply(&mut open).await.unwrap().status, 401);
    // Both CAs count during a rotation.
    files.write("ca.crt", old.pem() + &new.pem());
    until("both CAs are used", async || server.get_as(&alice, "/metrics").await.status == 200).await;
    assert_eq!(server.get_as(&newer, "/metrics").await.status, 200);
}

/// Returns the data of the ConfigMap with a client CA.
fn client_ca(bundle: &str) -> Value {
    json!({"client-ca-file": bundle})
}

/// Returns an API server that also has the ConfigMap with the CAs; without data the ConfigMap does
/// not exist.
pub(crate) fn with_config_map(
    data: Arc<Mutex<Option<Value>>>,
    asked: Arc<AtomicUsize>,
) -> (ApiClient, ReviewClients) {
    let api = api_server();
    let service = api.service();
    let with_map = service_fn(move |request: Request<Body>| {
        let (service, data, asked) = (service.clone(), Arc::clone(&data), Arc::clone(&asked));
        async move {
            let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
            if request.uri().path() != path {
                let answer = service.oneshot(request).await.map_err(tower::BoxError::from)?;
                let (head, body) = answer.into_parts();
                let body = body.collect().await.map_err(tower::BoxError::from)?.to_bytes();
                return Ok::<_, tower::BoxError>(Response::from_parts(head, Body::from(body)));
            }
            asked.fetch_add(1, Ordering::Relaxed);
            let (status, body) = match &*data.lock() {
                Some(data) => (200, json!({"kind": "ConfigMap", "data": data})),
                None => (404, json!({"kind": "Status", "reason": "NotFound", "code": 404})),
            };
            Ok(Response::builder().status(status).body(Body::from(body.to_string().into_bytes()))?)
        }
    });
    let client = ApiClient::for_tests(with_map);
    (client.clone(), ReviewClients { authentication: Some(client.clone()), authorization: Some(client) })
}

#[tokio::test]
async fn the_client_ca_of_the_cluster_is_used_when_it_appears() {
    let (data, asked) = (Arc::default(), Arc::default());
    let (_, clients) = with_config_map(Arc::clone(&data), Arc::clone(&asked));
    let server = start_with(api_server(), clients, |_| {}).await;
    let (authority, other) = (Authority::new("cluster"), Authority::new("other"));
    let alice = authority.issue("alice", None, |_| {});
    until("the ConfigMap is looked up", async || asked.load(Ordering::Relaxed) >= 2).await;
    assert_eq!(server.get_as(&alice, "/metrics").await.status, 403);
    *data.lock() = Some(client_ca(&authority.pem()));
    until("the CA is used", async || server.get_as(&alice, "/metrics").await.status == 200).await;
    let mallory = other.issue("alice", None, |_| {});
    assert_eq!(server.get_as(&mallory, "/metrics").await.status, 401);
    // It stays in use when the ConfigMap is gone, or holds nothing usable.
    for broken in [None, Some(client_ca("")), Some(json!({}))] {
        *data.lock() = broken;
        let before = asked.load(Ordering::Relaxed);
        until("it is looked up", async || asked.load(Ordering::Relaxed) >= before + 2).await;
        assert_eq!(server.get_as(&alice, "/metrics").await.status, 200);
    }
}

#[tokio::test]
async fn a_file_takes_the_place_of_the_cluster_ca() {
    let (cluster, own, files) = (Authority::new("cluster"), Authority::new("own"), Files::new());
    let asked = Arc::new(AtomicUsize::new(0));
    let data = Arc::new(Mutex::new(Some(client_ca(&cluster.pem()))));
    let (_, clients) = with_config_map(data, Arc::clone(&asked));
    let path = files.write("ca.crt", own.pem());
    let front_proxy = FrontProxyOptions { client_ca_file: path.clone(), headers: RequestHeaders::default() };
    let server = start_with(api_server(), clients.clone(), |options| {
        options.client_ca_file = Some(path.clone());
        options.front_proxy = Some(front_proxy);
    })
    .await;
    assert_eq!(server.get_as(&own.issue("alice", None, |_| {}), "/metrics").await.status, 200);
    assert_eq!(server.get_as(&cluster.issue("alice", None, |_| {}), "/metrics").await.status, 401);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    // The ConfigMap may still say how to recognize a front proxy.
    let server = start_with(api_server(), clients, |options| options.client_ca_file = Some(path)).await;
    until("the ConfigMap is looked up", async || asked.load(Ordering::Relaxed) >= 2).await;
    assert_eq!(server.get_as(&own.issue("alice", None, |_| {}), "/metrics").await.status, 200);
    assert_eq!(server.get_as(&cluster.issue("alice", None, |_| {}), "/metrics").await.status, 401);
}

#[tokio::test]
async fn unusable_files_are_errors_that_say_what_to_do() {
    let (authority, files) = (Authority::new("ca"), Files::new());
    let [pair, other] = [(); 2].map(|()| authority.issue("server", None, |_| {}));
    let certificate = files.write("tls.crt", &pair.certificate);
    let key = files.write("tls.key", &pair.key);
    let wrong = files.write("wrong.key", &other.key);
    let empty = files.write("empty", "");
    let broken = files.write("broken.crt", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    let missing = files.path("missing");
    let mut errors = String::new();
    for (certificate, key) in [
        (&certificate, &wrong),
        (&certificate, &empty),
        (&empty, &key),
        (&broken, &key),
        (&missing, &key),
        (&certificate, &missing),
    ] {
        let source = CertificateSource::Files { certificate: certificate.clone(), key: key.clone() };
        errors += &format!("{}\n", error(|options| options.certificate = source).await);
    }
    for path in [&empty, &broken, &missing] {
        errors += &format!("{}\n", error(|options| options.client_ca_file = Some(path.clone())).await);
    }
    let front_proxy = FrontProxyOptions { client_ca_file: missing, headers: RequestHeaders::default() };
    errors += &format!("{}\n", error(|options| options.front_proxy = Some(front_proxy)).await);
    let in_use = start(|_| {}).await;
    errors += &format!("{}\n", error(|options| options.address = in_use.address).await);
    let errors = errors.replace(&files.0.path().display().to_string(), "DIR");
    insta::assert_snapshot!(errors.replace(&in_use.address.to_string(), "ADDRESS"));
}

#[tokio::test]
async fn a_token_is_used_where_the_certificate_is_not_valid_any_more() {
    let (authority, files) = (Authority::new("ca"), Files::new());
    let path = files.write("ca.crt", authority.pem());
    let server = start(|options| options.client_ca_file = Some(path)).await;
    let expired = authority.issue("alice", None, |params| params.not_after = date_time_ymd(2026, 11, 1));
    let client = Client { identity: Some(&expired), ..Client::default() };
    let header = format!("Authorization: Bearer {SCRAPER}\r\n");
    assert_eq!(client.get(server.address, "/metrics", &header).await.status, 200);
    assert_eq!(client.get(server.address, "/metrics", "").await.status, 401);
}
