//! The connection of one manager process to the servers: it names the process in the user agent,
//! moves from one server to another, delays requests by the latency of the network, carries out a
//! sent request even if nobody waits for the answer, ends the process at a write, and begins the
//! faults of single requests.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use kube_endpoint_embedded_apiserver::{Body, EmbeddedApiServer, ServiceError};
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tower::{Service, ServiceExt};

use super::request_faults::{RequestFaults, class_of};
use super::servers::{Servers, is_whole_list};
use crate::history::{Kind, Manager};
use crate::random::Random;
use crate::text::Field;
use crate::watcher::SharedWatcher;

/// The chance in percent that a process chooses one of several servers anew for a request. It may
/// be the same one.
const MOVES: u64 = 30;

/// The write at which a process ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct KillAt {
    /// True if this counts writes of the Lease, false if it counts those of outputs.
    pub(super) lease: bool,
    /// The number of writes that the process still makes.
    pub(super) writes: u8,
    /// True if the server handles the last write.
    pub(super) applied: bool,
}

/// The state that a process and its connection share.
pub(super) struct Link {
    pub(super) manager: Manager,
    /// The beginning of the user agent.
    pub(super) name: String,
    is_dead: AtomicBool,
    kill_at: Mutex<Vec<KillAt>>,
    abort: Mutex<Option<AbortHandle>>,
    random: Mutex<Random>,
    /// The server to which the last request went; 0 before the first one.
    server: AtomicU8,
    /// The longest delay of a request, and of its answer.
    latency: Duration,
    /// How many processes have ended at a write of an output, and of the Lease.
    killed_at_writes: Arc<[AtomicUsize; 2]>,
}

impl Link {
    pub(super) fn new(
        manager: Manager,
        name: String,
        random: Random,
        latency: Duration,
        killed_at_writes: Arc<[AtomicUsize; 2]>,
    ) -> Self {
        Self {
            manager,
            name,
            is_dead: AtomicBool::new(false),
            kill_at: Mutex::default(),
            abort: Mutex::default(),
            random: Mutex::new(random),
            server: AtomicU8::new(0),
            latency,
            killed_at_writes,
        }
    }

    /// Sets the task that ends with the process.
    pub(super) fn set_task(&self, task: AbortHandle) {
        *self.abort.lock() = Some(task);
    }

    pub(super) fn kill_at(&self, kill_at: KillAt) {
        self.kill_at.lock().push(kill_at);
    }

    /// Ends the process as SIGKILL does.
    pub(super) fn kill(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
        if let Some(task) = self.abort.lock().take() {
            task.abort();
        }
    }

    /// Returns the server to which the next request goes. It may differ from the one before, and
    /// does if the connection `broke`.
    pub(super) fn next_server(&self, count: u8, broke: bool) -> u8 {
        if count == 1 {
            return 1;
        }
        let mut random = self.random.lock();
        let before = self.server.load(Ordering::Relaxed);
        if before == 0 || broke || random.chance(MOVES) {
            self.server.store(1 + random.below(count.into()) as u8, Ordering::Relaxed);
        }
        self.server.load(Ordering::Relaxed)
    }

    fn delay(&self) -> Duration {
        let longest = self.latency.as_millis() as u64;
        if longest == 0 {
            Duration::ZERO
        } else {
            Duration::from_millis(self.random.lock().below(longest + 1))
        }
    }

    /// Counts a write of an output or of the Lease down. Returns `Some` if the process ends at it:
    /// true if the server handles it.
    fn ends_at_write(&self, lease: bool) -> Option<bool> {
        let mut kill_at = self.kill_at.lock();
        for left in kill_at.iter_mut().filter(|left| left.lease == lease) {
            left.writes = left.writes.saturating_sub(1);
        }
        let ended = kill_at.iter().position(|left| left.lease == lease && left.writes == 0)?;
        self.killed_at_writes[usize::from(lease)].fetch_add(1, Ordering::Relaxed);
        Some(kill_at.remove(ended).applied)
    }
}

/// The field manager of the product's writes.
pub(crate) const FIELD_MANAGER: &str = "kube-endpoint-manager";
/// The field manager of kube-controller-manager's writes.
pub(crate) const UPSTREAM: &str = "kube-controller-manager";

/// The servers as a process sees them.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) server: EmbeddedApiServer,
    pub(super) servers: Arc<Servers>,
    pub(super) request_faults: Arc<RequestFaults>,
    pub(super) link: Arc<Link>,
    pub(super) watcher: SharedWatcher,
}

pub(super) type Answer = Result<Response<Body>, ServiceError>;

impl Service<Request<kube::client::Body>> for Connection {
    type Response = Response<Body>;
    type Error = ServiceError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

impl Connection {
    async fn send(self, mut request: Request<kube::client::Body>) -> Answer {
        if self.link.is_dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let agent =
            request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let agent = format!("{} {agent}", self.link.name);
        if let Ok(agent) = HeaderValue::from_str(&agent) {
            request.headers_mut().insert(USER_AGENT, agent);
        }
        if self.link.manager == Manager::K {
            return self.pass_on(request).await;
        }
        let (class, request) = class_of(request).await;
        match class.and_then(|class| self.request_faults.count(class)) {
            Some(due) => self.inject(due, request).await,
            None => self.pass_on(request).await,
        }
    }

    /// Sends a request on, as the network does.
    pub(super) async fn pass_on(self, mut request: Request<kube::client::Body>) -> Answer {
        let kind = request.uri().path().split('/').find_map(Kind::read);
        if request.method() != Method::GET {
            name_field_manager(&mut request, self.link.manager);
        }
        let is_list = request.method() == Method::GET && is_whole_list(request.uri());
        let is_output = matches!(kind, Some(Kind::Endpoints | Kind::EndpointSlices));
        let is_write = request.method() != Method::GET;
        if is_write && is_output {
            self.watcher.lock().begins_write(self.link.manager, &self.link.name);
        }
        let is_lease = kind == Some(Kind::Leases);
        let ends = if is_write && (is_output || is_lease) { self.link.ends_at_write(is_lease) } else { None };
        if ends == Some(false) {
            self.link.kill();
            std::future::pending::<()>().await;
        }
        let (there, back) = (self.link.delay(), self.link.delay());
        let number = self.link.next_server(self.servers.count, false);
        let server = self.servers.service(self.link.manager, number);
        let carry_out = async move {
            if !there.is_zero() {
                tokio::time::sleep(there).await;
            }
            server.oneshot(request).await
        };
        let answer = if is_write {
            // A sent request arrives, even if the sender ends meanwhile.
            let carried_out = tokio::spawn(carry_out);
            if ends == Some(true) {
                let ended = carried_out.await;
                self.link.kill();
                drop(ended);
                return std::future::pending().await;
            }
            carried_out.await.unwrap_or(Err(ServiceError::AnswerLost))
        } else {
            carry_out.await
        };
        if !back.is_zero() {
            tokio::time::sleep(back).await;
        }
        match &answer {
            Ok(answer) if is_list && answer.status().is_success() => self.servers.listed(),
            Ok(_) => {}
            Err(_) => drop(self.link.next_server(self.servers.count, true)),
        }
        answer
    }
}

/// Names the field manager of a write. The server would otherwise take it from the user agent,
/// which begins with the name of the process.
fn name_field_manager(request: &mut Request<kube::client::Body>, manager: Manager) {
    let name = if manager == Manager::K { UPSTREAM } else { FIELD_MANAGER };
    let uri = request.uri();
    let separator = if uri.query().is_some() { '&' } else { '?' };
    if let Ok(named) = format!("{uri}{separator}fieldManager={name}").parse() {
        *request.uri_mut() = named;
    }
}
