//! Reads `/metrics` of API servers: open watches of Endpoints, and requests for which they read
//! Endpoints themselves.

use super::evidence::Findings;
use crate::answers::doctor::Read;

const WATCHES: &str = "apiserver_longrunning_requests";
const REQUESTS: &str = "apiserver_request_total";
const STARTED: &str = "process_start_time_seconds";

/// The metrics of one API server, added up line by line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// True if it has metrics of an API server at all.
    is_of_api_server: bool,
    /// True if it has the time at which the server started.
    has_start: bool,
    /// The number of open watches of Endpoints.
    watches: u64,
    /// The number of requests to `services/NAME/proxy` since the server started.
    proxied: u64,
}

impl Metrics {
    /// Adds a line of the text format.
    pub fn add(&mut self, line: &str) {
        self.is_of_api_server |= line.starts_with("apiserver_");
        let Some((name, labels, value)) = parts(line) else { return };
        let has =
            |wanted: &[(&str, &str)]| wanted.iter().all(|(key, value)| label(labels, key) == Some(*value));
        let count = if value.is_finite() && value > 0.0 { value.round() as u64 } else { 0 };
        match name {
            WATCHES if has(&[("group", ""), ("resource", "endpoints"), ("verb", "WATCH")]) => {
                self.watches += count;
            }
            REQUESTS if has(&[("group", ""), ("resource", "services"), ("subresource", "proxy")]) => {
                self.proxied += count;
            }
            STARTED => self.has_start = true,
            _ => {}
        }
    }

    /// Reads all lines of a text.
    pub fn read(text: &str) -> Self {
        let mut metrics = Self::default();
        text.lines().for_each(|line| metrics.add(line));
        metrics
    }

    /// Returns true if these are metrics of an API server, and complete: a server writes them by
    /// name, and `process_start_time_seconds` is one of the last.
    pub fn is_of_api_server(&self) -> bool {
        self.is_of_api_server && self.has_start
    }
}

/// Returns name, labels and value of a sample.
fn parts(line: &str) -> Option<(&str, &str, f64)> {
    let wanted = [WATCHES, REQUESTS, STARTED];
    if !wanted.iter().any(|name| line.starts_with(name)) {
        return None;
    }
    let (name, rest) = match line.split_once('{') {
        Some((name, rest)) => (name, rest),
        None => {
            let (name, value) = line.split_once(' ')?;
            return Some((name, "", value.split_whitespace().next()?.parse().ok()?));
        }
    };
    // A value of a label may contain a brace.
    let (labels, value) = rest.rsplit_once('}')?;
    Some((name, labels, value.split_whitespace().next()?.parse().ok()?))
}

/// Returns the value of a label, with the escapes that it may have.
fn label<'l>(labels: &'l str, key: &str) -> Option<&'l str> {
    let mut rest = labels;
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let mut escaped = false;
        let end = after.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let (value, next) = after.split_at(end?.0);
        if name.trim_start_matches([',', ' ']) == key {
            return Some(value);
        }
        rest = next.strip_prefix('"')?;
    }
}

/// The watches that are known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownWatches {
    /// The number of replicas of kube-endpoint-manager that watch Endpoints.
    pub(super) replicas: usize,
    /// True if each API server watches Endpoints itself.
    pub(super) of_each_server: bool,
}

/// Says what metrics tell. `api_servers` is the number of API servers, if that is known.
pub(super) fn evidence(
    metrics: &Read<Vec<Metrics>>,
    api_servers: Option<usize>,
    known: KnownWatches,
) -> Findings {
    let mut findings = Findings::default();
    let metrics = match metrics {
        Ok(metrics) => metrics,
        Err(why) => {
            findings.unread("Open watches of Endpoints, which are in the metrics of the API servers", why);
            return findings;
        }
    };
    extent(metrics, api_servers, &mut findings);
    watches(metrics, known, &mut findings);
    findings
}

/// Says if these may not be the metrics of all API servers.
fn extent(metrics: &[Metrics], api_servers: Option<usize>, findings: &mut Findings) {
    let remedy = "Give the metrics of each API server: --metrics FILE, written by `kubectl get --raw /metrics` with the address of \
         that server.";
    match api_servers {
        Some(all) if all > metrics.len() => {
            let read = metrics.len();
            findings.hidden(format!("The metrics are those of {read} of {all} API servers"), remedy);
        }
        Some(_) => {}
        None => findings.hidden(
            "The number of API servers is not known, so the metrics may be those of some of them only",
            "Ask for the permission to list leases.coordination.k8s.io in kube-system.",
        ),
    }
}

fn watches(metrics: &[Metrics], known: KnownWatches, findings: &mut Findings) {
    let open: u64 = metrics.iter().map(|of| of.watches).sum();
    let own = if known.of_each_server { metrics.len() as u64 } else { 0 };
    let replicas = known.replicas as u64;
    let expected = 1 + replicas + own;
    if open <= expected {
        return;
    }
    let mut parts = vec!["1 of kube-controller-manager's garbage collector".to_owned()];
    if replicas > 0 {
        parts.push(format!("{replicas} of kube-endpoint-manager, one for each replica"));
    }
    if own > 0 {
        parts.push(format!("{own} of the API servers themselves"));
    }
    let more = open - expected;
    let nobody = if more == 1 { "1 is of nobody known" } else { &format!("{more} are of nobody known") };
    findings.hidden(
        format!(
            "{open} watches of Endpoints are open, of which {expected} may be known ({}); {nobody}",
            parts.join(", ")
        ),
        "An audit log tells whose they are.",
    );
}

/// Returns the number of requests to `services/NAME/proxy` since the API servers started. `None` if
/// no metrics show one, and some API server may have had one.
pub(super) fn proxied(metrics: &Read<Vec<Metrics>>, api_servers: Option<usize>) -> Option<u64> {
    let metrics = metrics.as_ref().ok()?;
    let are_all = api_servers.is_some_and(|all| all <= metrics.len());
    Some(metrics.iter().map(|of| of.proxied).sum()).filter(|count| *count > 0 || are_all)
}
