//! The pages besides health: their content, which a program gives, in upstream's text and JSON
//! forms.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kube_endpoint_core_model::time::rfc3339;
use serde_json::{Value, json};

use crate::health::HealthChecks;
use crate::mounted::MountedPages;

/// Makes the content of a page for each request. It runs on a thread for blocking work and may take
/// milliseconds.
pub type Page<T> = Arc<dyn Fn() -> T + Send + Sync>;

/// A program's own part of `/statusz`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusPage {
    /// For people: lines that follow upstream's.
    pub text: String,
    /// For programs: the value of `manager` in the JSON form.
    pub json: Value,
}

/// The content of all pages. It must not contain a secret.
#[derive(Clone)]
pub struct Pages {
    /// The program's name, such as `kube-endpoint-manager`.
    pub component: String,
    pub version: String,
    /// `/healthz`, `/livez` and `/readyz`.
    pub health: HealthChecks,
    /// `/metrics`, in Prometheus' text format.
    pub metrics: Option<Page<String>>,
    /// `/metrics/slis`, in Prometheus' text format.
    pub slis: Option<Page<String>>,
    /// `/configz`: the effective configuration.
    pub configz: Value,
    /// `/flagz`: the value of each flag.
    pub flagz: BTreeMap<String, String>,
    pub statusz: Option<Page<StatusPage>>,
    /// Pages of the program. They must not be below each other, or below the paths above.
    pub mounted: Vec<MountedPages>,
}

/// The pages that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Metrics,
    Slis,
    Configz,
    Flagz,
    Statusz,
}

impl Known {
    /// Returns the page of a decoded path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/metrics" => Self::Metrics,
            "/metrics/slis" => Self::Slis,
            "/configz" => Self::Configz,
            "/flagz" => Self::Flagz,
            "/statusz" => Self::Statusz,
            _ => return None,
        })
    }
}

/// The paths that `/statusz` names, as upstream's `WithListedPaths`.
const PATHS: [&str; 8] =
    ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/metrics/slis", "/readyz", "/statusz"];

/// The form of an answer that the client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    /// JSON of the API version that the client named, or of the newest.
    Json(&'static str),
}

/// Returns the first form in an `Accept` header that the server offers, or `None` if it offers none
/// of them.
///
/// Upstream requires `application/json;v=v1beta1;g=config.k8s.io;as=KIND`; without the parameters,
/// JSON has that version here. It ignores quality values, except that `q=0` excludes a form.
pub(crate) fn negotiate(accept: Option<&str>, kind: &str) -> Option<Form> {
    let accept = accept.map_or("", str::trim);
    if accept.is_empty() {
        return Some(Form::Text);
    }
    accept.split(',').find_map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media_type = parts.next()?.to_ascii_lowercase();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let value = |name: &str| {
            let found = parameters.iter().find(|(parameter, _)| parameter.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim())
        };
        if value("q").is_some_and(|quality| quality.parse() == Ok(0.0)) {
            return None;
        }
        match &*media_type {
            "text/plain" | "text/*" | "*/*" => value("as").is_none().then_some(Form::Text),
            "application/json" | "application/*" => {
                let version = match value("v") {
                    None | Some("v1beta1") => "v1beta1",
                    Some("v1alpha1") => "v1alpha1",
                    Some(_) => return None,
                };
                let matches = value("as").is_none_or(|named| named == kind)
                    && value("g").is_none_or(|group| group == "config.k8s.io");
                matches.then_some(Form::Json(version))
            }
            _ => None,
        }
    })
}

fn header(component: &str, page: &str) -> String {
    format!(
        "\n{component} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
         compatibility guarantees and is for debugging purposes only.\n"
    )
}

impl Pages {
    /// Returns the pages of the program to which a decoded path belongs.
    pub(crate) fn mounted_at(&self, path: &str) -> Option<&MountedPages> {
        self.mounted.iter().find(|mounted| mounted.contains(path))
    }

    fn paths(&self) -> Vec<&str> {
        let mut paths = PATHS.to_vec();
        paths.extend(self.mounted.iter().map(MountedPages::prefix));
        paths.sort_unstable();
        paths
    }

    /// Returns `/flagz` as text.
    pub(crate) fn flagz_text(&self) -> String {
        let mut text = header(&self.component, "flagz");
        for (name, value) in &self.flagz {
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }

    /// Returns `/flagz` as JSON.
    pub(crate) fn flagz_json(&self, version: &str) -> Value {
        json!({
            "kind": "Flagz",
            "apiVersion": format!("config.k8s.io/{version}"),
            "metadata": {"name": self.component},
            "flags": self.flagz,
        })
    }

    /// Returns `/statusz` as text.
    pub(crate) fn statusz_text(&self, started: Timestamp, now: Timestamp, status: &StatusPage) -> String {
        let up = uptime(started, now);
        format!(
            "{}\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nBinary version: {}\n\nPaths: {}\n{}",
            header(&self.component, "statusz"),
            started.to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S UTC %Y"),
            up / 3600,
            up / 60 % 60,
            up % 60,
            self.version,
            self.paths().join(" "),
            match &*status.text {
                "" => String::new(),
                text => format!("\n{text}"),
            },
        )
    }

    /// Returns `/statusz` as JSON.
    pub(crate) fn statusz_json(
        &self,
        version: &str,
        started: Timestamp,
        now: Timestamp,
        status: &StatusPage,
    ) -> Value {
        json!({
            "kind": "Statusz",
            "apiVersion": format!("config.k8s.io/{version}"),
            "metadata": {"name": self.component},
            "startTime": rfc3339(started),
            "uptimeSeconds": uptime(started, now),
            "binaryVersion": self.version,
            "paths": self.paths(),
            "manager": status.json,
        })
    }
}

fn uptime(started: Timestamp, now: Timestamp) -> i64 {
    (now.as_second() - started.as_second()).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Pages {
        Pages {
            component: "kube-endpoint-manager".to_owned(),
            version: "0.1.0".to_owned(),
            health: HealthChecks::default(),
            metrics: None,
            slis: None,
            configz: Value::Null,
            flagz: BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), String::new())]),
            statusz: None,
            mounted: Vec::new(),
        }
    }

    #[test]
    fn flagz_and_statusz_have_upstreams_form() {
        let pages = pages();
        let started: Timestamp = "2026-12-01T09:08:07Z".parse().unwrap();
        let now = "2026-12-02T10:09:09Z".parse().unwrap();
        let status = StatusPage { text: "Queue: 7\n".to_owned(), json: json!({"queue": 7}) };
        insta::assert_snapshot!(format!(
            "{}\n---\n{:#}\n---\n{}\n---\n{:#}",
            pages.flagz_text(),
            pages.flagz_json("v1alpha1"),
            pages.statusz_text(started, now, &status),
            pages.statusz_json("v1beta1", started, now, &status)
        ));
    }

    #[test]
    fn the_first_form_that_is_offered_is_used() {
        let check = |accept: Option<&str>, expected: Option<Form>| {
            assert_eq!(negotiate(accept, "Flagz"), expected, "{accept:?}");
        };
        let json = Some(Form::Json("v1beta1"));
        check(None, Some(Form::Text));
        check(Some(" "), Some(Form::Text));
        check(Some("*/*"), Some(Form::Text));
        check(Some("text/html, text/plain"), Some(Form::Text));
        check(Some("application/json"), json);
        check(Some("application/json;v=v1beta1;g=config.k8s.io;as=Flagz"), json);
        check(Some("application/json; v=v1alpha1; g=config.k8s.io; as=Flagz"), Some(Form::Json("v1alpha1")));
        check(Some("application/json;as=Statusz, text/plain"), Some(Form::Text));
        check(Some("application/json;q=0, */*;q=0.1"), Some(Form::Text));
        check(Some("application/json;v=v1"), None);
        check(Some("application/json;g=apps"), None);
        check(Some("application/vnd.kubernetes.protobuf"), None);
        check(Some(",;,"), None);
    }
}
