//! Reads new certificates and CAs, from files and from the ConfigMap that kube-apiserver publishes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube_endpoint_api_client::{ApiClient, CertificatePlace, is_status_not_found, why_request_failed};
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::certificate::ServerCertificate;
use crate::client_ca::{ClientCa, ProxyCa};
use crate::front_proxy::{FrontProxyOptions, RequestHeaders};
use crate::service::WallClock;

/// The ConfigMap in which kube-apiserver publishes the CA of client certificates and how to
/// recognize a front proxy, and the keys of the CAs in it.
const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const NAME: &str = "ConfigMap kube-system/extension-apiserver-authentication";
const PLACE: CertificatePlace = CertificatePlace::ConfigMap(NAME);
const CLIENT_CA: &str = "client-ca-file";
const PROXY_CA: &str = "requestheader-client-ca-file";

/// A ConfigMap holds at most 1 MiB.
const LONGEST_CONFIG_MAP: usize = 4 * 1024 * 1024;

/// Keeps the server's certificate and the CAs up to date.
pub(crate) struct Reload {
    pub(crate) certificate: Arc<ServerCertificate>,
    pub(crate) client_ca: Arc<ClientCa>,
    pub(crate) proxy_ca: Arc<ProxyCa>,
    pub(crate) client_ca_file: Option<PathBuf>,
    pub(crate) front_proxy: Option<FrontProxyOptions>,
    /// Reads the ConfigMap, for the CAs that are in no file.
    pub(crate) api_server: Option<ApiClient>,
    /// The time limit of a request.
    pub(crate) limit: Duration,
    pub(crate) clock: WallClock,
    pub(crate) interval: Duration,
}

impl Reload {
    #[expect(clippy::disallowed_methods, reason = "files are outside of any run that repeats")]
    pub(crate) async fn run(self) {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let of = Arc::new(self);
        loop {
            ticks.tick().await;
            let files = Arc::clone(&of);
            // It only fails when the runtime shuts down.
            let _ = tokio::task::spawn_blocking(move || files.read_files()).await;
            of.look_up().await;
        }
    }

    fn read_files(&self) {
        self.certificate.reload((self.clock)());
        if let Some(path) = &self.client_ca_file {
            self.client_ca.reload(path, &());
        }
        if let Some(FrontProxyOptions { client_ca_file, headers }) = &self.front_proxy {
            self.proxy_ca.reload(client_ca_file, headers);
        }
    }

    async fn look_up(&self) {
        let Some(client) =
            self.api_server.as_ref().filter(|_| self.client_ca_file.is_none() || self.front_proxy.is_none())
        else {
            return;
        };
        let limit = self.limit;
        let read = timeout(limit, config_map(client)).await;
        let data = match read.unwrap_or_else(|_| Err(format!("was not answered within {limit:?}"))) {
            Ok(data) => data,
            // Without a file, both CAs come from the ConfigMap.
            Err(why) if self.client_ca_file.is_none() => return self.client_ca.problem(&PLACE, why),
            Err(why) => return self.proxy_ca.problem(&PLACE, why),
        };
        // As upstream, this waits for the ConfigMap, which a cluster need not have.
        let bundle = |key: &str| data[key].as_str().map(|bundle| bundle.as_bytes().to_vec());
        if self.client_ca_file.is_none() {
            match bundle(CLIENT_CA) {
                Some(bundle) => self.client_ca.update(bundle, &(), &PLACE),
                None => tracing::debug!("{NAME} has no {CLIENT_CA}"),
            }
        }
        if self.front_proxy.is_none() {
            match (bundle(PROXY_CA), RequestHeaders::of_config_map(&data)) {
                (Some(bundle), Ok(headers)) => self.proxy_ca.update(bundle, &headers, &PLACE),
                (Some(_), Err(why)) => self.proxy_ca.problem(&PLACE, why),
                (None, _) => tracing::debug!("{NAME} has no {PROXY_CA}"),
            }
        }
    }
}

/// Returns the data of the ConfigMap, or null if it does not exist.
async fn config_map(client: &ApiClient) -> Result<Value, String> {
    let request = Request::get(PATH).header("accept", "application/json").body(Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let answer = client
        .send(request)
        .await
        .map_err(|error| format!("cannot be read: {}", why_request_failed(&error)))?;
    let status = answer.status();
    if status == StatusCode::FORBIDDEN {
        let hint = "may not be read; bind the Role kube-system/extension-apiserver-authentication-reader";
        return Err(hint.to_owned());
    }
    let body = Limited::new(answer.into_body(), LONGEST_CONFIG_MAP).collect().await;
    let body = body.map_err(|error| format!("cannot be read: {error}"))?.to_bytes();
    if status == StatusCode::NOT_FOUND && is_status_not_found(&body) {
        return Ok(Value::Null);
    }
    if status != StatusCode::OK {
        return Err(format!("cannot be read: HTTP status {status}"));
    }
    let mut map: Value = serde_json::from_slice(&body).map_err(|error| format!("cannot be read: {error}"))?;
    if map["kind"] != "ConfigMap" {
        return Err("cannot be read: the answer is no ConfigMap".to_owned());
    }
    Ok(map["data"].take())
}
