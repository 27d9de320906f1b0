//! An annotation or a label of the Service has nearly the key of an annotation that controllers
//! read.

use serde_json::{Value, json};

use crate::facts::raw::MistypedKey;
use crate::facts::remedy::PatchForm;
use crate::findings::evidence;
use crate::findings::prelude::*;

about! {
    /// Controllers ignore it. If nobody selects pods for the Service because of it, it is an error.
    EP099 "annotation-mistyped" Warning
    "An annotation or a label of the Service has nearly the key of an annotation that controllers read."
}

/// An annotation or a label of the Service with a mistyped key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationMistyped {
    #[serde(flatten)]
    pub mistyped: MistypedKey,
    /// True if nobody selects pods for the Service because of it.
    pub none_is_left: bool,
}

impl Finding for AnnotationMistyped {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let none_is_left = inputs.names_a_selector_wrongly() && inputs.counts.is_down();
        let mistyped = inputs.objects.raw.mistyped_keys(&inputs.service.key).iter().cloned();
        mistyped.map(|mistyped| Self { mistyped, none_is_left }).collect()
    }

    fn severity(&self) -> Option<Severity> {
        self.none_is_left.then_some(Severity::Error)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let map = if self.mistyped.is_label { ".metadata.labels" } else { ".metadata.annotations" };
        let meant = evidence::key(".metadata.annotations", self.mistyped.meant);
        vec![
            read.service(evidence::key(map, &self.mistyped.key), &*self.mistyped.value),
            read.service(meant, Value::Null),
        ]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let MistypedKey { key, meant, value, is_label } = &self.mistyped;
        let metadata = if *is_label {
            json!({"annotations": {*meant: value}, "labels": {&**key: null}})
        } else {
            json!({"annotations": {*meant: value, &**key: null}})
        };
        let correct = Step::Patch {
            kind: "service",
            object: service.clone(),
            form: PatchForm::Merge,
            patch: json!({"metadata": metadata}),
        };
        Remedy::ask(ServiceOwner, format!("Write the annotation {meant} instead, if that is meant"))
            .then([correct])
    }
}

impl fmt::Display for AnnotationMistyped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MistypedKey { key, meant, is_label, .. } = &self.mistyped;
        match (is_label, **key == **meant) {
            (true, true) => {
                write!(f, "the label {key} has no effect on a Service: only an annotation of this key has")
            }
            (true, false) => {
                write!(f, "the label {key} has no effect; controllers read the annotation {meant}")
            }
            (false, _) => write!(f, "the annotation {key} has no effect; controllers read {meant}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_key_of_another_project_is_not_mistyped() {
        let ours = example("ep099-annotation-mistyped");
        assert!(ours.finds(Code::AnnotationMistyped));
        let annotations = json!({
            "kube-endpoint-manager.github.io/endpointselector": null,
            "example.com/endpoint-selector": "web-stable",
        });
        let theirs = ours.with("Service/web", json!({"metadata": {"annotations": annotations}}));
        assert!(!theirs.finds(Code::AnnotationMistyped));
    }
}
