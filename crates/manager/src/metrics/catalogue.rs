//! Compares docs/metrics.md with all metrics that the process describes and registers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_endpoint_api_client::{ApiClient, CountRequests};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tower::Layer;

use crate::process_metrics;
use crate::{ControllerName, LeaderElectionSettings, Manager, Settings};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
const BEGIN: &str = "<!-- The table is generated: UPDATE_DOCS=1 cargo test -p kube-endpoint-controllers --features otlp catalogue -->\n";

/// A recorder that keeps the descriptions of metrics, and no values.
#[derive(Clone, Debug, Default)]
struct Catalogue(Arc<Mutex<BTreeMap<String, Entry>>>);

#[derive(Debug, Default)]
struct Entry {
    kind: &'static str,
    help: String,
    labels: BTreeSet<String>,
}

impl Catalogue {
    fn entry(&self, name: &str, change: impl FnOnce(&mut Entry)) {
        change(self.0.lock().unwrap().entry(name.to_owned()).or_default());
    }

    fn describe(&self, name: &KeyName, kind: &'static str, help: &SharedString) {
        self.entry(name.as_str(), |entry| {
            entry.kind = kind;
            entry.help = help.to_string();
        });
    }

    fn register(&self, key: &Key, kind: &'static str) {
        self.entry(key.name(), |entry| {
            entry.kind = kind;
            entry.labels.extend(key.labels().map(|label| label.key().to_owned()));
        });
    }

    fn table(&self) -> String {
        let mut table = "| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
        for (name, Entry { kind, help, labels }) in &*self.0.lock().unwrap() {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            let help = help.trim_end_matches('.').replace('|', "\\|");
            writeln!(table, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).unwrap();
        }
        table
    }
}

impl Recorder for Catalogue {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&name, "counter", &help);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&name, "gauge", &help);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&name, "histogram", &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.register(key, "counter");
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.register(key, "gauge");
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.register(key, "histogram");
        Histogram::noop()
    }
}

/// Returns all metrics of a process that runs the controllers on the sample cluster, with
/// everything turned on that has metrics.
async fn catalogue() -> Catalogue {
    let catalogue = Catalogue::default();
    let _current = metrics::set_default_local_recorder(&catalogue);
    let sample: serde_json::Value = serde_json::from_str(include_str!("../../sample/shop.json")).unwrap();
    let now = "2026-12-01T00:00:00Z".parse().unwrap();
    let server = EmbeddedApiServer::builder().start_time(now).load([sample]).build().unwrap();
    let client = ApiClient::for_tests(CountRequests::new("192.0.2.1:6443").layer(server.service()));
    let _ =
        kube_endpoint_api_client::client_from_config(kube::Config::new("http://192.0.2.1".parse().unwrap()))
            .await;
    let _traces = crate::traces::without_collector().unwrap();
    process_metrics::describe();
    process_metrics::update();
    let settings = Settings {
        controllers: ControllerName::ALL.to_vec(),
        leader_election: Some(LeaderElectionSettings::default()),
        ..Settings::default()
    };
    let manager = Manager::new(client, &settings, now, 1).unwrap();
    let certificates = manager.handle().certificates().clone();
    certificates.add(crate::certificates::example);
    certificates.update_metrics();
    manager.run(tokio::time::sleep(Duration::from_secs(10))).await.unwrap();
    drop(_current);
    catalogue
}

#[tokio::test(start_paused = true)]
async fn the_page_lists_all_metrics() {
    let table = Box::pin(catalogue()).await.table();
    for line in table.lines().skip(2) {
        assert!(!line.ends_with("|  |"), "a metric has no help text: {line}");
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, written) = page.split_once(BEGIN).expect("docs/metrics.md has no table");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{head}{BEGIN}{table}")).unwrap();
    } else {
        let missing: Vec<&str> =
            table.lines().filter(|line| !written.lines().any(|it| it == *line)).collect();
        let stale: Vec<&str> = written.lines().filter(|line| !table.lines().any(|it| it == *line)).collect();
        assert!(
            missing.is_empty() && stale.is_empty(),
            "docs/metrics.md is out of date (its table begins with the command that updates it).\nmissing: {missing:#?}\nstale: {stale:#?}"
        );
    }
}
