//! Compares the model of CoreDNS with CoreDNS's answers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kube_endpoint_core_model::service::ServiceType;
use kube_endpoint_explain::consumers::core_dns::{CoreDns, Question, Record};
use serde::Deserialize;
use serde_json::Value;

use super::{Recorded, recording};

/// The answers by the plugin's options, and by question: the part of the name before the Service's,
/// and the type.
pub(super) type Names = BTreeMap<String, BTreeMap<String, Answer>>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Answer {
    /// Addresses, `CNAME` and a domain, or an endpoint's name and a port.
    answer: BTreeSet<String>,
    /// The addresses of the endpoints' names.
    #[serde(default)]
    extra: BTreeSet<String>,
}

const OPTIONS: [(&str, CoreDns); 2] = [
    ("default", CoreDns { endpoint_pod_names: false, ignore_empty_service: false }),
    ("both options", CoreDns { endpoint_pod_names: true, ignore_empty_service: true }),
];

/// Returns a question of the recording: `A`, `NAME A`, or `_PORT._PROTOCOL SRV`, and its type.
fn read(question: &str) -> (Question, &str) {
    let Some((name, kind)) = question.rsplit_once(' ') else { return (Question::Service, question) };
    match name.split_once("._") {
        Some((port, protocol)) => {
            let port = port.trim_start_matches('_').into();
            (Question::Port { port, protocol: protocol.into() }, kind)
        }
        None => (Question::Endpoint(name.into()), kind),
    }
}

/// Returns the records of a type as the recording has them.
fn answer(records: &[Record], kind: &str) -> Answer {
    let mut answer = Answer::default();
    for Record { host, name, port } in records {
        let address: Option<IpAddr> = host.parse().ok();
        let name = name.as_deref().unwrap_or_default();
        match (kind, address) {
            ("A", Some(address)) if address.is_ipv4() => _ = answer.answer.insert(address.to_string()),
            ("AAAA", Some(address)) if address.is_ipv6() => _ = answer.answer.insert(address.to_string()),
            ("A" | "AAAA", Some(_)) => {}
            ("SRV", Some(address)) => {
                answer.answer.insert(format!("{name} {}", port.unwrap_or_default()));
                answer.extra.insert(format!("{name} {address}"));
            }
            ("SRV", None) => _ = answer.answer.insert(format!("{host}. {}", port.unwrap_or_default())),
            (_, None) => _ = answer.answer.insert(format!("CNAME {host}.")),
            (kind, _) => panic!("{kind} is no type of the recording"),
        }
    }
    answer
}

/// Returns an answer without the second cluster IP of a Service, which [`Service`] does not hold.
///
/// [`Service`]: kube_endpoint_core_model::Service
fn without_second_cluster_ip(mut answer: Answer, service: &Value) -> Answer {
    if let Some(second) = service["spec"]["clusterIPs"][1].as_str() {
        answer.answer.remove(second);
        answer.extra.remove(&format!(" {second}"));
    }
    answer
}

#[test]
fn the_model_has_the_answers_of_core_dns() {
    let recording = recording();
    let (mut differences, mut empty, mut full) = (Vec::new(), 0, 0);
    for Recorded { service, json, names, .. } in &recording.services {
        // The answer is an alias, which the model lacks.
        if service.service_type == ServiceType::ExternalName {
            continue;
        }
        let slices = &recording.slices[&*service.key.namespace];
        for (options, dns) in OPTIONS {
            for (text, recorded) in &names[options] {
                let (question, kind) = read(text);
                let modelled = answer(&dns.resolve(service, slices, &question), kind);
                *if modelled.answer.is_empty() { &mut empty } else { &mut full } += 1;
                let recorded = without_second_cluster_ip(recorded.clone(), json);
                if modelled != recorded {
                    let key = &service.key;
                    differences.push(format!("{key}, {text}, {options}:\n  {recorded:?}\n  {modelled:?}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    assert_eq!((empty, full), (3601, 1307));
}
