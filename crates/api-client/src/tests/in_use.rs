//! The certificates in use, and when they end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::Config;
use kube::config::ExecConfig;
use serde_json::json;

use super::{Authority, Credentials, Server, get, limits, until};
use crate::certificates::{CertificatePlace, CertificateUse};
use crate::client::{ApiClient, client};

/// Returns a client of the server at `url`, which need not exist.
async fn connected(url: &str, change: impl FnOnce(&mut Config)) -> ApiClient {
    let mut config = Config::new(url.parse().unwrap());
    change(&mut config);
    client(config, limits()).await.unwrap()
}

/// Returns the certificates in use: for what, from where, and in which year they end.
fn in_use(client: &ApiClient) -> Vec<(CertificateUse, CertificatePlace, Result<String, String>)> {
    let used = client.certificates([CertificateUse::ApiServerClient, CertificateUse::ApiServerCa]);
    let year = |end: jiff::Timestamp| end.to_string()[..4].to_owned();
    used.into_iter().map(|used| (used.usage, used.place, used.lifetime.map(|it| year(it.end)))).collect()
}

const SERVER: &str = "https://127.0.0.1:9";
const YEAR: fn(i32) -> Result<String, String> = |year| Ok(year.to_string());

#[tokio::test]
async fn named_files_are_known_and_followed() {
    let (authority, files) = (Authority::until(2040), Credentials::new());
    files.write("ca.crt", authority.pem());
    files.write_identity(&authority.issue_until(2030));
    let file = |name: &str| CertificatePlace::File(files.path(name));
    let path = |name: &str| Some(files.path(name).display().to_string());
    let client = connected(SERVER, |config| {
        config.root_cert_file = Some(files.path("ca.crt"));
        config.auth_info.client_certificate = path("client.crt");
        config.auth_info.client_key = path("client.key");
    })
    .await;
    let check = |client_end: i32, ca_end: i32| {
        vec![
            (CertificateUse::ApiServerClient, file("client.crt"), YEAR(client_end)),
            (CertificateUse::ApiServerCa, file("ca.crt"), YEAR(ca_end)),
        ]
    };
    assert_eq!(in_use(&client), check(2030, 2040));
    let follows = async |want| {
        until("the files are followed", async || {
            client.send(get("/")).await.unwrap_err();
            in_use(&client) == want
        })
        .await;
    };
    // The certificate ends with its leaf, the bundle with its last CA. Text around each has no
    // effect.
    let newer = authority.issue_until(2031);
    files.write("client.crt", format!("text\n{}\n{}text", newer.certificate, authority.pem()));
    files.write("client.key", &newer.key);
    files.write(
        "ca.crt",
        format!("old:\n{}new:\n{}", Authority::until(2020).pem(), Authority::until(2050).pem()),
    );
    follows(check(2031, 2050)).await;
    // The client does not use a broken file.
    for broken in ["", "garbage", "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"] {
        files.write("client.crt", broken);
        files.write("ca.crt", broken);
        tokio::time::sleep(limits().reload * 2).await;
        client.send(get("/")).await.unwrap_err();
        assert_eq!(in_use(&client), check(2031, 2050), "{broken}");
    }
    // A certificate that has expired, or is not valid yet, is the server's affair: the client uses
    // it.
    let expired = authority.issue_until(2020);
    files.write_identity(&expired);
    files.write("ca.crt", authority.pem());
    follows(check(2020, 2040)).await;
}

#[tokio::test]
async fn data_in_the_kubeconfig_is_known() {
    let authority = Authority::until(2040);
    let identity = authority.issue_until(2030);
    let client = connected(SERVER, |config| {
        config.root_cert = Some(vec![authority.der()]);
        config.auth_info.client_certificate_data = Some(BASE64.encode(&identity.certificate));
        config.auth_info.client_key_data = Some(BASE64.encode(&identity.key).into());
    })
    .await;
    let want = [
        (
            CertificateUse::ApiServerClient,
            CertificatePlace::Kubeconfig("client-certificate-data"),
            YEAR(2030),
        ),
        (CertificateUse::ApiServerCa, CertificatePlace::Kubeconfig("certificate-authority-data"), YEAR(2040)),
    ];
    assert_eq!(in_use(&client), want);
}

#[tokio::test]
async fn a_certificate_of_a_plugin_is_known() {
    let authority = Authority::until(2040);
    let identity = authority.issue_until(2030);
    let status = json!({"clientCertificateData": identity.certificate, "clientKeyData": identity.key});
    let answer = json!({"apiVersion": "client.authentication.k8s.io/v1", "status": status}).to_string();
    let client = connected(SERVER, |config| {
        config.root_cert = Some(vec![authority.der()]);
        config.auth_info.exec = Some(ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some("/bin/echo".to_owned()),
            args: Some(vec![answer]),
            ..ExecConfig::default()
        });
    })
    .await;
    let plugin = CertificatePlace::Plugin("/bin/echo".to_owned());
    assert_eq!(in_use(&client)[0], (CertificateUse::ApiServerClient, plugin, YEAR(2030)));
}

#[tokio::test]
async fn there_is_none_with_a_token_without_tls_without_verification_and_for_a_service() {
    let authority = Authority::until(2040);
    let client = connected(SERVER, |config| {
        config.root_cert = Some(vec![authority.der()]);
        config.auth_info.token = Some("token".to_owned().into());
    })
    .await;
    let uses: Vec<CertificateUse> = in_use(&client).into_iter().map(|(usage, ..)| usage).collect();
    assert_eq!(uses, [CertificateUse::ApiServerCa]);
    for (url, insecure) in [("http://127.0.0.1:9", false), (SERVER, true)] {
        let client = connected(url, |config| {
            config.root_cert = Some(vec![authority.der()]);
            config.accept_invalid_certs = insecure;
        })
        .await;
        assert_eq!(in_use(&client), [], "{url}");
    }
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    assert_eq!(in_use(&ApiClient::for_tests(service)), []);
}

#[tokio::test]
async fn a_ca_that_has_expired_still_verifies_the_server() {
    let authority = Authority::until(2020);
    let server = Server::start(&authority).await;
    let client = connected(&server.url(), |config| config.root_cert = Some(vec![authority.der()])).await;
    assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
    assert_eq!(in_use(&client)[0].2, YEAR(2020));
}
