//! Health checks, and upstream's format for their results (`k8s.io/apiserver/pkg/server/healthz`).

use std::fmt::Write;
use std::sync::Arc;

use http::StatusCode;
use parking_lot::{Mutex, RwLock};
use percent_encoding::percent_decode_str;

/// The pages of health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `/livez` and `/healthz`: a process that fails must be restarted.
    Livez,
    /// `/readyz`: nobody must rely on a process that fails.
    Readyz,
}

/// The result of one check, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckResult<'a> {
    pub name: &'a str,
    /// The page of the request: `healthz`, `livez` or `readyz`.
    pub page: &'static str,
    /// True if the check succeeded.
    pub healthy: bool,
}

/// Returns a warning if the check succeeds with one.
type Check = dyn Fn() -> Result<Option<String>, String> + Send + Sync;
type Observer = dyn Fn(CheckResult<'_>) + Send + Sync;

#[derive(Clone)]
struct NamedCheck {
    name: String,
    probe: Probe,
    check: Arc<Check>,
}

/// The checks of a process. Clones share them, so that each part of a program can add its own.
///
/// Both probes have the check `ping`, which always succeeds.
#[derive(Clone)]
pub struct HealthChecks(Arc<Inner>);

struct Inner {
    checks: RwLock<Vec<NamedCheck>>,
    observer: RwLock<Option<Arc<Observer>>>,
    /// The last failures of each page in the log.
    logged: Mutex<[Vec<String>; 3]>,
}

impl Default for HealthChecks {
    fn default() -> Self {
        let checks = Self(Arc::new(Inner {
            checks: RwLock::default(),
            observer: RwLock::default(),
            logged: Mutex::default(),
        }));
        checks.add(Probe::Livez, "ping", || Ok(()));
        checks.add(Probe::Readyz, "ping", || Ok(()));
        checks
    }
}

impl std::fmt::Debug for HealthChecks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> =
            self.0.checks.read().iter().map(|check| format!("{:?} {}", check.probe, check.name)).collect();
        f.debug_tuple("HealthChecks").field(&names).finish()
    }
}

/// The content of a page of health.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

/// The checks that a path asks for: all of a page, or one.
struct Target<'a> {
    number: usize,
    page: &'static str,
    probe: Probe,
    name: Option<&'a str>,
}

fn target(path: &str) -> Option<Target<'_>> {
    let relative = path.strip_prefix('/')?;
    let (page, name) = match relative.split_once('/') {
        Some((page, name)) => (page, Some(name)),
        None => (relative, None),
    };
    let (number, page, probe) = match page {
        "healthz" => (0, "healthz", Probe::Livez),
        "livez" => (1, "livez", Probe::Livez),
        "readyz" => (2, "readyz", Probe::Readyz),
        _ => return None,
    };
    Some(Target { number, page, probe, name })
}

impl HealthChecks {
    /// Adds a check. Each request of the page calls it, so it must return at once. An error says
    /// why the check fails, without secrets: the log shows it, and so does `/livez/NAME`.
    pub fn add(
        &self,
        probe: Probe,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add_with_warning(probe, name, move || check().map(|()| None));
    }

    /// Adds a check that may succeed with a warning. `?verbose` shows it to anybody, so it names
    /// nothing that only some may know.
    pub fn add_with_warning(
        &self,
        probe: Probe,
        name: impl Into<String>,
        check: impl Fn() -> Result<Option<String>, String> + Send + Sync + 'static,
    ) {
        self.0.checks.write().push(NamedCheck { name: name.into(), probe, check: Arc::new(check) });
    }

    /// Sets the function that is called with each result, for metrics.
    pub fn observe(&self, observer: impl Fn(CheckResult<'_>) + Send + Sync + 'static) {
        *self.0.observer.write() = Some(Arc::new(observer));
    }

    /// Returns true if [`page`](Self::page) has a page for this path.
    pub(crate) fn has_page(&self, path: &str) -> bool {
        let Some(Target { probe, name, .. }) = target(path) else { return false };
        let exists =
            |name| self.0.checks.read().iter().any(|check| check.probe == probe && check.name == name);
        name.is_none_or(exists)
    }

    /// Returns the page for a decoded path and the query of its URL, or `None` if it is none of
    /// these pages.
    pub(crate) fn page(&self, path: &str, query: &str) -> Option<Health> {
        let Target { number, page, probe, name } = target(path)?;
        let checks: Vec<NamedCheck> =
            self.0.checks.read().iter().filter(|check| check.probe == probe).cloned().collect();
        match name {
            None => Some(self.all(&checks, number, page, query)),
            Some(name) => Some(single(checks.iter().find(|check| check.name == name)?)),
        }
    }

    fn all(&self, checks: &[NamedCheck], number: usize, page: &'static str, query: &str) -> Health {
        let query = parse_query(query);
        let mut unknown: Vec<&str> =
            query.iter().filter(|(name, _)| name == "exclude").map(|(_, value)| value.as_str()).collect();
        unknown.sort_unstable();
        unknown.dedup();
        let excluded = unknown.clone();
        let observer = self.0.observer.read().clone();
        let (mut text, mut failed, mut complete) = (String::new(), Vec::new(), true);
        for NamedCheck { name, check, .. } in checks {
            if excluded.contains(&&**name) {
                complete = false;
                unknown.retain(|unknown| unknown != name);
                let _ = writeln!(text, "[+]{name} excluded: ok");
                continue;
            }
            let result = check();
            if let Some(observe) = &observer {
                observe(CheckResult { name, page, healthy: result.is_ok() });
            }
            match result {
                Ok(None) => drop(writeln!(text, "[+]{name} ok")),
                Ok(Some(warning)) => drop(writeln!(text, "[+]{name} ok: {warning}")),
                Err(why) => {
                    // Anybody may read this page.
                    let _ = writeln!(text, "[-]{name} failed: reason withheld");
                    failed.push(format!("{name}: {why}"));
                }
            }
        }
        if !unknown.is_empty() {
            let names: Vec<_> = unknown.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            let _ = writeln!(text, "warn: some health checks cannot be excluded: no matches for {names}");
        }
        // Only a request for all checks changes the log: another one says nothing about the checks
        // that it excludes.
        if complete {
            self.log(number, page, &failed);
        }
        if !failed.is_empty() {
            return Health {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                text: format!("{text}{page} check failed\n"),
            };
        }
        let verbose = query.iter().any(|(name, _)| name == "verbose");
        let text = if verbose { format!("{text}{page} check passed\n") } else { "ok".to_owned() };
        Health { status: StatusCode::OK, text }
    }

    /// Logs failures when they change, because anybody can ask at any rate.
    fn log(&self, number: usize, page: &str, failed: &[String]) {
        let mut logged = self.0.logged.lock();
        if logged[number] == failed {
            return;
        }
        match failed {
            [] => tracing::info!("{page}: all checks succeed again"),
            failed => tracing::warn!("{page}: checks fail: {}", failed.join("; ")),
        }
        logged[number] = failed.to_vec();
    }
}

/// Returns the page of a single check, which shows the reason of a failure.
fn single(check: &NamedCheck) -> Health {
    match (check.check)() {
        Ok(None) => Health { status: StatusCode::OK, text: "ok".to_owned() },
        Ok(Some(warning)) => Health { status: StatusCode::OK, text: format!("ok: {warning}") },
        Err(why) => Health {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            text: format!("internal server error: {why}\n"),
        },
    }
}

/// Returns the names and values of a query, decoded.
fn parse_query(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn checks() -> (HealthChecks, Arc<AtomicBool>) {
        let checks = HealthChecks::default();
        let healthy = Arc::new(AtomicBool::new(true));
        let workers = Arc::clone(&healthy);
        checks.add(Probe::Livez, "workers", move || match workers.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err("the worker of endpoints ended".to_owned()),
        });
        checks.add(Probe::Readyz, "synced", || Err("not yet".to_owned()));
        (checks, healthy)
    }

    #[test]
    fn pages_have_upstreams_format() {
        let (checks, healthy) = checks();
        let pages = [
            ("/healthz", ""),
            ("/livez", "verbose"),
            ("/livez", "verbose=false&exclude=workers"),
            ("/livez", "verbose&exclude=ping&exclude=ping&exclude=a%22b&exclude=z"),
            ("/readyz", ""),
            ("/readyz", "exclude=synced"),
            ("/livez/workers", ""),
            ("/readyz/synced", ""),
            ("/livez/ping", "verbose"),
        ];
        let mut shown = String::new();
        for state in [true, false] {
            healthy.store(state, Ordering::Relaxed);
            for (path, query) in pages {
                let Health { status, text } = checks.page(path, query).unwrap();
                shown +=
                    &format!("=== {path}?{query} (workers alive: {state})\n{}\n{text}\n", status.as_u16());
            }
        }
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn a_check_may_succeed_with_a_warning() {
        let checks = HealthChecks::default();
        checks.add_with_warning(Probe::Readyz, "synced", || Ok(Some("one of two is missing".to_owned())));
        let page = |path, query| checks.page(path, query).unwrap();
        let Health { status, text } = page("/readyz", "verbose");
        assert_eq!(status, StatusCode::OK);
        assert_eq!(text, "[+]ping ok\n[+]synced ok: one of two is missing\nreadyz check passed\n");
        assert_eq!(page("/readyz", "").text, "ok");
        assert_eq!(page("/readyz/synced", "").text, "ok: one of two is missing");
    }

    #[test]
    fn other_paths_are_no_pages_of_health() {
        let (checks, _) = checks();
        let others = [
            "/",
            "",
            "/health",
            "/livez/",
            "/livez/synced",
            "/readyz/workers",
            "/livez/ping/",
            "/livez/workers/x",
            "//livez",
            "/livez/../metrics",
        ];
        for path in others {
            assert_eq!(checks.page(path, ""), None, "{path}");
        }
    }

    #[test]
    fn excluding_a_check_changes_nothing_in_the_log() {
        let (checks, healthy) = checks();
        let logged = || checks.0.logged.lock()[2].clone();
        for query in ["exclude=synced", "", "exclude=synced", "exclude=ping", "exclude=unknown", "verbose"] {
            let before = logged();
            checks.page("/readyz", query).unwrap();
            match query {
                "" => assert_eq!(logged(), ["synced: not yet"]),
                _ => assert_eq!(logged(), before, "{query}"),
            }
        }
        // An unknown name excludes nothing, so the result counts.
        healthy.store(false, Ordering::Relaxed);
        checks.page("/livez", "exclude=unknown").unwrap();
        assert_eq!(checks.0.logged.lock()[1], ["workers: the worker of endpoints ended"]);
    }

    #[test]
    fn each_result_is_observed() {
        let (checks, _) = checks();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let observed = Arc::clone(&seen);
        checks.observe(move |result| {
            observed.lock().push(format!("{} {} {}", result.page, result.name, result.healthy));
        });
        for path in ["/healthz", "/readyz"] {
            checks.page(path, "exclude=ping").unwrap();
        }
        assert_eq!(*seen.lock(), ["healthz workers true", "readyz synced false"]);
    }
}
