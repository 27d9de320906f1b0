//! Messages and remedies for the DNS names of Services and pods.

use std::net::IpAddr;

use kube_endpoint_core_model::Text;
use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;
use serde::Serialize;

use crate::Remedy;
use crate::remedy::Person::{PodOwner, ServiceOwner};

/// The reason why pods get no names from the Service that their subdomain names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Governing {
    /// They have a hostname, and no subdomain.
    NotNamed,
    /// No such Service exists.
    Missing,
    /// It is not headless.
    NotHeadless,
    /// It does not select these pods.
    SelectsOthers,
}

/// Says why pods have no DNS names.
pub(super) fn without_names(subdomain: &str, service: &str, governing: Governing) -> String {
    let why = match governing {
        Governing::NotNamed => {
            return format!(
                "the pods have a hostname but no subdomain, so DNS has no names for them; they need the subdomain {service:?}"
            );
        }
        Governing::Missing => "no Service of this name exists",
        Governing::NotHeadless => "the Service of this name is not headless",
        Governing::SelectsOthers => "the Service of this name does not select them",
    };
    format!("the pods have the subdomain {subdomain:?}, and {why}, so DNS has no names for them")
}

/// `spec.subdomain` of a pod and `spec.serviceName` of a StatefulSet never change.
pub(super) fn without_names_remedy(subdomain: &str, service: &str, governing: Governing) -> Remedy {
    match governing {
        Governing::NotNamed => Remedy::ask(
            PodOwner,
            format!(
                "Write the subdomain {service:?} into the pod template, and start the pods again; the subdomain of a running pod cannot be changed"
            ),
        ),
        Governing::Missing => Remedy::ask(
            ServiceOwner,
            format!(
                "Create a headless Service {subdomain:?} with the same selector and ports; or create the StatefulSet again with the serviceName {service:?}, which cannot be changed"
            ),
        ),
        Governing::NotHeadless | Governing::SelectsOthers => Remedy::ask(
            PodOwner,
            format!(
                "Create the StatefulSet, or the pods, again with the serviceName or subdomain {service:?}; neither can be changed"
            ),
        ),
    }
}

/// The reason why a text is no DNS name to which a Service can be an alias.
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
}

/// Returns why an `externalName` is no DNS name, or `None` if it may be one.
pub(crate) fn no_name(external_name: &str) -> Option<NoName> {
    let text = external_name.trim();
    let host = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, rest)| rest);
    let address = |host: &str| host.trim_end_matches('.').trim_matches(['[', ']']).parse::<IpAddr>().ok();
    let without_port = || host.rsplit_once(':').map_or(host, |(host, _)| host);
    if let Some(address) = address(host).or_else(|| address(without_port())) {
        return Some(NoName::Address { address });
    }
    if text.contains([':', '/']) {
        return Some(NoName::Url);
    }
    let last = text.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    (!last.is_empty() && last.bytes().all(|c| c.is_ascii_digit())).then_some(NoName::Numeric)
}

/// Says that no client can resolve an alias.
pub(super) fn no_name_text(external_name: &Text, why: &NoName) -> String {
    let why = match why {
        NoName::Address { address } => format!("the IP address {address}, and DNS has aliases of names only"),
        NoName::Url => "no DNS name: it has a scheme, a port or a path".to_owned(),
        NoName::Numeric => "no DNS name: its last part is a number".to_owned(),
    };
    format!("no client can resolve the Service: its externalName {external_name:?} is {why}")
}

pub(super) fn no_name_remedy(why: &NoName) -> Remedy {
    let sentence = match why {
        NoName::Address { address } => format!(
            "Make it a headless Service without a selector (spec.type ClusterIP, spec.clusterIP None, no externalName), and create an EndpointSlice with the address {address} and the label {LABEL_SERVICE_NAME}"
        ),
        NoName::Url | NoName::Numeric => {
            "Set spec.externalName to the DNS name alone; clients choose the port".to_owned()
        }
    };
    Remedy::ask(ServiceOwner, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_urls_are_no_names() {
        let address = |text: &str| {
            Some(NoName::Address { address: text.parse().unwrap_or_else(|_| IpAddr::from([0; 4])) })
        };
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
            assert_eq!(no_name(text), want, "{text}");
        }
    }
}
