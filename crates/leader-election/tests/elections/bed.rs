//! Candidates of one Lease on one server.

use std::collections::BTreeSet;
use std::time::Duration;

use http::{HeaderValue, Request, header};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client};
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::Clock;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_leader_election::{
    Elector, ElectorOptions, Ended, LastWrites, LeaderElectionError, Leadership, LeaseHealth,
};
use kube_endpoint_watch_channel as watch;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

/// A process that takes part in the election.
pub(crate) struct Candidate {
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) health: LeaseHealth,
    stop: Option<oneshot::Sender<Option<LastWrites>>>,
    task: JoinHandle<Result<Ended, LeaderElectionError>>,
}

pub(crate) fn server() -> EmbeddedApiServer {
    EmbeddedApiServer::builder().start_time("2026-01-01T00:00:00Z".parse().unwrap()).build().unwrap()
}

/// Returns a client whose user agent is `name`, so that a test can inject faults for it alone.
pub(crate) fn client(server: &EmbeddedApiServer, name: &'static str) -> ApiClient {
    let service = server.service().map_request(move |mut request: Request<Body>| {
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(name));
        request
    });
    ApiClient::for_tests(service)
}

/// Returns an elector whose clock is wrong by an hour per byte of its name.
pub(crate) fn elector(
    server: &EmbeddedApiServer,
    name: &'static str,
) -> (Elector, watch::Receiver<Leadership>) {
    let options = ElectorOptions::new("kube-system", "l", name);
    let hours = i64::from(name.as_bytes()[0]) - i64::from(b'a');
    let clock = Clock::starting_at(server.now() + Duration::from_secs(3600) * u32::try_from(hours).unwrap());
    Elector::new(client(server, name), options, clock, 7).unwrap()
}

/// Starts a candidate.
pub(crate) fn start(server: &EmbeddedApiServer, name: &'static str) -> Candidate {
    let (elector, leadership) = elector(server, name);
    let health = elector.health();
    let (stop, stopped) = oneshot::channel();
    let stopped = async move {
        match stopped.await {
            Ok(last_writes) => last_writes,
            Err(_) => std::future::pending().await,
        }
    };
    Candidate { leadership, health, stop: Some(stop), task: tokio::spawn(elector.run(stopped)) }
}

impl Candidate {
    pub(crate) fn leads(&self) -> bool {
        matches!(*self.leadership.borrow(), Leadership::Leading { until, .. } if until > Instant::now())
    }

    /// Waits until this candidate leads. Returns how long that took, and the last writes of the
    /// previous leader, if there was one.
    pub(crate) async fn until_it_leads(&mut self) -> (Duration, Option<LastWrites>) {
        let start = Instant::now();
        let leads = self.leadership.wait_for(|leadership| matches!(leadership, Leadership::Leading { .. }));
        let leadership =
            timeout(Duration::from_secs(120), leads).await.expect("nobody leads").unwrap().clone();
        match leadership {
            Leadership::Leading { predecessor, .. } => {
                (start.elapsed(), predecessor.map(|it| it.last_writes))
            }
            other => panic!("{other:?}"),
        }
    }

    /// Begins to stop.
    pub(crate) fn stop(&mut self, last_writes: Option<LastWrites>) {
        self.stop.take().unwrap().send(last_writes).unwrap();
    }

    pub(crate) async fn ended(&mut self) -> Result<Ended, LeaderElectionError> {
        (&mut self.task).await.unwrap()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Ends the process without a release.
    pub(crate) async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

/// Checks a hundred times a second for this time who leads. Returns the indices of all leaders.
pub(crate) async fn leaders_within(time: Duration, candidates: &[&Candidate]) -> BTreeSet<usize> {
    let end = Instant::now() + time;
    let mut leaders = BTreeSet::new();
    while Instant::now() < end {
        let now: Vec<usize> = (0..candidates.len()).filter(|index| candidates[*index].leads()).collect();
        assert!(now.len() <= 1, "candidates {now:?} lead");
        leaders.extend(now);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    leaders
}

pub(crate) fn lease(server: &EmbeddedApiServer) -> Value {
    server.get("leases", "kube-system", "l").expect("the lease exists")
}

/// Returns the Lease in the hands of a person with kubectl.
pub(crate) fn by_hand(server: &EmbeddedApiServer) -> Api<Lease> {
    Api::namespaced(Client::new(server.service(), "default"), "kube-system")
}

pub(crate) async fn edit(server: &EmbeddedApiServer, patch: Value) {
    by_hand(server).patch("l", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

pub(crate) async fn delete(server: &EmbeddedApiServer) {
    by_hand(server).delete("l", &DeleteParams::default()).await.unwrap();
}

pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
