//! The Service is being deleted.

use serde_json::json;

use crate::facts::age;
use crate::findings::prelude::*;

about! {
    /// The controllers create no slices for a Service with a deletion timestamp, because the
    /// garbage collector would delete them at the same time. Finalizers hold the Service.
    EP034 "service-terminating" Warning
    "The Service is being deleted."
}

/// A Service with a deletion timestamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTerminating {
    /// Seconds since somebody deleted it, if that is known.
    pub seconds: Option<i64>,
    /// Its finalizers, if they are known.
    pub finalizers: Vec<Text>,
    /// True if no endpoint receives traffic.
    pub none_is_left: bool,
}

impl Finding for ServiceTerminating {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let service = inputs.service;
        let found = service.deletion_timestamp.map(|time| Self {
            seconds: Some(age::since(time, inputs.now)),
            finalizers: inputs.objects.raw.finalizers.get(&service.key).cloned().unwrap_or_default(),
            none_is_left: inputs.counts.is_down(),
        });
        found.into_iter().collect()
    }

    fn severity(&self) -> Option<Severity> {
        self.none_is_left.then_some(Severity::Error)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let finalizers = (!self.finalizers.is_empty()).then_some(&self.finalizers);
        vec![read.deleted(), read.service(".metadata.finalizers", json!(finalizers))]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        Remedy::ask(
            ServiceOwner,
            "Look at the controllers whose finalizers hold it, and create the Service again if it is needed",
        )
        .shown_by([Step::finalizers(&service.namespace, "service", &service.name)])
    }
}

impl fmt::Display for ServiceTerminating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seconds {
            Some(seconds) => write!(f, "the Service was deleted {} ago", age::seconds(seconds))?,
            None => f.write_str("the Service is being deleted")?,
        }
        f.write_str(", so no new slices are created for it")?;
        match self.finalizers.as_slice() {
            [] => Ok(()),
            [one] => write!(f, "; the finalizer {one} holds it"),
            more => write!(f, "; the finalizers {} hold it", names(more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_service_with_finalizers_lives_until_somebody_deletes_it() {
        let deleted = example("ep034-service-terminating");
        assert!(deleted.finds(Code::ServiceTerminating));
        let living = deleted.with("Service/web", json!({"metadata": {"deletionTimestamp": null}}));
        assert!(!living.finds(Code::ServiceTerminating));
    }
}
