//! Runs two replicas as in the manifests, with leader election and serving, on an embedded API
//! server: the first leads, the second takes over. Keeps their requests, and the metrics page of
//! the second. Before, it runs a replica that waits behind a reserved lease, and afterwards the
//! add-on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use http_body_util::BodyExt;
use kube::Config;
use kube::client::Body;
use kube_endpoint_api_client::{ApiClient, CountRequests, client_from_config};
use kube_endpoint_controllers::{LeaderElectionSettings, Manager, PageSources, ServingSettings, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, PolicyRule, User};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::{Layer, ServiceExt};

use crate::deploy::addon::{self, AddOn};
use crate::deploy::manifests::root;
use crate::deploy::metrics_page::MetricsPage;
use crate::deploy::rbac::Attributes;

/// The token and the name of the user of the replicas.
pub(crate) const REPLICA: &str = "replica";

/// The token of the user who reads the metrics.
const SCRAPER: &str = "scraper";

/// The gauge that is 1 if somebody holds the lease.
const LEASE_HELD: &str = "leader_election_lease_held";

/// The requests and pages of two replicas.
pub(crate) struct Replicas {
    /// All requests of both to the API server.
    pub(crate) requests: BTreeSet<Attributes>,
    /// The metrics pages after the second took over, and of the add-on, as one.
    pub(crate) page: MetricsPage,
    /// The text of the first one.
    pub(crate) leading: String,
    /// The metrics page of a replica that stands by behind the reserved lease.
    pub(crate) behind_reserved_lease: String,
    /// The metrics page of a replica that may not read the lease.
    pub(crate) without_lease: String,
    pub(crate) addon: AddOn,
}

pub(crate) static REPLICAS: LazyLock<Replicas> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run())
});

/// Returns an API server with the sample.
pub(crate) fn server() -> EmbeddedApiServer {
    let sample = read_to_string(root().join("crates/manager/sample/shop.json")).unwrap();
    let sample: serde_json::Value = serde_json::from_str(&sample).unwrap();
    let user = |name: &str| User { name: name.to_owned(), groups: Vec::new() };
    let may_read_metrics = PolicyRule {
        subjects: vec![SCRAPER.to_owned()],
        verbs: vec!["get".to_owned()],
        non_resource_urls: vec!["/metrics".to_owned()],
        ..PolicyRule::default()
    };
    EmbeddedApiServer::builder()
        .track_managers()
        .load([sample])
        .token(REPLICA, user(REPLICA))
        .token(SCRAPER, user(SCRAPER))
        .policy_rule(may_read_metrics)
        .build()
        .unwrap()
}

/// Runs the first replica of an installation, which reserves the lease and waits. Returns its
/// metrics page, and the page once it may not read the lease.
async fn trial(sources: PageSources) -> (String, String) {
    let server = server();
    let mut settings = electing();
    let election = settings.leader_election.get_or_insert_default();
    election.reserve_for = Duration::from_secs(7 * 24 * 3600);
    let replica = Box::pin(start(&server, &settings, sources, 3)).await;
    until(|| server.get("leases", "kube-system", "kube-endpoint-manager").is_some()).await;
    let lease = server.get("leases", "kube-system", "kube-endpoint-manager").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "reserved");
    let held = |value: u8| format!("{LEASE_HELD}{{name=\"kube-endpoint-manager\"}} {value}");
    let behind_reserved_lease = Box::pin(scrape_until(replica.address, &held(1))).await;
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    server.add_fault(FaultRule::on(refuse, "get", "leases"));
    let without_lease = Box::pin(scrape_until(replica.address, &held(0))).await;
    assert_eq!(server.count("endpointslices"), 0, "a standby writes nothing");
    replica.end().await;
    (behind_reserved_lease, without_lease)
}

pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Replica {
    /// Ends the replica as a signal does, and waits for it.
    pub(crate) async fn end(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap();
    }
}

fn electing() -> Settings {
    let mut settings = Settings::default();
    settings.leader_election = Some(LeaderElectionSettings::default());
    settings
}

async fn run() -> Replicas {
    // One recorder for the process, as in the binary: all replicas have one page.
    let sources = PageSources::install("test", BTreeMap::new()).unwrap();
    let (behind_reserved_lease, without_lease) = Box::pin(trial(sources.clone())).await;
    let server = server();
    let first = Box::pin(start(&server, &electing(), sources.clone(), 1)).await;
    until(|| server.count("endpointslices") >= 9).await;
    let second = Box::pin(start(&server, &electing(), sources.clone(), 2)).await;
    until(|| lease_watches(&server) >= 2).await;
    let lease = || server.get("leases", "kube-system", "kube-endpoint-manager").unwrap();
    // The test reads this before the stop: the second replica may lead before the first one has
    // ended.
    let before = lease()["spec"]["leaseTransitions"].clone();
    first.end().await;
    until(|| lease()["spec"]["leaseTransitions"] != before).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let page = scrape(second.address).await;
    second.end().await;
    let requests = requests(&server);
    let addon = Box::pin(addon::run(sources)).await;
    let parsed = MetricsPage::parse(&format!("{page}{}", addon.leading));
    Replicas { requests, page: parsed, leading: page, behind_reserved_lease, without_lease, addon }
}

/// Returns the requests of the replicas to a server.
pub(crate) fn requests(server: &EmbeddedApiServer) -> BTreeSet<Attributes> {
    let log = server.request_log();
    let own = log.iter().map(|logged| &logged.request).filter(|request| request.user == REPLICA);
    own.map(|it| Attributes::of(it.method.as_str(), &it.path, &it.query)).collect()
}

/// Returns the number of replicas that watch their lease.
pub(crate) fn lease_watches(server: &EmbeddedApiServer) -> usize {
    server.open_watches().iter().filter(|it| it.plural() == "leases").count()
}

/// Starts a replica that serves on a port of its own.
pub(crate) async fn start(
    server: &EmbeddedApiServer,
    settings: &Settings,
    sources: PageSources,
    seed: u64,
) -> Replica {
    let bearer = HeaderValue::try_from(format!("Bearer {REPLICA}")).unwrap();
    let service = server.service().map_request(move |mut request: Request<Body>| {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        request
    });
    let client = ApiClient::for_tests(CountRequests::new("192.0.2.1:6443").layer(service));
    let mut settings = settings.clone();
    let serving = settings.serving.get_or_insert_with(|| ServingSettings::on_port(0));
    serving.port = 0;
    serving.bind_address = [127, 0, 0, 1].into();
    let now = server.now();
    let mut manager = Manager::new(client.clone(), &settings, now, seed).unwrap();
    let serving = manager.serve(&client, &settings, sources, move || now).await.unwrap().unwrap();
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(async move {
        let stopped = async move {
            let _ = stopped.await;
        };
        manager.run(stopped).await.unwrap();
    });
    Replica { address: serving.address.unwrap(), stop, ended }
}

/// Waits until a condition holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..600 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("a condition does not become true");
}

/// Returns the metrics page once it has a line.
async fn scrape_until(address: SocketAddr, line: &str) -> String {
    for _ in 0..600 {
        let page = scrape(address).await;
        if page.lines().any(|it| it == line) {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no line {line}");
}

/// Returns the metrics page, requested with the token of a user who may read it.
pub(crate) async fn scrape(address: SocketAddr) -> String {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(SCRAPER.to_owned().into());
    let client = client_from_config(config).await.unwrap();
    let answer = client.send(Request::get("/metrics").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let page = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(page.to_vec()).unwrap()
}
