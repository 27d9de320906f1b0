//! Gauges of the ends of the certificates in use, and warnings before these ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::{CertificateInUse, CertificateLifetime, CertificateUse};
use kube_endpoint_api_writer::Clock;
use kube_endpoint_core_model::Timestamp;
use kube_endpoint_core_model::time::rfc3339;
use metrics::{Unit, describe_gauge, gauge};
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};

/// The end of a certificate, by `certificate`, in seconds since 1970.
const END: &str = "certificate_expiration_timestamp_seconds";
/// The time by which somebody should have replaced a certificate, by `certificate`, in seconds
/// since 1970.
const REPLACE_BY: &str = "certificate_renewal_timestamp_seconds";

/// The pause between two looks at the certificates.
const INTERVAL: Duration = Duration::from_secs(60);

/// The pause between two warnings about the same certificate.
const REPEATED: Duration = Duration::from_secs(24 * 60 * 60);

type Source = Arc<dyn Fn() -> Vec<CertificateInUse> + Send + Sync>;

/// The sources that know the certificates in use.
#[derive(Clone, Default)]
pub(crate) struct Certificates(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    sources: Vec<Source>,
    /// The certificates that have gauges.
    shown: BTreeSet<CertificateUse>,
}

impl Certificates {
    /// Describes the gauges to the current recorder.
    pub(crate) fn new() -> Self {
        describe_gauge!(
            END,
            Unit::Seconds,
            "End of the certificate in use in seconds since unix epoch, by its purpose: of a chain the earliest, of a bundle of CAs the latest"
        );
        describe_gauge!(
            REPLACE_BY,
            Unit::Seconds,
            "Time in seconds since unix epoch by which the certificate in use should have been replaced, by its purpose"
        );
        Self::default()
    }

    /// Adds a source that returns certificates in use.
    pub(crate) fn add(&self, source: impl Fn() -> Vec<CertificateInUse> + Send + Sync + 'static) {
        self.0.lock().sources.push(Arc::new(source));
    }

    /// Returns the certificates in use now.
    pub(crate) fn in_use(&self) -> Vec<CertificateInUse> {
        let sources = self.0.lock().sources.clone();
        sources.iter().flat_map(|source| source()).collect()
    }

    /// Sets the gauges of the current recorder. A gauge whose certificate is gone becomes NaN, and
    /// the page leaves it out.
    pub(crate) fn update_metrics(&self) {
        let mut ends = BTreeMap::new();
        for used in self.in_use() {
            if let (Ok(lifetime), Some(replace_by)) = (&used.lifetime, used.replace_by()) {
                ends.insert(used.usage, [lifetime.end, replace_by].map(|time| time.as_second() as f64));
            }
        }
        let mut known = self.0.lock();
        known.shown.extend(ends.keys());
        for usage in &known.shown {
            let [end, replace_by] = ends.get(usage).copied().unwrap_or([f64::NAN; 2]);
            gauge!(END, "certificate" => usage.label()).set(end);
            gauge!(REPLACE_BY, "certificate" => usage.label()).set(replace_by);
        }
    }

    /// Logs warnings forever.
    pub(crate) async fn warn(self, clock: Clock) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut warnings = Warnings::default();
        loop {
            ticks.tick().await;
            for warning in warnings.due(&self.in_use(), clock.now()) {
                tracing::warn!("{warning}");
            }
        }
    }
}

/// The certificates that the log has warned of, with the times.
#[derive(Debug, Default)]
struct Warnings(BTreeMap<CertificateUse, (CertificateInUse, Timestamp)>);

impl Warnings {
    /// Returns the warnings to log now. There is one for each certificate that ends soon, has
    /// ended, is not valid yet or cannot be decoded, at the first sight of it, after it has
    /// changed, and then once a day.
    fn due(&mut self, in_use: &[CertificateInUse], now: Timestamp) -> Vec<String> {
        let mut due = Vec::new();
        for used in in_use {
            let Some(warning) = warning(used, now) else {
                self.0.remove(&used.usage);
                continue;
            };
            let is_recent = |at| Duration::try_from(now.duration_since(at)).is_ok_and(|ago| ago < REPEATED);
            let logged = self.0.get(&used.usage);
            if logged.is_some_and(|(logged, at)| logged == used && is_recent(*at)) {
                continue;
            }
            self.0.insert(used.usage, (used.clone(), now));
            due.push(warning);
        }
        due
    }
}

/// Returns a text that tells the fault of a certificate's lifetime and the remedy, if there is a
/// fault.
fn warning(used: &CertificateInUse, now: Timestamp) -> Option<String> {
    let CertificateInUse { usage, place, lifetime } = used;
    let which = format!("the {usage} in {place}");
    let remedy = place.remedy();
    let CertificateLifetime { start, end } = match lifetime {
        Ok(lifetime) => *lifetime,
        Err(why) => {
            return Some(format!(
                "{which} is in use, but its end is not known, because it cannot be decoded: {why}; {remedy}"
            ));
        }
    };
    if now < start {
        let start = rfc3339(start);
        return Some(format!(
            "{which} is not valid before {start}; check the clock of this machine, or {remedy}"
        ));
    }
    if now >= end {
        return Some(format!("{which} has expired at {}; {remedy}", rfc3339(end)));
    }
    let is_due = used.replace_by().is_some_and(|at| at <= now);
    let left = end.duration_since(now).as_secs();
    let left = match left / 86_400 {
        0 => format!("{} hours", left / 3_600),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    is_due.then(|| format!("{which} expires in {left}, at {}; {remedy}", rfc3339(end)))
}

/// Returns a certificate that is valid for the year 2026.
#[cfg(test)]
pub(crate) fn example() -> Vec<CertificateInUse> {
    let [start, end] = ["2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"].map(|time| time.parse().unwrap());
    let place = kube_endpoint_api_client::CertificatePlace::Memory;
    let lifetime = Ok(CertificateLifetime { start, end });
    vec![CertificateInUse { usage: CertificateUse::Serving, place, lifetime }]
}

#[cfg(test)]
mod tests {
    use kube_endpoint_api_client::CertificatePlace;

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn used(usage: CertificateUse, place: CertificatePlace) -> CertificateInUse {
        CertificateInUse { usage, place, ..example().remove(0) }
    }

    fn file() -> CertificateInUse {
        used(CertificateUse::ApiServerClient, CertificatePlace::File("/certs/client.crt".into()))
    }

    #[test]
    fn a_warning_says_which_certificate_ends_when_and_what_to_do() {
        let stored = CertificatePlace::Stored { certificate: "/dir/x.crt".into(), key: "/dir/x.key".into() };
        let all = [
            used(CertificateUse::ApiServerClient, CertificatePlace::Kubeconfig("client-certificate-data")),
            used(CertificateUse::ApiServerCa, CertificatePlace::File("/certs/ca.crt".into())),
            used(CertificateUse::AuthenticationClient, CertificatePlace::Plugin("aws".to_owned())),
            used(CertificateUse::AuthenticationCa, CertificatePlace::File("/certs/other.crt".into())),
            used(CertificateUse::AuthorizationClient, CertificatePlace::File("/certs/client.crt".into())),
            used(CertificateUse::AuthorizationCa, CertificatePlace::Kubeconfig("certificate-authority-data")),
            used(CertificateUse::Serving, stored),
            used(CertificateUse::ClientCa, CertificatePlace::ConfigMap("ConfigMap a/b")),
            used(CertificateUse::FrontProxyCa, CertificatePlace::File("/certs/proxy.crt".into())),
        ];
        let expired = Warnings::default().due(&all, time("2027-01-01T00:00:00Z"));
        let at = |used, now| warning(&used, time(now)).unwrap();
        let unknown = CertificateInUse { lifetime: Err("why".to_owned()), ..file() };
        let others = [
            at(file(), "2026-12-02T00:00:00Z"),
            at(file(), "2026-12-30T12:00:00Z"),
            at(file(), "2026-12-31T12:30:00Z"),
            at(file(), "2025-12-31T23:59:59Z"),
            at(used(CertificateUse::Serving, CertificatePlace::Memory), "2028-01-01T00:00:00Z"),
            at(unknown, "2026-06-01T00:00:00Z"),
        ];
        insta::assert_snapshot!([&expired[..], &others[..]].concat().join("\n"));
    }

    #[test]
    fn a_warning_is_logged_30_days_ahead_then_once_a_day_and_after_each_change() {
        let mut warnings = Warnings::default();
        let mut check = |used: &[CertificateInUse], now: &str, want: usize| {
            assert_eq!(warnings.due(used, time(now)).len(), want, "{now}");
        };
        let renewed = CertificateInUse {
            lifetime: Ok(CertificateLifetime {
                start: time("2026-12-01T00:00:00Z"),
                end: time("2026-12-20T00:00:00Z"),
            }),
            ..file()
        };
        check(&[file()], "2026-12-01T23:59:59Z", 0);
        check(&[file()], "2026-12-02T00:00:00Z", 1);
        check(&[file()], "2026-12-02T00:01:00Z", 0);
        check(&[file()], "2026-12-02T23:59:59Z", 0);
        check(&[file()], "2026-12-03T00:00:00Z", 1);
        // Somebody has set the clock back.
        check(&[file()], "2026-12-02T12:00:00Z", 1);
        check(std::slice::from_ref(&renewed), "2026-12-02T12:01:00Z", 0);
        check(&[file()], "2026-12-02T12:02:00Z", 1);
        check(&[], "2026-12-02T12:03:00Z", 0);
        check(&[file()], "2027-06-01T00:00:00Z", 1);
    }

    #[test]
    fn what_this_process_renews_is_warned_of_only_when_it_has_ended() {
        for place in [CertificatePlace::Memory, CertificatePlace::Plugin("aws".to_owned())] {
            let used = used(CertificateUse::ApiServerClient, place);
            assert_eq!(warning(&used, time("2026-12-31T23:59:59Z")), None);
            assert!(warning(&used, time("2027-01-01T00:00:00Z")).is_some());
        }
    }

    #[test]
    fn gauges_follow_the_certificates_and_vanish_with_them() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        ::metrics::with_local_recorder(&recorder, || {
            let current: Arc<Mutex<Vec<CertificateInUse>>> = Arc::default();
            let certificates = Certificates::new();
            let of = Arc::clone(&current);
            certificates.add(move || of.lock().clone());
            let series = |in_use: &[CertificateInUse]| {
                *current.lock() = in_use.to_vec();
                certificates.update_metrics();
                let page = crate::metrics::without_removed(&recorder.handle().render());
                let mut lines: Vec<&str> =
                    page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
                lines.sort_unstable();
                lines.join("\n")
            };
            assert_eq!(series(&[]), "");
            let client = "certificate_expiration_timestamp_seconds{certificate=\"api_server_client\"} 1798761600\n\
                          certificate_renewal_timestamp_seconds{certificate=\"api_server_client\"} 1796169600";
            assert_eq!(series(&[file()]), client);
            let undecodable = CertificateInUse {
                lifetime: Err("why".to_owned()),
                ..used(CertificateUse::Serving, CertificatePlace::Memory)
            };
            assert_eq!(series(&[file(), undecodable]), client);
            assert_eq!(series(&[]), "");
            assert_eq!(series(&[file()]), client);
        });
    }
}
