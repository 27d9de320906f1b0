//! Remedies: one sentence that says what to do, and the steps, as data.

use std::fmt;

use kube_endpoint_core_model::ObjectKey;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The remedy of a finding. Serialises as `remedy`, `steps`, and the `commands` of the steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy {
    /// The sentence, without a full stop.
    pub sentence: String,
    /// The steps, in order. Nothing is to do if there are none.
    pub steps: Vec<Step>,
}

/// One step. It does no harm when followed to the letter: what may do harm is a request to a
/// person.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// A command: the program and its arguments.
    Command(Vec<String>),
    /// A patch of an object.
    Patch {
        /// The kind, as kubectl calls it, such as `service`.
        kind: &'static str,
        object: ObjectKey,
        /// The form of the patch: lists need a JSON patch, because a merge patch replaces them.
        form: PatchForm,
        patch: Value,
    },
    /// A request to a person, as a sentence without a full stop. Only this person can decide or do
    /// it.
    Ask { who: Person, what: String },
}

/// The form of a patch. Serialises and prints as kubectl's `--type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchForm {
    /// RFC 7386.
    Merge,
    /// RFC 6902. Its first operations test what the others replace.
    Json,
}

impl fmt::Display for PatchForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Merge => "merge",
            Self::Json => "json",
        })
    }
}

/// The person of a request. Serialises as `service-owner` and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Person {
    /// Knows what the Service is for, and so which pods, ports and addresses are meant.
    ServiceOwner,
    /// Writes the program of the pods, and their template.
    PodOwner,
    /// Writes Endpoints or EndpointSlices, by hand or with a controller.
    EndpointsWriter,
    /// Runs the nodes, the network, the controllers and the permissions of the cluster.
    ClusterAdministrator,
}

impl Remedy {
    /// Returns a remedy without steps.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), steps: Vec::new() }
    }

    /// Returns a remedy whose first step is a request, which its sentence tells.
    pub(crate) fn ask(who: Person, sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        let steps = vec![Step::Ask { who, what: sentence.clone() }];
        Self { sentence, steps }
    }

    /// Replaces the sentence, in the request that tells it, too.
    pub(crate) fn saying(mut self, sentence: String) -> Self {
        for step in &mut self.steps {
            if let Step::Ask { what, .. } = step
                && *what == self.sentence
            {
                what.clone_from(&sentence);
            }
        }
        Self { sentence, ..self }
    }

    /// Says where the manifest of a static pod is, if the remedy asks to change the pod.
    pub(crate) fn of_static_pod(self, nodes: &str) -> Self {
        let asks = |step: &Step| matches!(step, Step::Ask { who: Person::PodOwner, .. });
        if !self.steps.iter().any(asks) {
            return self;
        }
        let sentence = format!(
            "{}; this is a static pod, so change its manifest, a file of node {nodes}, often in /etc/kubernetes/manifests",
            self.sentence
        );
        self.saying(sentence)
    }

    /// Leaves out the commands that show a pod which exists only as a template.
    pub(crate) fn of_template(mut self, pod: &str) -> Self {
        let shows = |step: &Step| match step {
            Step::Command(words) => !step.changes() && words.iter().any(|word| word == pod),
            _ => false,
        };
        self.steps.retain(|step| !shows(step));
        self
    }

    /// Adds commands before the other steps: they show what the person has to know.
    pub(crate) fn shown_by(mut self, commands: impl IntoIterator<Item = Step>) -> Self {
        self.steps.splice(..0, commands);
        self
    }

    /// Adds steps.
    pub(crate) fn then(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.steps.extend(steps);
        self
    }

    /// Returns the commands of the steps, each as a complete line for a shell.
    pub fn commands(&self) -> impl Iterator<Item = String> {
        self.steps.iter().filter_map(Step::command)
    }
}

impl Step {
    /// Returns a command of kubectl for objects outside of namespaces.
    pub(crate) fn kubectl<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Command(std::iter::once("kubectl").chain(words).map(str::to_owned).collect())
    }

    /// Returns a command of kubectl for objects of a namespace.
    pub(crate) fn kubectl_in<'a>(namespace: &'a str, words: impl IntoIterator<Item = &'a str>) -> Self {
        Self::kubectl(["-n", namespace].into_iter().chain(words))
    }

    /// Returns a command that prints the finalizers of an object.
    pub(crate) fn finalizers(namespace: &str, kind: &str, name: &str) -> Self {
        Self::kubectl_in(namespace, ["get", kind, name, "-o", "jsonpath={.metadata.finalizers}"])
    }

    /// Returns true if the step changes objects. Other commands only show something.
    pub fn changes(&self) -> bool {
        const SHOW: [&str; 5] = ["auth", "describe", "diagnose-svc", "get", "logs"];
        match self {
            Self::Command(words) => {
                let verb = words.get(if words.get(1).is_some_and(|word| word == "-n") { 3 } else { 1 });
                verb.is_none_or(|verb| !SHOW.contains(&&**verb))
            }
            Self::Patch { .. } => true,
            Self::Ask { .. } => false,
        }
    }

    /// Returns the command that carries the step out, or `None` for a request.
    pub fn command(&self) -> Option<String> {
        let words = match self {
            Self::Command(words) => words.clone(),
            Self::Patch { kind, object: ObjectKey { namespace, name }, form, patch } => {
                let (form, patch) = (format!("--type={form}"), patch.to_string());
                ["kubectl", "-n", namespace, "patch", kind, name, &form, "-p", &patch]
                    .map(str::to_owned)
                    .to_vec()
            }
            Self::Ask { .. } => return None,
        };
        Some(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
    }
}

/// Prints the command, or the request.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.command()) {
            (Self::Ask { what, .. }, _) => f.write_str(what),
            (_, command) => f.write_str(&command.unwrap_or_default()),
        }
    }
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Serialize for Remedy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Remedy", 3)?;
        fields.serialize_field("remedy", &self.sentence)?;
        fields.serialize_field("steps", &self.steps)?;
        fields.serialize_field("commands", &self.commands().collect::<Vec<_>>())?;
        fields.end()
    }
}

/// The serialised form of a step.
#[derive(Serialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Serialised<'a> {
    Command {
        argv: &'a [String],
        command: String,
        changes: bool,
    },
    Patch {
        kind: &'static str,
        object: &'a ObjectKey,
        form: PatchForm,
        patch: &'a Value,
        command: String,
        changes: bool,
    },
    Ask {
        who: Person,
        what: &'a str,
    },
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (command, changes) = (self.command().unwrap_or_default(), self.changes());
        match self {
            Self::Command(argv) => Serialised::Command { argv, command, changes },
            Self::Patch { kind, object, form, patch } => {
                Serialised::Patch { kind, object, form: *form, patch, command, changes }
            }
            Self::Ask { who, what } => Serialised::Ask { who: *who, what },
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_is_one_line_for_a_shell() {
        let words = ["get", "pod", "web-1", "-o", "jsonpath={.metadata.finalizers}", "it's", ""];
        let step = Step::kubectl_in("shop", words);
        assert_eq!(
            step.to_string(),
            r"kubectl -n shop get pod web-1 -o 'jsonpath={.metadata.finalizers}' 'it'\''s' ''"
        );
    }

    #[test]
    fn a_patch_is_a_command_and_a_request_is_none() {
        let patch = Step::Patch {
            kind: "service",
            object: ObjectKey::new("shop", "web"),
            form: PatchForm::Merge,
            patch: json!({"spec": {"selector": {"app": "it's"}}}),
        };
        assert_eq!(
            patch.to_string(),
            r#"kubectl -n shop patch service web --type=merge -p '{"spec":{"selector":{"app":"it'\''s"}}}'"#
        );
        let remedy = Remedy::ask(Person::ServiceOwner, "Decide").then([patch]);
        insta::assert_json_snapshot!(remedy);
    }
}
