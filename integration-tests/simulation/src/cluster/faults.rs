//! Begins and ends faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{
    EmbeddedApiServer, Fault as ServerFault, FaultId, FaultRule, Lag, RequestInfo,
};
use serde_json::json;
use tokio::time::Instant;

use super::changes::path_of;
use super::servers::goes_to;
use super::{ActiveFault, Cluster, text};
use crate::history::{Fault, Kind, Selection, Verb};
use crate::objects::{namespace, namespace_name};
use crate::watcher::FIGHTER;

/// Adds rules to a server, and counts the requests and watches that they concern.
struct Rules<'a> {
    server: &'a EmbeddedApiServer,
    hits: Arc<AtomicUsize>,
    added: Vec<FaultId>,
}

impl Rules<'_> {
    fn add(&mut self, fault: ServerFault, selects: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static) {
        let hits = Arc::clone(&self.hits);
        let rule = FaultRule::new(fault, move |request| {
            let hit = selects(request);
            hits.fetch_add(usize::from(hit), Ordering::Relaxed);
            hit
        });
        self.added.push(self.server.add_fault(rule));
    }

    fn on(&mut self, fault: ServerFault, selection: Selection) {
        self.add(fault, move |request| selection.matches(request));
    }

    fn broke(&self, watches: usize) {
        self.hits.fetch_add(watches, Ordering::Relaxed);
    }
}

/// Empties the slices of a Service whenever they have endpoints.
async fn fight(server: EmbeddedApiServer, service: u8, pause: Duration, hits: Arc<AtomicUsize>) {
    let owner = format!("s{service}");
    loop {
        tokio::time::sleep(pause).await;
        let slices = server.list("endpointslices");
        let concerned = slices.iter().filter(|slice| {
            text(slice, "/metadata/namespace") == namespace(service)
                && slice["metadata"]["labels"]["kubernetes.io/service-name"] == owner.as_str()
                && slice["endpoints"].as_array().is_some_and(|endpoints| !endpoints.is_empty())
        });
        for slice in concerned {
            hits.fetch_add(1, Ordering::Relaxed);
            let (path, patch) = (path_of("endpointslices", slice), json!({"endpoints": []}));
            Cluster::send_as(FIGHTER, &server, "PATCH", &path, &patch).await;
        }
    }
}

impl Cluster {
    /// Begins a fault, and applies it to open watches.
    pub(crate) fn begin(&mut self, number: usize, fault: &Fault) {
        let server = self.server.clone();
        let mut rules = Rules { server: &server, hits: Arc::default(), added: Vec::new() };
        let watches = |kind, by| Selection { verb: Some(Verb::Watch), kind, by, ..Selection::default() };
        let mut writer = None;
        match *fault {
            Fault::Unreachable { by, server: number } => {
                let all = Selection { by, server: number, ..Selection::default() };
                rules.on(ServerFault::LoseRequest, all);
                rules.broke(server.break_watches(|request| all.matches(request)));
            }
            Fault::HalfOpen { by, applied, server: number } => {
                let all = Selection { by, server: number, ..Selection::default() };
                rules.on(ServerFault::NeverAnswer { applied }, all);
                rules.broke(server.silence_watches(|request| all.matches(request)));
            }
            Fault::Refused { verb, kind, by, status, retry_after, server: number } => {
                let selection = Selection { verb, kind, by, server: number };
                rules.on(ServerFault::Refuse { status, retry_after }, selection);
                if verb == Some(Verb::Watch) {
                    rules.broke(server.break_watches(|request| selection.matches(request)));
                }
            }
            Fault::Forbidden { kind, by, namespace: number } => {
                let selection = Selection { kind, by, ..Selection::default() };
                let is_one = move |request: &RequestInfo| {
                    selection.matches(request) && request.namespace == namespace_name(number)
                };
                rules.add(ServerFault::Refuse { status: 403, retry_after: None }, is_one);
                rules.broke(server.break_watches(is_one));
            }
            Fault::AnswersLost { verb, kind, by } => {
                rules.on(ServerFault::ApplyAndLoseAnswer, Selection { verb, kind, by, server: None });
            }
            Fault::RequestsLost { verb, kind, by } => {
                let selection = Selection { verb, kind, by, server: None };
                rules.on(ServerFault::LoseRequest, selection);
                rules.broke(server.break_watches(|request| selection.matches(request)));
            }
            Fault::RequestsLate { verb, kind, by, milliseconds } => {
                let delay = Duration::from_millis(milliseconds.into());
                rules.on(ServerFault::Delay(delay), Selection { verb, kind, by, server: None });
            }
            Fault::AnswersLate { verb, kind, by, milliseconds } => {
                let delay = Duration::from_millis(milliseconds.into());
                rules.on(ServerFault::DelayAnswer(delay), Selection { verb, kind, by, server: None });
            }
            Fault::WatchesStall { kind, by, seconds } => {
                let stall = Duration::from_secs(seconds.into());
                rules.on(ServerFault::StallWatch(stall), watches(kind, by));
                server.break_watches(|request| watches(kind, by).matches(request));
            }
            Fault::WatchesLag { kind, by, milliseconds, bunched, server: of } => {
                let time = Duration::from_millis(milliseconds.into());
                let lag = Lag { plural: kind.map(Kind::word), time, bunched };
                self.managers.servers.add_lag(number, by, of, lag);
            }
            Fault::OtherStorage { server: number } => {
                let other = self.fork(number, Arc::clone(&rules.hits));
                self.managers.servers.begin_other(number, other);
                server.break_watches(|request| goes_to(request, number));
            }
            Fault::WatchesBreak { kind, by, after } => {
                rules.on(ServerFault::BreakWatch { after: after.into() }, watches(kind, by));
                server.break_watches(|request| watches(kind, by).matches(request));
            }
            Fault::WatchesEnd { kind, by, after } => {
                rules.on(ServerFault::CutWatch { after: after.into() }, watches(kind, by));
                server.break_watches(|request| watches(kind, by).matches(request));
            }
            Fault::WatchesExpire { kind, by } => {
                rules.on(ServerFault::ExpireWatch, watches(kind, by));
                server.compact();
                server.break_watches(|request| watches(kind, by).matches(request));
            }
            Fault::OlderLists { by, versions } => {
                let lists = Selection { verb: Some(Verb::List), by, ..Selection::default() };
                rules.on(ServerFault::ServeOlder { versions: versions.into() }, lists);
                // Streaming lists would show the current state.
                let refusal = ServerFault::Refuse { status: 400, retry_after: None };
                rules.add(refusal, move |request| {
                    watches(None, by).matches(request) && request.parameter("sendInitialEvents").is_some()
                });
                server.break_watches(|request| watches(None, by).matches(request));
            }
            Fault::ContinueRefused { by, status } => {
                let all = Selection { by, ..Selection::default() };
                let refuse = |status| ServerFault::Refuse { status, retry_after: None };
                rules.add(refuse(400), move |request| {
                    all.matches(request) && request.parameter("sendInitialEvents").is_some()
                });
                rules.add(refuse(status), move |request| {
                    all.matches(request) && request.parameter("continue").is_some()
                });
                server.compact();
                server.break_watches(|request| all.matches(request));
            }
            Fault::UpdatesUndone { kind, by } => {
                rules.on(
                    ServerFault::UndoUpdate,
                    Selection { verb: Some(Verb::Update), kind, by, server: None },
                );
            }
            Fault::ForeignWriter { service, milliseconds } => {
                let pause = Duration::from_millis(u64::from(milliseconds).max(1));
                let task = tokio::spawn(fight(server.clone(), service, pause, Arc::clone(&rules.hits)));
                writer = Some(task.abort_handle());
            }
        }
        let Rules { added, hits, .. } = rules;
        let active = ActiveFault { fault: fault.clone(), rules: added, hits, began: Instant::now(), writer };
        self.faults.insert(number, active);
        self.watcher.lock().fault_begins(fault);
        if matches!(fault, Fault::OtherStorage { .. }) {
            self.watcher.lock().restored(&self.server);
        }
    }

    /// Ends a fault.
    pub(crate) fn end(&mut self, number: usize) {
        let Some(active) = self.faults.remove(&number) else { return };
        for rule in &active.rules {
            self.server.remove_fault(*rule);
        }
        if let Some(writer) = &active.writer {
            writer.abort();
        }
        let servers = &self.managers.servers;
        match active.fault {
            Fault::WatchesLag { .. } => {
                active.hits.fetch_add(servers.remove_lag(number), Ordering::Relaxed);
            }
            Fault::Unreachable { server: Some(number), .. } => servers.restart(number),
            Fault::OtherStorage { server: number } => servers.end_other(number),
            _ => {}
        }
        let hits = active.hits.load(Ordering::Relaxed);
        self.watcher.lock().fault_ends(&active.fault, hits, active.began.elapsed());
    }

    /// Ends all faults.
    pub(crate) fn end_all(&mut self) {
        let numbers: Vec<usize> = self.faults.keys().copied().collect();
        for number in numbers {
            self.end(number);
        }
    }
}
