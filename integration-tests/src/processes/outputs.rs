//! Compares the Endpoints and EndpointSlices on the server with the pods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;
use kube_endpoint_controllers::{Gates, Settings};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::Value;

use super::cluster::NAMESPACE;
use crate::running_manager::{settings, writes_within};

/// The outputs and inputs on the server.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    services: Vec<Value>,
    pods: Vec<Value>,
    nodes: Vec<Value>,
    slices: Vec<Value>,
    endpoints: Vec<Value>,
}

/// The addresses of a Service, each with its readiness.
type Addresses = BTreeMap<String, bool>;

impl Outputs {
    /// Reads the namespace of the load, and the nodes.
    ///
    /// # Errors
    ///
    /// The error of a failed request.
    pub async fn read(client: &Client) -> kube::Result<Self> {
        Ok(Self {
            services: list(client, &namespaced("api/v1", "services")).await?,
            pods: list(client, &namespaced("api/v1", "pods")).await?,
            nodes: list(client, "/api/v1/nodes").await?,
            slices: list(client, &namespaced("apis/discovery.k8s.io/v1", "endpointslices")).await?,
            endpoints: list(client, &namespaced("api/v1", "endpoints")).await?,
        })
    }

    /// Returns a sentence for each difference between the outputs and the pods. It does not use the
    /// controllers' code: each Service has one slice and one Endpoints object, which have all its
    /// pods with their readiness.
    pub fn differences(&self) -> Vec<String> {
        let mut wanted: BTreeMap<String, Addresses> = BTreeMap::new();
        for pod in &self.pods {
            let address = text(&pod["status"]["podIP"]);
            wanted.entry(text(&pod["metadata"]["labels"]["app"])).or_default().insert(address, is_ready(pod));
        }
        let mut differences = Vec::new();
        for service in &self.services {
            let name = text(&service["metadata"]["name"]);
            let wanted = wanted.remove(&name).unwrap_or_default();
            let slices: Vec<&Value> = self
                .slices
                .iter()
                .filter(|slice| text(&slice["metadata"]["labels"]["kubernetes.io/service-name"]) == name)
                .collect();
            if slices.len() != 1 {
                differences.push(format!("{name} has {} slices", slices.len()));
            }
            let found: Addresses = slices.iter().flat_map(|slice| addresses_of_slice(slice)).collect();
            compare(&name, "slice", &wanted, &found, &mut differences);
            let endpoints = self.endpoints.iter().find(|it| text(&it["metadata"]["name"]) == name);
            let found = endpoints.map(addresses_of_endpoints).unwrap_or_default();
            compare(&name, "Endpoints", &wanted, &found, &mut differences);
        }
        differences
    }

    /// Returns the writes of a manager that starts with these objects, in memory and under a paused
    /// clock. The list is empty if the outputs equal those of plans from scratch.
    ///
    /// # Panics
    ///
    /// If the server does not load the objects.
    pub fn writes_of_a_new_manager(&self) -> Vec<String> {
        let kinds = [
            ("v1", "Service", &self.services),
            ("v1", "Pod", &self.pods),
            ("v1", "Node", &self.nodes),
            ("discovery.k8s.io/v1", "EndpointSlice", &self.slices),
            ("v1", "Endpoints", &self.endpoints),
        ];
        let objects: Vec<Value> = kinds
            .into_iter()
            .flat_map(|(api_version, kind, objects)| {
                objects.iter().cloned().map(move |mut object| {
                    (object["apiVersion"], object["kind"]) = (api_version.into(), kind.into());
                    object
                })
            })
            .collect();
        writes_of_a_new_manager(objects, settings(Gates::default()))
    }
}

/// Returns the writes of a manager that starts with these objects, in memory and under a paused
/// clock.
///
/// # Panics
///
/// If the server does not load the objects.
pub fn writes_of_a_new_manager(objects: Vec<Value>, settings: Settings) -> Vec<String> {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let server = EmbeddedApiServer::builder().load(objects).build().unwrap();
            writes_within(&server, &settings, Duration::from_secs(60)).await
        })
    };
    // A runtime cannot start inside another.
    std::thread::spawn(run).join().unwrap()
}

fn compare(name: &str, kind: &str, wanted: &Addresses, found: &Addresses, differences: &mut Vec<String>) {
    let addresses: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    for address in addresses {
        let (wanted, found) = (wanted.get(address), found.get(address));
        if wanted != found {
            differences.push(format!("{name}: {kind}, ready of {address}: pod {wanted:?}, output {found:?}"));
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn is_ready(pod: &Value) -> bool {
    array(&pod["status"]["conditions"]).iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

fn addresses_of_slice(slice: &Value) -> Addresses {
    let endpoints = array(&slice["endpoints"]).iter();
    endpoints.map(|it| (text(&it["addresses"][0]), it["conditions"]["ready"] == true)).collect()
}

fn addresses_of_endpoints(endpoints: &Value) -> Addresses {
    let mut found = Addresses::new();
    for subset in array(&endpoints["subsets"]) {
        for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            found.extend(array(&subset[field]).iter().map(|it| (text(&it["ip"]), ready)));
        }
    }
    found
}

fn namespaced(group: &str, resource: &str) -> String {
    format!("/{group}/namespaces/{NAMESPACE}/{resource}")
}

async fn list(client: &Client, uri: &str) -> kube::Result<Vec<Value>> {
    let request = http::Request::get(uri).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let mut list: Value = client.request(request).await?;
    Ok(match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::processes::objects;

    fn of_kind(objects: &[Value], kind: &str) -> Vec<Value> {
        objects.iter().filter(|object| object["kind"] == kind).cloned().collect()
    }

    #[test]
    fn differences_are_found() {
        let objects = objects(1, 2);
        let addresses: Vec<String> =
            of_kind(&objects, "Pod").iter().map(|it| text(&it["status"]["podIP"])).collect();
        let slice = |ready: bool| {
            json!({
                "metadata": {"labels": {"kubernetes.io/service-name": "service-000"}},
                "endpoints": [
                    {"addresses": [addresses[0]], "conditions": {"ready": true}},
                    {"addresses": [addresses[1]], "conditions": {"ready": ready}},
                ],
            })
        };
        let subset = json!({"addresses": [{"ip": addresses[0]}, {"ip": addresses[1]}]});
        let mut outputs = Outputs {
            services: of_kind(&objects, "Service"),
            pods: of_kind(&objects, "Pod"),
            nodes: Vec::new(),
            slices: vec![slice(true)],
            endpoints: vec![json!({"metadata": {"name": "service-000"}, "subsets": [subset]})],
        };
        assert_eq!(outputs.differences(), Vec::<String>::new());
        outputs.slices = vec![slice(false)];
        outputs.endpoints.clear();
        assert_eq!(outputs.differences().len(), 3);
        outputs.slices = vec![slice(true), slice(true)];
        assert_eq!(outputs.differences()[0], "service-000 has 2 slices");
    }

    #[test]
    fn a_new_manager_writes_what_is_missing() {
        let objects = objects(2, 1);
        let outputs = Outputs {
            services: of_kind(&objects, "Service"),
            pods: of_kind(&objects, "Pod"),
            nodes: of_kind(&objects, "Node"),
            ..Outputs::default()
        };
        assert_eq!(outputs.writes_of_a_new_manager().len(), 4);
    }
}
