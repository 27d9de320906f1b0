//! The file format of a scenario: steps, operations with placeholders, expectations.

use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ConformanceError, Op};

/// One recording: operations, and the outputs after each step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name, which is also the file name without its extension.
    pub name: String,
    /// One sentence about the scenario.
    pub about: String,
    /// The steps, in their order. They share one namespace.
    pub steps: Vec<Step>,
}

/// Operations, and the outputs once these have settled.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub name: String,
    /// The operations, in their order.
    #[serde(rename = "do")]
    pub ops: Vec<Repeated>,
    /// How the outputs may differ from the expectation.
    #[serde(default)]
    pub compare: Compare,
    /// The number of seconds for which the outputs must stay the same.
    #[serde(default = "default_quiet")]
    quiet: f64,
    /// The number of seconds after which to give up waiting.
    #[serde(default = "default_limit")]
    limit: f64,
    /// The outputs in normal form.
    pub expect: Value,
}

fn default_quiet() -> f64 {
    2.5
}

fn default_limit() -> f64 {
    25.0
}

impl Step {
    /// Returns for how long the outputs must stay the same until the step counts as settled.
    pub fn quiet(&self) -> Duration {
        Duration::try_from_secs_f64(self.quiet).unwrap_or_default()
    }

    /// Returns the time after which to give up waiting for the outputs.
    pub fn limit(&self) -> Duration {
        Duration::try_from_secs_f64(self.limit).unwrap_or_default()
    }
}

/// Weakens the comparison of one step where two correct runs may differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// Omits the trigger time annotation.
    pub trigger: Option<Ignore>,
    /// Keeps only the numbers of endpoints of a zone with hints for a zone.
    pub hints: Option<Counts>,
    /// Ignores the distribution of endpoints over slices, if no slice is too large.
    pub sizes: Option<Ignore>,
    /// Keeps only the number of endpoints of a group of slices.
    pub endpoints: Option<Counts>,
    /// Keeps only the number of addresses of a subset.
    pub addresses: Option<Counts>,
}

impl Compare {
    /// Compares everything except the trigger time, for outputs whose history is not repeatable.
    pub const WITHOUT_TRIGGER: Self =
        Self { trigger: Some(Ignore::Ignore), hints: None, sizes: None, endpoints: None, addresses: None };
}

/// The value `ignore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ignore {
    /// Omits the value.
    Ignore,
}

/// The value `counts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counts {
    /// Keeps only the number of the items.
    Counts,
}

/// An operation that may repeat with a running number.
#[derive(Debug, Clone, Deserialize)]
pub struct Repeated {
    /// Number of repetitions. Without it the operation runs once, and keeps placeholders.
    count: Option<u32>,
    #[serde(default)]
    first: u32,
    /// The number of seconds to wait afterwards.
    #[serde(default)]
    pause: f64,
    /// The operation, whose strings may hold placeholders.
    #[serde(flatten)]
    template: Map<String, Value>,
}

impl Repeated {
    /// Returns how long to wait after the last of the operations.
    pub fn pause(&self) -> Duration {
        Duration::try_from_secs_f64(self.pause).unwrap_or_default()
    }

    /// Returns the operations with all placeholders replaced.
    ///
    /// # Errors
    ///
    /// [`ConformanceError::Malformed`] if the result is not an operation.
    pub fn expand(&self) -> Result<Vec<Op>, ConformanceError> {
        let template = Value::Object(self.template.clone());
        let values = match self.count {
            None => vec![template],
            Some(count) => {
                (self.first..self.first.saturating_add(count)).map(|i| filled(&template, i)).collect()
            }
        };
        values
            .into_iter()
            .map(|value| {
                Op::deserialize(&value)
                    .map_err(|source| ConformanceError::Malformed { what: value.to_string(), source })
            })
            .collect()
    }
}

/// Returns a copy of `value` with the placeholders in all strings, keys included, replaced for the
/// number `i`.
fn filled(value: &Value, i: u32) -> Value {
    match value {
        Value::String(text) => Value::String(filled_text(text, i)),
        Value::Array(items) => items.iter().map(|item| filled(item, i)).collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (filled_text(key, i), filled(item, i))).collect(),
        other => other.clone(),
    }
}

fn filled_text(text: &str, i: u32) -> String {
    if !text.contains('{') {
        return text.to_owned();
    }
    let next = i.wrapping_add(1);
    let [high, low] = [(next >> 16) as u16, next as u16];
    text.replace("{i}", &i.to_string())
        .replace("{i%2}", &(i % 2).to_string())
        .replace("{i%3}", &(i % 3).to_string())
        .replace("{ip4}", &format!("10.1.{}.{}", i / 250, i % 250 + 1))
        .replace("{ip6}", &Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, high, low).to_string())
}

impl Scenario {
    /// Reads one scenario.
    ///
    /// # Errors
    ///
    /// An error if reading the file fails or it is not a scenario.
    pub fn read(path: &Path) -> Result<Self, ConformanceError> {
        let text = fs::read(path)
            .map_err(|source| ConformanceError::Unreadable { path: path.to_owned(), source })?;
        serde_json::from_slice(&text)
            .map_err(|source| ConformanceError::Malformed { what: path.display().to_string(), source })
    }

    /// Reads the recording with this name from [`recordings_folder`].
    ///
    /// # Errors
    ///
    /// An error if it does not exist or is not a scenario.
    pub fn recorded(name: &str) -> Result<Self, ConformanceError> {
        Self::read(&recordings_folder().join(format!("{name}.json")))
    }
}

/// Returns the folder of the recordings.
pub fn recordings_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
}

/// Returns the files of all recordings, sorted by name.
///
/// # Errors
///
/// An error if reading the folder fails.
pub fn recordings() -> Result<Vec<PathBuf>, ConformanceError> {
    let folder = recordings_folder();
    let unreadable = |source| ConformanceError::Unreadable { path: recordings_folder(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &str, i: u32, filled: &str) {
        assert_eq!(filled_text(template, i), filled, "{template} with {i}");
    }

    #[test]
    fn placeholders_are_filled_in() {
        check("p{i}", 7, "p7");
        check("{i}-{i}", 12, "12-12");
        check("{i%2}{i%3}", 5, "12");
        check("{ip4}", 0, "10.1.0.1");
        check("{ip4}", 249, "10.1.0.250");
        check("{ip4}", 250, "10.1.1.1");
        check("{ip4}", 1109, "10.1.4.110");
        check("{ip6}", 0, "fd00:1::1");
        check("{ip6}", 254, "fd00:1::ff");
        check("{ip6}", 65534, "fd00:1::ffff");
        check("{other}", 1, "{other}");
        check("none", 1, "none");
    }

    fn expanded(value: Value) -> Vec<String> {
        let repeated: Repeated = serde_json::from_value(value).unwrap();
        repeated
            .expand()
            .unwrap()
            .into_iter()
            .map(|op| match op {
                Op::Delete { kind, name, .. } => format!("{kind:?}/{name}"),
                other => panic!("{other:?} is no delete"),
            })
            .collect()
    }

    #[test]
    fn a_count_repeats_from_the_first_number() {
        let names = expanded(json!({"op": "delete", "kind": "Pod", "name": "p{i}", "count": 3, "first": 20}));
        assert_eq!(names, ["Pod/p20", "Pod/p21", "Pod/p22"]);
    }

    #[test]
    fn without_a_count_there_is_one_and_it_stays_as_it_is() {
        assert_eq!(expanded(json!({"op": "delete", "kind": "Pod", "name": "p{i}"})), ["Pod/p{i}"]);
    }

    #[test]
    fn keys_and_nested_strings_are_filled_in_too() {
        let value = filled(&json!({"k{i}": [{"v": "{i%2}"}], "n": 1}), 3);
        assert_eq!(value, json!({"k3": [{"v": "1"}], "n": 1}));
    }

    #[test]
    fn waiting_times_have_defaults() {
        let step: Step = serde_json::from_value(json!({"name": "s", "do": [], "expect": {}})).unwrap();
        assert_eq!((step.quiet(), step.limit()), (Duration::from_millis(2500), Duration::from_secs(25)));
    }

    #[test]
    fn unknown_operations_fields_and_weakenings_are_refused() {
        let op: Repeated = serde_json::from_value(json!({"op": "apply", "name": "x"})).unwrap();
        assert!(op.expand().is_err());
        let op: Repeated =
            serde_json::from_value(json!({"op": "delete", "kind": "Pod", "name": "x", "foo": 1})).unwrap();
        assert!(op.expand().is_err());
        assert!(serde_json::from_value::<Compare>(json!({"trigger": "counts"})).is_err());
        assert!(serde_json::from_value::<Compare>(json!({"labels": "ignore"})).is_err());
    }

    #[test]
    fn every_recording_reads_and_expands_and_is_named_like_its_file() {
        let files = recordings().unwrap();
        assert_eq!(files.len(), 33);
        for file in files {
            let scenario = Scenario::read(&file).unwrap();
            assert_eq!(file.file_stem().unwrap().to_str().unwrap(), scenario.name);
            for step in &scenario.steps {
                for op in &step.ops {
                    assert!(!op.expand().unwrap().is_empty(), "{}: {}", scenario.name, step.name);
                }
            }
        }
    }
}
