//! The Service of an Endpoints object does not exist.

use super::words::create_or_clean_up;
use crate::findings::prelude::*;

about! {
    /// The object has the label of the endpoints controller, which deletes such an object when its
    /// Service goes. Perhaps it did not run at that time. Or a user has copied the object and
    /// creates the Service later: `kubectl diagnose-svc cleanup` tells who wrote it.
    EP058 "orphaned-endpoints" Warning
    "The Service of an Endpoints object does not exist."
}

/// Endpoints of a controller whose Service does not exist. `lint` finds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrphanedEndpoints {
    pub endpoints: ObjectKey,
}

impl Finding for OrphanedEndpoints {
    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.endpoints(), read.absent()]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        create_or_clean_up(service)
    }
}

impl fmt::Display for OrphanedEndpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the Endpoints {} have the label of the endpoints controller, and the Service does not exist",
            self.endpoints
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn endpoints_that_a_user_wrote_may_be_there_before_their_service() {
        let left = example("ep058-orphaned-endpoints");
        assert!(left.finds(Code::OrphanedEndpoints));
        let written = left.with("Endpoints/web", json!({"metadata": {"labels": null}}));
        assert!(!written.finds(Code::OrphanedEndpoints));
    }
}
