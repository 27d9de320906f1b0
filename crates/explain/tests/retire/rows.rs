//! Tests each row of the evidence.

use kube_endpoint_explain::doctor::Instance;
use kube_endpoint_explain::retire::{EvidenceKind, Facts, Metrics, Verdict, api_servers};
use serde_json::json;

use super::{facts, file, forbidden, hides, says, verdict, version};

/// Returns facts whose server has another version.
fn with_version(cluster: &str, minor: u32) -> Facts {
    Facts { server: Ok(version(minor)), ..facts(cluster) }
}

#[test]
fn servers_up_to_1_36_read_endpoints_for_services_proxy() {
    let proxies = |minor: u32| {
        let readers = says(&with_version("busy", minor), EvidenceKind::Reader);
        readers.into_iter().filter(|what| what.contains("/proxy")).count()
    };
    assert_eq!([36, 37].map(proxies), [2, 0]);
    // By the metrics there was no such request.
    assert_eq!(verdict(&facts("quiet"), "shop"), Verdict::NoReaderSeen);
    let with_line = |line: &str| {
        let metrics = Metrics::read(&(file("quiet/metrics.txt") + line));
        hides(&Facts { metrics: Ok(vec![metrics]), ..facts("quiet") })
    };
    let line = "apiserver_request_total{code=\"200\",group=\"\",resource=\"services\",subresource=\"proxy\",verb=\"CONNECT\"} 3\n";
    insta::assert_snapshot!(with_line(line).join("\n"), @"API servers of version 1.36 read Endpoints for requests to services/NAME/proxy. By their metrics that happened 3 times, and no audit log shows by whom");
    assert!(with_line(&line.replace("proxy", "status")).is_empty());
    // Nobody says that there was none.
    let unknown = hides(&Facts { metrics: Err(forbidden("get /metrics")), ..facts("quiet") });
    assert!(unknown.iter().any(|what| what.contains("Their metrics do not tell how often")), "{unknown:?}");
}

#[test]
fn servers_up_to_1_33_reach_aggregated_apis_and_webhooks_by_endpoints() {
    let old = with_version("quiet", 33);
    assert_eq!(
        says(&old, EvidenceKind::Refused),
        [
            "*: API servers of version 1.33 reach aggregated APIs and webhooks through the Endpoints of their Services"
        ]
    );
    assert_eq!(verdict(&old, "shop"), Verdict::Refuse);
    assert!(says(&with_version("quiet", 34), EvidenceKind::Refused).is_empty());
    // Each of these servers watches Endpoints, too.
    let mut watched = old;
    watched.managers.iter_mut().for_each(Vec::clear);
    assert!(hides(&watched).is_empty(), "{:?}", hides(&watched));
}

#[test]
fn open_watches_are_explained_against_the_known_ones() {
    let of = |copies: usize| {
        let metrics = vec![Metrics::read(&file("quiet/metrics.txt")); copies];
        Facts { metrics: Ok(metrics), api_servers: Ok(copies), ..facts("quiet") }
    };
    assert!(hides(&of(1)).is_empty());
    let of_two = hides(&of(2));
    assert!(of_two.iter().any(|what| what == "The audit logs are those of 1 of 2 API servers"), "{of_two:?}");
    let watches = of_two.iter().find(|what| what.contains("watches")).unwrap();
    insta::assert_snapshot!(watches, @"4 watches of Endpoints are open, of which 2 may be known (1 of kube-controller-manager's garbage collector, 1 of kube-endpoint-manager, one for each replica); 2 are of nobody known");
    assert_eq!(verdict(&of(2), "shop"), Verdict::Unknown);
    // A replica that does not run watches nothing. One that serves EndpointSelectors alone does not
    // watch Endpoints.
    let with = |change: fn(&mut Instance)| {
        let mut facts = facts("quiet");
        facts.managers.iter_mut().flatten().for_each(change);
        hides(&facts).remove(0)
    };
    for hidden in [
        with(|pod| pod.started = None),
        with(|pod| pod.arguments = vec!["--controllers=endpoint-selector-controller".to_owned()]),
    ] {
        assert!(hidden.contains("of which 1 may be known"), "{hidden}");
    }
}

#[test]
fn api_servers_are_counted_by_their_leases() {
    let lease = |renewed: &str| json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "a", "renewTime": renewed}});
    let [one, two, old] =
        ["2026-01-01T12:00:00.5Z", "2026-01-01T12:00:09.5Z", "2026-01-01T11:50:00.0Z"].map(lease);
    assert_eq!(api_servers(&[one, two, old]), Some(2));
    assert_eq!(api_servers(&[]), None);
}

#[test]
fn metrics_are_read_whatever_their_labels_contain() {
    let of = |text: &str| Metrics::read(text);
    let watch = "apiserver_longrunning_requests{component=\"a}b\\\"{\",group=\"\",resource=\"endpoints\",verb=\"WATCH\"} 1";
    assert_ne!(of(watch), of("apiserver_"));
    for other in [
        watch.replace("endpoints", "endpointslices"),
        watch.replace("group=\"\"", "group=\"x\""),
        watch.replace("WATCH", "CONNECT"),
        watch.replace("} 1", "} NaN"),
        watch.replace("} 1", "} -1"),
        watch.replace("} 1", "}"),
        watch.replace("_requests{", "_requests_more{"),
        watch.replace("resource=", "subresource="),
        "apiserver_longrunning_requests{a".to_owned(),
        "apiserver_longrunning_requests".to_owned(),
    ] {
        assert_eq!(of(&other), of("apiserver_"), "{other}");
    }
    assert!(
        !of("# HELP go_goroutines x\ngo_goroutines 5\nprocess_start_time_seconds 1e9\n").is_of_api_server()
    );
}
