//! The webhooks that see writes of Endpoints or EndpointSlices. They may refuse or change them.

use serde::Serialize;
use serde_json::Value;

use crate::facts::json::each;

/// A webhook that sees such writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Webhook {
    /// The name of its configuration.
    pub configuration: String,
    pub name: String,
    /// True if it may change an object.
    pub mutates: bool,
    /// `Fail` or `Ignore`: what the API server does if the webhook does not answer.
    pub failure_policy: String,
}

/// Returns the webhooks of a ValidatingWebhookConfiguration or a MutatingWebhookConfiguration that
/// see writes of Endpoints or EndpointSlices. Selectors and conditions may exclude some writes.
pub fn webhooks_of(configuration: &Value, mutates: bool) -> Vec<Webhook> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let webhooks = each(&configuration["webhooks"]);
    let seeing = webhooks.filter(|webhook| {
        let rules = each(&webhook["rules"]);
        rules
            .into_iter()
            .any(|rule| sees(rule, "", "endpoints") || sees(rule, "discovery.k8s.io", "endpointslices"))
    });
    seeing
        .map(|webhook| Webhook {
            configuration: text(&configuration["metadata"]["name"]),
            name: text(&webhook["name"]),
            mutates,
            failure_policy: webhook["failurePolicy"].as_str().unwrap_or("Fail").to_owned(),
        })
        .collect()
}

fn sees(rule: &Value, group: &str, resource: &str) -> bool {
    let has = |field: &str, wanted: &[&str]| {
        let values = each(&rule[field]);
        values.filter_map(Value::as_str).any(|value| wanted.contains(&value))
    };
    has("apiGroups", &[group, "*"])
        && has("resources", &[resource, "*", "*/*"])
        && has("operations", &["CREATE", "UPDATE", "DELETE", "*"])
}
