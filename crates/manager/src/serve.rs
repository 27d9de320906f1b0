//! Makes the server of health, metrics and status pages from the settings and a manager.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::{ApiClient, CertificateUse};
use kube_endpoint_core_model::Timestamp;
use kube_endpoint_leader_election::LeaseHealth;
use kube_endpoint_serving::{
    CertificateSource, HealthChecks, Page, Pages, Probe, ReviewClients, Server, ServingError, ServingOptions,
    StatusPage,
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;

use crate::configz::configz;
use crate::connect::{ConnectError, connect};
use crate::manager::{Manager, ManagerHandle};
use crate::metrics::{metrics_recorder, without_removed};
use crate::open_files::connections_that_fit;
use crate::own_thread::on_own_thread;
use crate::process_metrics::{self, with_cpu_time};
use crate::settings::{ServingSettings, Settings};
use crate::slis::Slis;

/// The name of this program on its pages, and the key of its settings in `/configz`.
const COMPONENT: &str = "kube-endpoint-manager";

/// The name of the server's thread. Linux shows 15 characters.
const THREAD: &str = "secure-serving";

/// The period in which the recorder of metrics puts samples of histograms into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// The error of a server that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot use the port, a certificate or a CA.
    #[error(transparent)]
    Serving(#[from] ServingError),
    /// The process cannot install the recorder of metrics, or cannot make one.
    #[error("cannot record metrics: {0}")]
    Metrics(String),
    /// No client can be made from a kubeconfig for reviews.
    #[error("invalid value {path:?} for {option}: {why}")]
    Connect {
        option: &'static str,
        /// Its value.
        path: PathBuf,
        why: ConnectError,
    },
}

/// The data of the pages besides the manager and its settings.
#[derive(Clone)]
pub struct PageSources {
    /// The version of the program, for `/statusz`.
    pub version: String,
    /// The value of each flag, for `/flagz`; see [`flag_values`](crate::flag_values).
    pub flags: BTreeMap<String, String>,
    /// The handle of the installed recorder; [`metrics_recorder`](crate::metrics_recorder) makes
    /// one.
    pub metrics: Option<PrometheusHandle>,
    /// Makes `/metrics/slis`. If this is `None`, the page has the results of the health checks.
    pub slis: Option<Page<String>>,
}

impl PageSources {
    /// Installs the recorder of metrics for the whole process. Call it once, before
    /// [`Manager::new`].
    ///
    /// # Errors
    ///
    /// [`ServeError::Metrics`] if the process already has a recorder.
    pub fn install(version: impl Into<String>, flags: BTreeMap<String, String>) -> Result<Self, ServeError> {
        let recorder = metrics_recorder().map_err(|error| ServeError::Metrics(error.to_string()))?;
        let handle = recorder.handle();
        ::metrics::set_global_recorder(recorder).map_err(|error| ServeError::Metrics(error.to_string()))?;
        Ok(Self { version: version.into(), flags, metrics: Some(handle), slis: None })
    }
}

impl Manager {
    /// Opens the port of `settings.serving`, if there is one, and serves while [`Manager::run`]
    /// runs, its shutdown included. The server has a thread and a runtime of its own, so that
    /// clients that begin many TLS handshakes delay no controller and no renewal of the lease.
    ///
    /// `client` asks the API server about users and permissions, unless the settings name other
    /// kubeconfigs, and reads what the pages explain. Pass one that nothing else uses: its
    /// connections belong to the server's runtime. `clock` reads the current time. Returns the
    /// address, and the health checks, to which callers may add.
    ///
    /// # Errors
    ///
    /// If the port is not available, or a file with a certificate, CA or kubeconfig is unusable.
    pub async fn serve(
        &mut self,
        client: &ApiClient,
        settings: &Settings,
        sources: PageSources,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Option<Serving>, ServeError> {
        let upkeep = sources.metrics.clone();
        let serving = match &settings.serving {
            Some(serving) => {
                let health = health_checks(&self.handle(), self.lease_health());
                let clients = review_clients(client, serving).await?;
                self.watch_certificates_of(&clients, serving);
                let clock: Arc<dyn Fn() -> Timestamp + Send + Sync> = Arc::new(clock);
                #[cfg(feature = "ui")]
                let mounted = vec![self.ui(client, settings, &sources.version, Arc::clone(&clock)).pages()];
                #[cfg(not(feature = "ui"))]
                let mounted = Vec::new();
                let pages = Pages { mounted, ..pages(&self.handle(), health.clone(), settings, sources) };
                let mut options = options(serving);
                options.limits.connections = connections_that_fit(options.limits.connections, settings);
                let server = Server::bind(options, clients, pages, move || clock()).await?;
                let address = server.local_addr().ok();
                self.handle().certificates().add(server.certificates());
                self.add_task("secure serving", on_own_thread(THREAD, server.run()));
                Some(Serving { address, health })
            }
            None => None,
        };
        // Without this task, the samples of histograms would accumulate until the next scrape.
        if let Some(metrics) = upkeep {
            self.add_task("metrics upkeep", async move {
                let mut ticks = tokio::time::interval(UPKEEP);
                loop {
                    ticks.tick().await;
                    metrics.run_upkeep();
                }
            });
        }
        Ok(serving)
    }

    /// Adds the certificates of the clients that have a kubeconfig of their own.
    fn watch_certificates_of(&self, clients: &ReviewClients, settings: &ServingSettings) {
        use CertificateUse::{AuthenticationCa, AuthenticationClient, AuthorizationCa, AuthorizationClient};

        let clients = [
            (
                &settings.authentication_kubeconfig,
                &clients.authentication,
                [AuthenticationClient, AuthenticationCa],
            ),
            (
                &settings.authorization_kubeconfig,
                &clients.authorization,
                [AuthorizationClient, AuthorizationCa],
            ),
        ];
        for (kubeconfig, client, uses) in clients {
            if let (Some(_), Some(client)) = (kubeconfig, client.clone()) {
                self.handle().certificates().add(move || client.certificates(uses));
            }
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Serving {
    /// The address on which it listens, if the operating system tells it.
    pub address: Option<SocketAddr>,
    pub health: HealthChecks,
}

/// Returns the checks of a manager. It is alive if no task has died, and it does not hold the lease
/// long past its expiry. The API server, the informers and the role of a standby never count, so
/// that an outage restarts no process. It is ready if all caches have been filled once and the
/// shutdown has not begun.
fn health_checks(manager: &ManagerHandle, lease: Option<LeaseHealth>) -> HealthChecks {
    let health = HealthChecks::default();
    let of = manager.clone();
    health.add(Probe::Livez, "workers", move || match of.dead_task() {
        None => Ok(()),
        Some(task) => Err(format!("the task {task:?} ended")),
    });
    if let Some(lease) = lease {
        health.add(Probe::Livez, "leaderElection", move || lease.check().map_err(|error| error.to_string()));
    }
    let of = manager.clone();
    health.add_with_warning(Probe::Readyz, "informer-sync", move || {
        let unlisted = of.unlisted();
        if unlisted.is_empty() {
            let unreadable: BTreeSet<String> =
                of.unreadable().into_iter().map(|unreadable| unreadable.namespace).collect();
            let all = of.cluster().watched_namespaces().names().len();
            return Ok((!unreadable.is_empty()).then(|| {
                let of_all = if all == 0 { String::new() } else { format!(" of {all}") };
                format!("{}{of_all} namespaces cannot be read, see /statusz", unreadable.len())
            }));
        }
        let unlisted: Vec<String> = unlisted.iter().map(ToString::to_string).collect();
        Err(format!("the caches have not been filled yet: {}", unlisted.join("; ")))
    });
    let of = manager.clone();
    health.add(Probe::Readyz, "shutdown", move || match of.is_shutting_down() {
        false => Ok(()),
        true => Err("process is shutting down".to_owned()),
    });
    health
}

async fn review_clients(client: &ApiClient, settings: &ServingSettings) -> Result<ReviewClients, ServeError> {
    let of = async |option, path: &Option<PathBuf>| match path {
        None => Ok(client.clone()),
        Some(path) => connect(Some(path), None).await.map_err(|why| {
            let path = path.clone();
            ServeError::Connect { option, path, why }
        }),
    };
    Ok(ReviewClients {
        authentication: Some(of("--authentication-kubeconfig", &settings.authentication_kubeconfig).await?),
        authorization: Some(of("--authorization-kubeconfig", &settings.authorization_kubeconfig).await?),
    })
}

fn options(settings: &ServingSettings) -> ServingOptions {
    let mut options = ServingOptions::new(SocketAddr::new(settings.bind_address, settings.port));
    options.certificate = match (&settings.cert_file, &settings.key_file, &settings.cert_dir) {
        (Some(certificate), Some(key), _) => {
            CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }
        }
        (_, _, Some(directory)) => CertificateSource::Directory(directory.clone()),
        (_, _, None) => CertificateSource::Memory,
    };
    options.min_tls_version = settings.min_tls_version;
    options.cipher_suites = settings.cipher_suites.clone();
    options.http2 = settings.http2;
    if let Some(streams) = settings.http2_max_streams_per_connection {
        options.limits.streams = streams;
    }
    options.client_ca_file.clone_from(&settings.client_ca_file);
    options.front_proxy.clone_from(&settings.front_proxy);
    options.look_up_client_ca = !settings.authentication_skip_lookup;
    options.open_paths = settings.always_allow_paths.clone();
    options.token_ttl = settings.token_cache_ttl;
    options.allowed_ttl = settings.authorized_cache_ttl;
    options.denied_ttl = settings.unauthorized_cache_ttl;
    options
}

fn pages(manager: &ManagerHandle, health: HealthChecks, settings: &Settings, sources: PageSources) -> Pages {
    let PageSources { version, flags, metrics, slis } = sources;
    let of = manager.clone();
    let slis = slis.unwrap_or_else(|| {
        let slis = Slis::default();
        let observed = slis.clone();
        health.observe(move |result| observed.observe(result.name, result.page, result.healthy));
        Arc::new(move || slis.render())
    });
    let running = manager.clone();
    process_metrics::describe();
    let certificates = manager.certificates().clone();
    Pages {
        component: COMPONENT.to_owned(),
        version,
        health,
        metrics: metrics.map(|metrics| {
            Arc::new(move || {
                running.cluster().update_metrics();
                process_metrics::update();
                certificates.update_metrics();
                without_removed(&with_cpu_time(metrics.render()))
            }) as Page<String>
        }),
        slis: Some(slis),
        configz: json!({COMPONENT: configz(settings)}),
        flagz: flags,
        mounted: Vec::new(),
        statusz: Some(Arc::new(move || {
            let status = of.status();
            StatusPage { text: status.to_string(), json: json!(status) }
        })),
    }
}
