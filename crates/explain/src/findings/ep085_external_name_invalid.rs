//! The Service is an alias that leads nowhere.

use std::net::IpAddr;

use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;

use crate::facts::external_name::service_of;
use crate::findings::prelude::*;

about! {
    /// DNS answers with the alias, a name, and clients look that name up. An IP address, or a text
    /// with a scheme, a port or a path, is no name. The API server refuses most such texts, but not
    /// an IPv4 address. An alias may also mean a Service of the cluster: itself, one whose alias
    /// leads back to it, or one that does not exist, if its name ends with `svc` or
    /// `svc.cluster.local`. DNS does not complete an alias, so that a name without the domain of
    /// the cluster, such as that of a Service alone, leads nowhere, too. The overview of the status
    /// page does not know `spec.externalName`, and shows EP033.
    EP085 "external-name-invalid" Error
    "The alias of the Service leads nowhere: to an address, to itself, to a short name, or to a Service that does not exist."
}

/// An alias of a text that is no DNS name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalNameInvalid {
    pub external_name: Text,
    #[serde(flatten)]
    pub why: NoName,
}

/// The reason why an alias leads nowhere. Serialises with the tag `why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NoName {
    /// It is an IP address, perhaps with more.
    Address { address: IpAddr },
    /// It has a scheme, a port or a path.
    Url,
    /// Its last part is a number, as no domain has it.
    Numeric,
    /// It is the name of the Service, or that of one whose alias leads back to it.
    Itself,
    /// It is the name of a Service that does not exist.
    Missing { service: ObjectKey },
    /// It is the name of a Service without the domain of the cluster.
    Short { service: ObjectKey },
}

impl NoName {
    /// Returns why an `externalName` is no DNS name, or `None` if it may be one.
    fn of(external_name: &str) -> Option<Self> {
        let text = external_name.trim();
        let host = text.split_once("://").map_or(text, |(_, rest)| rest);
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit_once('@').map_or(host, |(_, rest)| rest);
        let address = |host: &str| host.trim_end_matches('.').trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let without_port = || host.rsplit_once(':').map_or(host, |(host, _)| host);
        if let Some(address) = address(host).or_else(|| address(without_port())) {
            return Some(Self::Address { address });
        }
        if text.contains([':', '/']) {
            return Some(Self::Url);
        }
        let last = text.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
        (!last.is_empty() && last.bytes().all(|c| c.is_ascii_digit())).then_some(Self::Numeric)
    }
}

/// The maximum number of aliases that lead from one to the next.
const ALIASES: usize = 8;

/// Returns the Service whose name without the domain of the cluster is the alias. DNS takes the
/// name as it is, and the search domains of a pod are for what its programs ask.
fn shortened(inputs: &FaultInputs<'_>, external_name: &str) -> Option<NoName> {
    let mut parts = external_name.trim().trim_end_matches('.').split('.');
    let name = parts.next()?;
    let namespace = parts.next().unwrap_or(&inputs.service.key.namespace);
    let is_short = parts.next().is_none_or(|svc| svc == "svc") && parts.next().is_none();
    let service = ObjectKey::new(namespace, name);
    (is_short && inputs.objects.service(&service).is_some()).then_some(NoName::Short { service })
}

/// Returns why an alias of a Service leads nowhere, if it means a Service.
fn misled(inputs: &FaultInputs<'_>, external_name: &str) -> Option<NoName> {
    let (objects, own) = (inputs.objects, &inputs.service.key);
    let first = service_of(external_name)?;
    let from_files = inputs.options.are_from_files();
    // Who has another Service of a namespace has all of them; from a server, this is certain for
    // that of the alias only.
    let mut others = objects.services().filter(|key| *key != own && key.namespace == first.namespace);
    let may_be_all = from_files || first.namespace == own.namespace;
    let is_read = may_be_all && others.next().is_some() || !from_files && objects.raw.lists(&first);
    let is_absent = objects.raw.absent_services.contains(&first) || is_read;
    if first != *own && objects.service(&first).is_none() && is_absent {
        return Some(NoName::Missing { service: first });
    }
    let next = |key: &ObjectKey| objects.alias_of(key);
    let mut aliases = std::iter::successors(Some(first), next).take(ALIASES);
    aliases.any(|alias| alias == *own).then_some(NoName::Itself)
}

impl Finding for ExternalNameInvalid {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let external_name = inputs.objects.raw.external_names.get(&inputs.service.key);
        let external_name = external_name.filter(|_| inputs.is_alias());
        let invalid = external_name.and_then(|name| {
            let why =
                NoName::of(name).or_else(|| misled(inputs, name)).or_else(|| shortened(inputs, name))?;
            Some(Self { external_name: name.clone(), why })
        });
        invalid.into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.service(".spec.externalName", &*self.external_name)]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let sentence = match &self.why {
            NoName::Address { address } => format!(
                "Make it a headless Service without a selector (spec.type ClusterIP, spec.clusterIP None, no externalName), and create an EndpointSlice with the address {address} and the label {LABEL_SERVICE_NAME}"
            ),
            NoName::Url | NoName::Numeric => {
                "Set spec.externalName to the DNS name alone; clients choose the port".to_owned()
            }
            NoName::Itself => "Set spec.externalName to the name that clients should reach".to_owned(),
            NoName::Short { service } => {
                format!("Set spec.externalName to {}.{}.svc.cluster.local", service.name, service.namespace)
            }
            NoName::Missing { service } => {
                let show = Step::kubectl_in(&service.namespace, ["get", "services"]);
                let sentence =
                    "Set spec.externalName to the name of a Service that exists, or create this one";
                return Remedy::ask(ServiceOwner, sentence).shown_by([show]);
            }
        };
        Remedy::ask(ServiceOwner, sentence)
    }

    fn explains(&self, other: &Fault) -> bool {
        matches!(other, Fault::ExternalName(_))
    }
}

impl fmt::Display for ExternalNameInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match &self.why {
            NoName::Address { address } => {
                format!("the IP address {address}, and DNS has aliases of names only")
            }
            NoName::Url => "no DNS name: it has a scheme, a port or a path".to_owned(),
            NoName::Numeric => "no DNS name: its last part is a number".to_owned(),
            NoName::Itself => "the name of the Service itself, or leads back to it".to_owned(),
            NoName::Missing { service } => format!("the Service {service}, which does not exist"),
            NoName::Short { service } => {
                format!(
                    "a short name of the Service {service}, and DNS completes no alias with the domain of the cluster"
                )
            }
        };
        write!(f, "no client can resolve the Service: its externalName {:?} is {why}", self.external_name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::facts::objects::Objects;
    use crate::facts::options::Options;
    use crate::findings::testing::*;

    #[test]
    fn a_name_with_digits_is_a_name() {
        let address = example("ep085-external-name-invalid");
        assert!(address.finds(Code::ExternalNameInvalid));
        assert!(!address.finds(Code::ExternalName));
        let name = address.with("Service/web", json!({"spec": {"externalName": "10-20-30-40.example.com"}}));
        assert!(!name.finds(Code::ExternalNameInvalid));
        assert!(name.finds(Code::ExternalName));
    }

    #[test]
    fn an_alias_may_lead_back_or_to_no_service() {
        let alias = |of: &str| json!({"spec": {"externalName": of}});
        let service = |name: &str, spec: Value| json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec});
        let back = service("db", json!({"type": "ExternalName", "externalName": "web.default.svc"}));
        let web = example("ep085-external-name-invalid");
        let to_db = web.clone().with("Service/web", alias("db.default.svc.cluster.local"));
        assert!(!to_db.finds(Code::ExternalNameInvalid), "nobody has read the other Services");
        let primary = service("db-primary", json!({"clusterIP": "None", "ports": [{"port": 80}]}));
        assert!(to_db.clone().and(primary).says("default/db, which does not exist"));
        assert!(to_db.and(back).says("leads back to it"));
        let short = web.clone().with("Service/web", alias("db"));
        assert!(!short.finds(Code::ExternalNameInvalid), "it may be the name of a host");
        let db = service("db", json!({"clusterIP": "None", "ports": [{"port": 80}]}));
        assert!(short.and(db.clone()).says("a short name of the Service default/db"));
        for of in ["db.default", "db.default.svc"] {
            assert!(
                web.clone().with("Service/web", alias(of)).and(db.clone()).finds(Code::ExternalNameInvalid)
            );
        }
        let elsewhere = web.with("Service/web", alias("db.shop.svc.cluster.local"));
        assert!(!elsewhere.finds(Code::ExternalNameInvalid), "nobody has read that namespace");
        let listed = |namespace: Option<&str>, from_files: bool| {
            let to_db = json!({"kind": "Service", "metadata": {"name": "web", "namespace": "default"},
                "spec": {"type": "ExternalName", "externalName": "db.shop.svc.cluster.local"}});
            let mut objects = Objects::read([to_db]).unwrap();
            objects.note_listed_services(namespace);
            let files = from_files.then(Default::default);
            let options = Options { files, ..Options::default() };
            let now = "2026-01-01T00:10:00Z".parse().unwrap();
            let found = lint(&objects, now, &options, &LintOptions::default());
            found.problems.iter().any(|lint| lint.code == Code::ExternalNameInvalid)
        };
        assert!(listed(None, false) && listed(Some("shop"), false));
        assert!(!listed(Some("default"), false) && !listed(None, true));
    }

    #[test]
    fn addresses_and_urls_are_no_names() {
        let address = |text: &str| Some(NoName::Address { address: text.parse().unwrap() });
        for (text, want) in [
            ("10.20.30.40", address("10.20.30.40")),
            ("10.20.30.40.", address("10.20.30.40")),
            (" 10.20.30.40", address("10.20.30.40")),
            ("10.20.30.40:1521", address("10.20.30.40")),
            ("http://10.20.30.40/x", address("10.20.30.40")),
            ("https://user@10.20.30.40:8443", address("10.20.30.40")),
            ("fd00::7", address("fd00::7")),
            ("[fd00::7]", address("fd00::7")),
            ("[fd00::7]:443", address("fd00::7")),
            ("https://[fd00::7]:443/", address("fd00::7")),
            ("https://db.example.com", Some(NoName::Url)),
            ("db.example.com:5432", Some(NoName::Url)),
            ("db.example.com/x", Some(NoName::Url)),
            ("10.20.30", Some(NoName::Numeric)),
            ("010.020.030.040", Some(NoName::Numeric)),
            ("300.1.1.1", Some(NoName::Numeric)),
            ("db.example.com", None),
            ("db.example.com.", None),
            ("db-1", None),
            ("10-20-30-40.example.com", None),
            ("4.example.com", None),
            ("", None),
        ] {
            assert_eq!(NoName::of(text), want, "{text}");
        }
    }
}
