//! Target for selectors: of labels in the controllers and in the embedded server, and of fields.

use std::collections::BTreeMap;

use kube_endpoint_apiserver_rules::resource;
use kube_endpoint_apiserver_rules::selector as server;
use kube_endpoint_core_model::{LabelSelector, StringMap};

/// The labels for trying selectors. Their keys and values are likely in selectors.
const LABELS: [&[(&str, &str)]; 5] = [
    &[],
    &[("a", "")],
    &[("a", "b")],
    &[("a", "1"), ("app", "web"), ("tier", "api")],
    &[("a", "-7"), ("example.com/a", "b"), ("b", "c.d_e")],
];

/// Parses a selector, and after the first line a label set: one `key=value` on each line.
pub fn selectors(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (selector, labels) = text.split_once('\n').unwrap_or((&text, ""));
    let own: Vec<(&str, &str)> = labels.lines().filter_map(|line| line.split_once('=')).collect();
    label_selectors(selector, &own);
    for resource in resource::all() {
        if let Ok(parsed) = server::FieldSelector::parse(resource, selector) {
            let _ = parsed.matches(|_| Some("x"));
            let _ = parsed.matches(|_| None);
        }
    }
}

/// Checks that the selector of the controllers and that of the server accept the same texts and
/// select the same labels, and that the printed text of a selector has the same meaning.
fn label_selectors(text: &str, own: &[(&str, &str)]) {
    let ours = text.parse::<LabelSelector>();
    let servers = server::LabelSelector::parse(text);
    if let Err(error) = &ours {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    assert_eq!(ours.is_ok(), servers.is_ok(), "{text:?}: {ours:?}, {servers:?}");
    let (Ok(ours), Ok(servers)) = (ours, servers) else { return };
    assert_eq!(ours.is_everything(), servers.is_everything(), "{text:?}");
    let canonical = ours.to_string();
    assert_eq!(canonical.parse().as_ref(), Ok(&ours), "{text:?}, {canonical:?}");
    for labels in LABELS.into_iter().chain([own]) {
        let map: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let strings: StringMap = map.iter().map(|(key, value)| (*key, *value)).collect();
        let selected = ours.matches(&strings);
        assert_eq!(servers.matches(|key| map.get(key).copied()), selected, "{text:?} and {labels:?}");
    }
}
