//! Services without v1 Endpoints: the annotation that asks for this, and the API servers that need
//! Endpoints themselves.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::well_known::ANNOTATION_ENDPOINTS;
use crate::{Service, Text, Timestamp};

/// The value of the annotation `kube-endpoint-manager.github.io/endpoints` of a Service.
///
/// ```
/// use kube_endpoint_core_model::retirement::EndpointsSetting;
/// let setting: EndpointsSetting = "retired-until=2026-12-24T18:00:00Z".parse()?;
/// assert_eq!(setting, EndpointsSetting::RetiredUntil("2026-12-24T18:00:00Z".parse()?));
/// assert!("retired until tomorrow".parse::<EndpointsSetting>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointsSetting {
    /// `published`: the Service has Endpoints, also in a namespace that is retired.
    Published,
    /// `retired`: the Service has none.
    Retired,
    /// `retired-until=TIME`: the Service has none before this time. Afterwards the annotation means
    /// nothing.
    RetiredUntil(Timestamp),
}

/// The value of the annotation is not one of its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write retired, retired-until=TIME with a time such as 2026-12-24T18:00:00Z, or published")]
pub struct InvalidEndpointsSetting;

impl FromStr for EndpointsSetting {
    type Err = InvalidEndpointsSetting;

    fn from_str(text: &str) -> Result<Self, InvalidEndpointsSetting> {
        match text {
            "published" => Ok(Self::Published),
            "retired" => Ok(Self::Retired),
            _ => {
                let time = text.strip_prefix("retired-until=").ok_or(InvalidEndpointsSetting)?;
                time.parse().map(Self::RetiredUntil).map_err(|_| InvalidEndpointsSetting)
            }
        }
    }
}

impl Service {
    /// Reads the annotation `kube-endpoint-manager.github.io/endpoints`. Returns `None` if there is
    /// none.
    ///
    /// # Errors
    ///
    /// [`InvalidEndpointsSetting`] if the annotation has another value than those of
    /// [`EndpointsSetting`].
    pub fn endpoints_setting(&self) -> Result<Option<EndpointsSetting>, InvalidEndpointsSetting> {
        self.annotations.get(ANNOTATION_ENDPOINTS).map(|value| value.parse()).transpose()
    }
}

/// The namespaces whose Services have no Endpoints unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetiredNamespaces {
    names: BTreeSet<Text>,
    all: bool,
}

impl<T: Into<Text>> FromIterator<T> for RetiredNamespaces {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), all: false }
    }
}

/// Says if a Service has Endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Published,
    Retired {
        /// When this ends, if it ends by itself.
        until: Option<Timestamp>,
    },
}

impl RetiredNamespaces {
    /// Returns all namespaces.
    pub fn all() -> Self {
        Self { names: BTreeSet::new(), all: true }
    }

    /// Returns true if these include a namespace.
    pub fn contains(&self, namespace: &str) -> bool {
        self.all || self.names.contains(namespace)
    }

    /// Says if a Service has Endpoints at a time. Its annotation decides, or else its namespace; if
    /// all namespaces are retired, no annotation counts. An invalid one counts as none.
    /// `default/kubernetes`, whose Endpoints the API server writes, always has them.
    pub fn wanted(&self, service: &Service, now: Timestamp) -> Wanted {
        if service.is_of_the_api_server() {
            return Wanted::Published;
        }
        if self.all {
            return Wanted::Retired { until: None };
        }
        match service.endpoints_setting() {
            Ok(Some(EndpointsSetting::Published)) => Wanted::Published,
            Ok(Some(EndpointsSetting::Retired)) => Wanted::Retired { until: None },
            Ok(Some(EndpointsSetting::RetiredUntil(end))) if end > now => {
                Wanted::Retired { until: Some(end).filter(|_| !self.contains(&service.key.namespace)) }
            }
            _ if self.contains(&service.key.namespace) => Wanted::Retired { until: None },
            _ => Wanted::Published,
        }
    }
}

/// The version of an API server, from its document `/version`.
///
/// ```
/// use kube_endpoint_core_model::retirement::ServerVersion;
/// let version: ServerVersion = serde_json::from_str(r#"{"major": "1", "minor": "36+"}"#)?;
/// assert_eq!(version, ServerVersion { major: 1, minor: 36 });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "RawVersion")]
pub struct ServerVersion {
    pub major: u32,
    pub minor: u32,
}

#[derive(Deserialize)]
struct RawVersion {
    major: String,
    minor: String,
}

impl TryFrom<RawVersion> for ServerVersion {
    type Error = String;

    fn try_from(raw: RawVersion) -> Result<Self, String> {
        // Providers append a plus sign.
        let number = |text: &str| {
            text.trim_end_matches('+').parse().map_err(|_| format!("{text:?} is no number of a version"))
        };
        Ok(Self { major: number(&raw.major)?, minor: number(&raw.minor)? })
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The last version whose API server reads Endpoints to reach aggregated APIs and webhooks
/// (KEP-4974).
pub const LAST_THAT_RESOLVES: ServerVersion = ServerVersion { major: 1, minor: 33 };
/// The last version whose API server reads Endpoints for `services/NAME/proxy`.
pub const LAST_THAT_PROXIES: ServerVersion = ServerVersion { major: 1, minor: 36 };

impl ServerVersion {
    /// Returns why an API server of this version needs Endpoints itself, or `None` if nothing
    /// speaks against retiring these. `of_all` is true if all Services would lose theirs.
    pub fn needs_endpoints(self, of_all: bool) -> Option<String> {
        if self <= LAST_THAT_RESOLVES {
            return Some(format!(
                "an API server of version {self} reads Endpoints to reach aggregated APIs and webhooks"
            ));
        }
        (of_all && self <= LAST_THAT_PROXIES).then(|| {
            format!("an API server of version {self} reads Endpoints for requests to services/NAME/proxy")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(namespace: &str, annotation: Option<&str>) -> Service {
        let annotations = annotation.map(|value| json!({ANNOTATION_ENDPOINTS: value}));
        let metadata = json!({"name": "kubernetes", "namespace": namespace, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"selector": {"a": "b"}}})).unwrap()
    }

    #[test]
    fn the_annotation_decides_and_then_the_namespace() {
        let namespaces: RetiredNamespaces = ["old"].into_iter().collect();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (now, retired) = (at("2026-01-01T12:00:00Z"), Wanted::Retired { until: None });
        let check = |namespace: &str, annotation: Option<&str>, want: Wanted| {
            let service = service(namespace, annotation);
            assert_eq!(namespaces.wanted(&service, now), want, "{namespace} {annotation:?}");
        };
        check("shop", None, Wanted::Published);
        check("old", None, retired);
        check("shop", Some("retired"), retired);
        check("old", Some("published"), Wanted::Published);
        let end = Wanted::Retired { until: Some(at("2026-01-01T12:00:01Z")) };
        check("shop", Some("retired-until=2026-01-01T12:00:01Z"), end);
        check("shop", Some("retired-until=2026-01-01T13:00:01+01:00"), end);
        check("old", Some("retired-until=2026-01-01T12:00:01Z"), retired);
        check("shop", Some("retired-until=2026-01-01T12:00:00Z"), Wanted::Published);
        check("old", Some("retired-until=2026-01-01T12:00:00Z"), retired);
        for invalid in ["", "Retired", "retired ", "retired-until=", "retired-until=2026-01-01", "true"] {
            check("shop", Some(invalid), Wanted::Published);
            check("old", Some(invalid), retired);
        }
        check("default", Some("retired"), Wanted::Published);
        let all = RetiredNamespaces::all();
        assert_eq!(all.wanted(&service("shop", None), now), retired);
        assert_eq!(all.wanted(&service("shop", Some("published")), now), retired);
        assert_eq!(all.wanted(&service("default", None), now), Wanted::Published);
    }

    #[test]
    fn a_server_says_why_it_needs_endpoints() {
        let check = |minor: &str, one: bool, all: bool| {
            let version: ServerVersion =
                serde_json::from_value(json!({"major": "1", "minor": minor, "platform": "x"})).unwrap();
            let needs = [false, true].map(|of_all| version.needs_endpoints(of_all).is_some());
            assert_eq!(needs, [one, all], "{minor}");
        };
        check("29+", true, true);
        check("33", true, true);
        check("34", false, true);
        check("36", false, true);
        check("37", false, false);
        let reasons = ["33", "36"].map(|minor| {
            let version = ServerVersion { major: 1, minor: minor.parse().unwrap() };
            version.needs_endpoints(true).unwrap()
        });
        insta::assert_snapshot!(reasons.join("\n"), @r"
        an API server of version 1.33 reads Endpoints to reach aggregated APIs and webhooks
        an API server of version 1.36 reads Endpoints for requests to services/NAME/proxy
        ");
        for other in [json!({}), json!({"major": "1", "minor": ""}), json!({"major": 1, "minor": 36})] {
            assert!(serde_json::from_value::<ServerVersion>(other.clone()).is_err(), "{other}");
        }
        assert!(ServerVersion { major: 2, minor: 0 }.needs_endpoints(true).is_none());
    }
}
