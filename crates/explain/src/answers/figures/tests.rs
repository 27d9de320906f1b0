//! Tests of the figures.

use super::*;
use kube_endpoint_core_model::well_known::MIRRORING_CONTROLLER;
use serde_json::json;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// Returns a slice whose first `ready` endpoints are ready.
fn slice(name: &str, service: &str, endpoints: usize, ready: usize, trigger: Option<i64>) -> EndpointSlice {
    let endpoint =
        |n: usize| json!({"addresses": [format!("10.0.0.{n}")], "conditions": {"ready": n < ready}});
    let annotations = trigger.map(|seconds| json!({ANNOTATION_TRIGGER_TIME: at(seconds).to_string()}));
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "n", "annotations": annotations.unwrap_or_default(),
            "labels": {"kubernetes.io/service-name": service, LABEL_MANAGED_BY: ENDPOINTSLICE_CONTROLLER}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 80}], "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
    }))
    .unwrap()
}

/// Returns a Service with a port.
fn service(name: &str) -> Service {
    serde_json::from_value(
        json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}}),
    )
    .unwrap()
}

fn row(figures: &Figures, name: &str, now: i64) -> Option<Row> {
    figures.rows(at(now)).into_iter().find(|row| *row.service.name == *name)
}

#[test]
fn slices_are_summed_by_service() {
    let mut figures = Figures::new(10);
    figures.service(&service("empty"), true);
    figures.slice(None, Some(&slice("a", "web", 10, 7, None)), at(0), false);
    figures.slice(None, Some(&slice("b", "web", 3, 3, None)), at(0), false);
    let web = row(&figures, "web", 0).unwrap();
    assert_eq!((web.ready, web.endpoints, web.slices, web.fill_percent), (10, 13, 2, Some(65)));
    assert_eq!((web.writes, web.last_write), (0, None));
    assert_eq!(row(&figures, "empty", 0).unwrap().fill_percent, None);
    let totals = figures.totals(at(0));
    assert_eq!((totals.services, totals.slices, totals.endpoints, totals.ready), (2, 2, 13, 10));
    assert_eq!(totals.slices_by_fill, [0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn the_capacity_of_a_slice_is_that_of_its_manager() {
    let check = |manager: Option<&str>, endpoints, want| {
        let mut slice = slice("a", "web", endpoints, 0, None);
        let label = manager.map(|manager| (LABEL_MANAGED_BY, manager));
        slice.metadata.labels = [("kubernetes.io/service-name", "web")].into_iter().chain(label).collect();
        let mut figures = Figures::new(100);
        figures.slice(None, Some(&slice), at(0), false);
        assert_eq!(row(&figures, "web", 0).unwrap().fill_percent, Some(want), "{manager:?} {endpoints}");
        let class = figures.totals(at(0)).slices_by_fill.iter().position(|count| *count == 1);
        assert_eq!(class, Some((want / 10).min(FILL_CLASSES - 1)), "{manager:?} {endpoints}");
    };
    check(Some(ENDPOINTSLICE_CONTROLLER), 50, 50);
    check(Some(SELECTOR_CONTROLLER), 50, 50);
    check(Some(MIRRORING_CONTROLLER), 50, 5);
    check(Some(MIRRORING_CONTROLLER), 1000, 100);
    check(None, 300, 30);
    // The writer of this slice has a higher limit.
    check(Some(ENDPOINTSLICE_CONTROLLER), 250, 100);
}

#[test]
fn an_endpoint_that_kube_proxy_does_not_use_is_not_ready() {
    let check = |spec: serde_json::Value, offered: serde_json::Value, want| {
        let service: Service =
            serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "n"}, "spec": spec}))
                .unwrap();
        let mut slice = slice("a", "web", 2, 2, None);
        (slice.address_type, slice.ports) = serde_json::from_value(offered.clone()).unwrap();
        let mut figures = Figures::new(100);
        figures.slice(None, Some(&slice), at(0), false);
        figures.service(&service, true);
        let row = row(&figures, "web", 0).unwrap();
        let counts = (row.ready, row.endpoints, figures.totals(at(0)).ready);
        assert_eq!(counts, (want, 2, want), "{spec} {offered}");
    };
    let spec = |ports| json!({"clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "ports": ports});
    let named = || spec(json!([{"name": "http", "port": 80}, {"name": "metrics", "port": 9100}]));
    let headless = || json!({"clusterIP": "None", "ports": [{"port": 80}]});
    check(spec(json!([{"port": 80}])), json!(["IPv4", [{"name": "", "port": 8080}]]), 2);
    check(spec(json!([{"port": 80}])), json!(["IPv4", []]), 0);
    check(spec(json!([])), json!(["IPv4", []]), 0);
    check(named(), json!(["IPv4", [{"name": "http", "port": 8080}]]), 2);
    check(named(), json!(["IPv4", [{"name": "http", "protocol": "UDP", "port": 8080}]]), 0);
    check(named(), json!(["IPv4", [{"name": "http"}]]), 0);
    check(named(), json!(["IPv4", [{"name": "", "port": 8080}]]), 0);
    check(spec(json!([{"port": 80}])), json!(["IPv6", [{"name": "", "port": 8080}]]), 0);
    check(spec(json!([{"port": 80}])), json!(["FQDN", [{"name": "", "port": 8080}]]), 0);
    // DNS needs no ports, and has addresses of all types.
    check(headless(), json!(["FQDN", []]), 2);
    let alias = json!({"type": "ExternalName", "externalName": "db.example.com"});
    check(alias, json!(["IPv4", [{"name": "", "port": 8080}]]), 0);
}

#[test]
fn a_change_of_a_service_counts_at_once() {
    let mut figures = Figures::new(100);
    figures.slice(None, Some(&slice("a", "web", 2, 2, None)), at(0), false);
    let ready = |figures: &Figures| row(figures, "web", 0).unwrap().ready;
    figures.service(&service("web"), true);
    assert_eq!(ready(&figures), 2);
    let mut other = service("web");
    other.ports[0].name = "http".into();
    figures.service(&other, true);
    assert_eq!(ready(&figures), 0);
    figures.service(&service("web"), true);
    assert_eq!(ready(&figures), 2);
    // The slices count as they did before the Service was known.
    figures.service(&other, true);
    figures.service(&other, false);
    assert_eq!(ready(&figures), 2);
}

#[test]
fn a_service_is_forgotten_when_it_and_its_slices_are_gone() {
    let mut figures = Figures::new(100);
    let web = slice("a", "web", 1, 1, None);
    figures.service(&service("web"), true);
    figures.slice(None, Some(&web), at(0), false);
    figures.service(&service("web"), false);
    assert!(row(&figures, "web", 0).is_some());
    figures.slice(Some(&web), None, at(1), true);
    assert_eq!(row(&figures, "web", 1), None);
    // Its write still counts in the cluster.
    assert_eq!(figures.totals(at(1)).writes_last_minute, 1);
}

#[test]
fn a_slice_that_names_another_service_moves() {
    let mut figures = Figures::new(100);
    let (before, after) = (slice("a", "web", 1, 1, None), slice("a", "api", 1, 1, None));
    figures.slice(None, Some(&before), at(0), false);
    figures.slice(Some(&before), Some(&after), at(1), true);
    assert_eq!(row(&figures, "web", 1), None);
    assert_eq!(row(&figures, "api", 1).unwrap().slices, 1);
}

#[test]
fn writes_are_counted_over_a_minute_and_over_fifteen() {
    let mut figures = Figures::new(100);
    let web = slice("a", "web", 1, 1, None);
    figures.slice(None, Some(&web), at(0), false);
    for second in [0, 5, 30, 59, 600] {
        figures.slice(Some(&web), Some(&web), at(second), true);
    }
    let check = |now: i64, want: (u32, u32)| {
        let row = row(&figures, "web", now).unwrap();
        assert_eq!((row.writes_last_minute, row.writes), want, "{now}");
    };
    check(59, (4, 4));
    check(65, (2, 4));
    check(119, (0, 4));
    check(600, (1, 5));
    check(900, (0, 3));
    check(2000, (0, 0));
    let totals = figures.totals(at(600));
    assert_eq!((totals.writes.len(), totals.writes.iter().sum::<u32>()), (BUCKETS, 5));
    assert_eq!(totals.writes.last(), Some(&1));
}

#[test]
fn the_delay_is_that_of_a_new_trigger() {
    let mut figures = Figures::new(100);
    let first = slice("a", "web", 1, 1, Some(10));
    figures.slice(None, Some(&first), at(100), false);
    assert_eq!(row(&figures, "web", 100).unwrap().delay_millis, None);
    let second = slice("a", "web", 2, 2, Some(118));
    figures.slice(Some(&first), Some(&second), at(120), true);
    assert_eq!(row(&figures, "web", 120).unwrap().delay_millis, Some(2000));
    // The first write has no new trigger time, the second one comes from a clock that is ahead.
    figures.slice(Some(&second), Some(&slice("a", "web", 3, 3, Some(118))), at(150), true);
    assert_eq!(row(&figures, "web", 150).unwrap().delay_millis, Some(2000));
    figures.slice(Some(&second), Some(&slice("a", "web", 2, 2, Some(200))), at(160), true);
    assert_eq!(row(&figures, "web", 160).unwrap().delay_millis, Some(0));
    let totals = figures.totals(at(160));
    assert_eq!((totals.delay_millis_50, totals.delay_millis_99), (Some(0), Some(2000)));
    assert_eq!(figures.totals(at(5000)).delay_millis_50, None);
}

#[test]
fn memory_does_not_grow_with_writes() {
    let mut figures = Figures::new(100);
    let mut old = slice("a", "web", 1, 1, None);
    figures.slice(None, Some(&old), at(0), false);
    for second in 0..20_000 {
        let new = slice("a", "web", 1, 1, Some(second));
        figures.slice(Some(&old), Some(&new), at(second), true);
        old = new;
    }
    assert_eq!(figures.delays.len(), MAX_DELAYS);
    assert_eq!(figures.writes.0.len(), BUCKETS);
}
