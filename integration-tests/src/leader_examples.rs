//! The examples in `examples/leader`: their manifests and what their READMEs say.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::fs::{read_dir, read_to_string};
use std::path::PathBuf;

use serde_json::{Value, json};

/// The folders.
pub const EXAMPLES: [&str; 5] = ["chart", "condition", "deployment", "operator", "statefulset"];
/// The release and the namespace for which [`manifests`] renders the chart.
pub const RELEASE: (&str, &str) = ("webhooks", "ops");

/// Returns the path of a file of an example.
pub fn path(example: &str, file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../examples/leader", example, file].iter().collect()
}

/// Returns the README of an example.
///
/// # Panics
///
/// If there is none.
pub fn readme(example: &str) -> String {
    read_to_string(path(example, "README.md")).unwrap()
}

/// Returns the objects of an example. Those of a chart need no Helm, since its templates use only
/// names and values.
///
/// # Panics
///
/// If the files cannot be read.
pub fn manifests(example: &str) -> Vec<Value> {
    let text = match read_dir(path(example, "templates")) {
        Ok(templates) => {
            let mut templates: Vec<PathBuf> = templates.map(|entry| entry.unwrap().path()).collect();
            templates.sort();
            let templates: Vec<String> = templates.iter().map(|path| read_to_string(path).unwrap()).collect();
            rendered(example, templates.join("---\n"))
        }
        Err(_) => read_to_string(path(example, "manifests.yaml")).unwrap(),
    };
    serde_saphyr::from_multiple(&text).unwrap()
}

fn rendered(chart: &str, mut text: String) -> String {
    let values = read_to_string(path(chart, "values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let (name, namespace) = RELEASE;
    let names = [("Release.Name", json!(name)), ("Release.Namespace", json!(namespace))];
    let values =
        values.as_object().unwrap().iter().map(|(key, value)| (format!("Values.{key}"), value.clone()));
    for (key, value) in names.map(|(key, value)| (key.to_owned(), value)).into_iter().chain(values) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text = text.replace(&format!("{{{{ .{key} }}}}"), &value);
    }
    assert!(!text.contains("{{"), "{text}");
    text
}
