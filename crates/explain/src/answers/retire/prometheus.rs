//! Reads configurations of Prometheus: jobs with the role `endpoints`, and objects of
//! prometheus-operator without the role EndpointSlice.

use std::collections::BTreeSet;

use kube_endpoint_core_model::{ObjectKey, Text};
use serde_json::Value;

use super::Pods;
use super::evidence::{EvidenceKind, Findings, Source};
use super::programs::PROMETHEUS_REMEDY;
use crate::answers::doctor::{Read, key_of};

const CONFIG_FLAG: &str = "config.file";
/// Where the images of Prometheus have their configuration.
const DEFAULT_CONFIG: &str = "/etc/prometheus/prometheus.yml";

/// Where the configuration of a Prometheus server is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Configuration {
    /// In a key of a ConfigMap.
    ConfigMap { object: ObjectKey, key: String },
    /// In a key of a Secret.
    Secret { object: ObjectKey, key: String },
    /// prometheus-operator makes it from objects.
    Operator,
    /// Elsewhere, such as in the image.
    Elsewhere(ObjectKey),
}

impl Configuration {
    /// Finds the configuration of a container of a pod.
    pub(super) fn of(pod: &Value, container: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &pod["metadata"];
        let labels = &metadata["labels"];
        let namespace = text(&metadata["namespace"]);
        if labels["app.kubernetes.io/managed-by"] == "prometheus-operator"
            || !labels["operator.prometheus.io/name"].is_null()
        {
            return Self::Operator;
        }
        let found = || -> Option<Self> {
            let path = config_file(container);
            let mounts = container["volumeMounts"].as_array()?.iter();
            let below = |mount: &&Value| path.starts_with(mount["mountPath"].as_str().unwrap_or("\0"));
            let mount = mounts.filter(below).max_by_key(|mount| mount["mountPath"].as_str().map(str::len))?;
            let rest = path.strip_prefix(mount["mountPath"].as_str()?)?.trim_start_matches('/');
            let file = match mount["subPath"].as_str() {
                Some(below) if rest.is_empty() => below,
                _ => rest,
            };
            let volume =
                pod["spec"]["volumes"].as_array()?.iter().find(|volume| volume["name"] == mount["name"])?;
            let projected = volume["projected"]["sources"].as_array().into_iter().flatten();
            std::iter::once(volume).chain(projected).find_map(|source| in_source(source, &namespace, file))
        };
        found().unwrap_or_else(|| Self::Elsewhere(ObjectKey::new(&*namespace, text(&metadata["name"]))))
    }
}

fn config_file(container: &Value) -> String {
    let lists = ["command", "args"].iter().flat_map(|list| container[list].as_array().into_iter().flatten());
    let arguments: Vec<&str> = lists.filter_map(Value::as_str).collect();
    let following = arguments.iter().skip(1).map(Some).chain([None]);
    let file = arguments.iter().zip(following).find_map(|(argument, next)| {
        match argument.trim_start_matches('-').strip_prefix(CONFIG_FLAG)? {
            "" => next.map(|next| (*next).to_owned()),
            value => value.strip_prefix('=').map(str::to_owned),
        }
    });
    file.unwrap_or_else(|| DEFAULT_CONFIG.to_owned())
}

/// Returns the place of a file in a ConfigMap or a Secret of a volume.
fn in_source(source: &Value, namespace: &str, file: &str) -> Option<Configuration> {
    let (volume, name, is_secret) =
        [("configMap", "name", false), ("secret", "secretName", true), ("secret", "name", true)]
            .into_iter()
            .find_map(|(kind, field, is_secret)| {
                Some((&source[kind], source[kind][field].as_str()?, is_secret))
            })?;
    // Without items, each key is a file.
    let key = match volume["items"].as_array() {
        Some(items) => items.iter().find(|item| item["path"] == file)?["key"].as_str()?,
        None => file,
    };
    let (object, key) = (ObjectKey::new(namespace, name), key.to_owned());
    Some(if is_secret {
        Configuration::Secret { object, key }
    } else {
        Configuration::ConfigMap { object, key }
    })
}

/// A configuration, and its text or the reason why it was not read.
#[derive(Clone, Debug)]
pub struct ConfigurationRead {
    pub configuration: Configuration,
    pub text: Read<String>,
}

/// The objects of prometheus-operator. Each may set a role.
#[derive(Clone, Debug, Default)]
pub struct PrometheusObjects {
    /// `Prometheus` and `PrometheusAgent` without the role EndpointSlice.
    servers: Vec<(String, ObjectKey)>,
    /// ServiceMonitors with the role Endpoints.
    monitors: Vec<ObjectKey>,
}

impl PrometheusObjects {
    /// Adds what another holds.
    pub fn extend(&mut self, other: Self) {
        self.servers.extend(other.servers);
        self.monitors.extend(other.monitors);
    }

    /// Adds a Prometheus, a PrometheusAgent or a ServiceMonitor.
    pub fn add(&mut self, kind: &str, object: &Value) {
        let key = key_of(&object["metadata"]);
        let role = object["spec"]["serviceDiscoveryRole"].as_str();
        match kind {
            "ServiceMonitor" if role == Some("Endpoints") => self.monitors.push(key),
            "ServiceMonitor" => {}
            // The default of the operator is Endpoints.
            _ if role != Some("EndpointSlice") => self.servers.push((kind.to_owned(), key)),
            _ => {}
        }
    }
}

/// Says what configurations and objects tell.
pub(super) fn evidence(
    pods: Option<&Pods>,
    configurations: &[ConfigurationRead],
    objects: &Read<PrometheusObjects>,
) -> Findings {
    let mut findings = Findings::default();
    for read in configurations {
        let names = pods.map(|pods| pods.with_configuration(&read.configuration)).unwrap_or_default();
        of_configuration(&names, read, &mut findings);
    }
    match objects {
        Ok(objects) => of_objects(objects, &mut findings),
        // Without the operator there is nothing to read.
        Err(_) if pods.is_some_and(|pods| !pods.has_prometheus_operator()) => {}
        Err(why) => findings.unread("Objects of prometheus-operator", why),
    }
    findings
}

fn of_configuration(names: &str, read: &ConfigurationRead, findings: &mut Findings) {
    let place = match &read.configuration {
        Configuration::ConfigMap { object, key } => format!("ConfigMap {object}, key {key}"),
        Configuration::Secret { object, key } => format!("Secret {object}, key {key}"),
        Configuration::Operator => return,
        Configuration::Elsewhere(_) => {
            findings.hidden(
                format!(
                    "The configuration of Prometheus {names} is in no ConfigMap or Secret that its pod shows"
                ),
                "Look for `role: endpoints` in it.",
            );
            return;
        }
    };
    let text = match &read.text {
        Ok(text) => text,
        Err(why) => {
            findings.unread(&format!("The configuration of Prometheus {names} ({place})"), why);
            return;
        }
    };
    let Ok(configuration) = serde_saphyr::from_str::<Value>(text) else {
        let remedy = "Look for `role: endpoints` in it.";
        findings.hidden(format!("The configuration of Prometheus {names} ({place}) is no YAML"), remedy);
        return;
    };
    let mut jobs = Jobs::default();
    jobs.find(&configuration, "");
    if !jobs.names.is_empty() {
        let word = if jobs.names.len() == 1 { "job" } else { "jobs" };
        let list = jobs.names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
        let what = format!("Prometheus {names} has role endpoints in {word} {list} ({place})");
        match jobs.namespaces {
            Some(namespaces) => {
                for namespace in namespaces {
                    let (kind, source) = (EvidenceKind::Reader, Source::Configuration);
                    findings.add(kind, source, Some(&namespace), &*what, PROMETHEUS_REMEDY);
                }
            }
            None => {
                findings.add(EvidenceKind::Reader, Source::Configuration, None, what, PROMETHEUS_REMEDY);
            }
        }
    }
    if jobs.includes {
        findings.hidden(
            format!("The configuration of Prometheus {names} ({place}) has scrape_config_files, which were not read"),
            "Look for `role: endpoints` in them.",
        );
    }
}

/// The jobs of a configuration that read Endpoints.
#[derive(Debug, Default)]
struct Jobs {
    names: BTreeSet<String>,
    /// The namespaces that they name, unless one of them reads all.
    namespaces: Option<BTreeSet<Text>>,
    includes: bool,
}

impl Jobs {
    fn find(&mut self, value: &Value, job: &str) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.find(item, job)),
            Value::Object(fields) => {
                let job = value["job_name"].as_str().unwrap_or(job);
                self.includes |= fields.contains_key("scrape_config_files");
                for config in value["kubernetes_sd_configs"].as_array().into_iter().flatten() {
                    if config["role"] == "endpoints" {
                        self.add(job, config);
                    }
                }
                for (name, field) in fields {
                    self.find(field, if name == "alertmanagers" { "of alerting" } else { job });
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, job: &str, config: &Value) {
        let names = config["namespaces"]["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let namespaces: BTreeSet<Text> = names.map(Text::from).collect();
        let is_limited = !namespaces.is_empty() && config["namespaces"]["own_namespace"] != true;
        self.namespaces = match (self.names.is_empty(), self.namespaces.take()) {
            (true, _) if is_limited => Some(namespaces),
            (false, Some(mut known)) if is_limited => {
                known.extend(namespaces);
                Some(known)
            }
            _ => None,
        };
        self.names.insert(if job.is_empty() { "without a name".to_owned() } else { job.to_owned() });
    }
}

fn of_objects(objects: &PrometheusObjects, findings: &mut Findings) {
    let (kind, source) = (EvidenceKind::Reader, Source::Configuration);
    for (object, key) in &objects.servers {
        let what = format!("{object} {key} of prometheus-operator has role Endpoints, the default");
        let remedy = "Set spec.serviceDiscoveryRole: EndpointSlice in it, and let its ServiceAccount get, list and watch \
                      endpointslices.discovery.k8s.io.";
        findings.add(kind, source, None, what, remedy);
    }
    for key in &objects.monitors {
        let what = format!("ServiceMonitor {key} has spec.serviceDiscoveryRole Endpoints");
        // It may select Services of other namespaces.
        findings.add(kind, source, None, what, "Set it to EndpointSlice, or leave it out.");
    }
}
