//! What a user may do: the API server decides.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::cache::Cache;
use crate::error::ServingError;
use crate::hash::Hasher;
use crate::reviews::{Reviewer, Unanswered};
use crate::user::User;

/// Decisions that are remembered, as upstream's.
const REMEMBERED_DECISIONS: NonZeroUsize = NonZeroUsize::new(8192).expect("not zero");

/// Members of this group may do everything: upstream's `AlwaysAllowGroups`.
const MASTERS: &str = "system:masters";

/// Whether the request is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    /// With the reason that the API server gives, which may be empty.
    Denied(String),
}

/// What a user wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attributes<'a> {
    /// To do something with a decoded path.
    Path {
        /// Such as `get`.
        verb: &'a str,
        path: &'a str,
    },
    /// To do something with the objects of a resource.
    Resource {
        /// Such as `list`.
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        /// None for all.
        namespace: Option<&'a str>,
    },
}

/// Asks the API server what a user may do.
pub(crate) struct Authorization {
    reviewer: Option<Arc<Reviewer>>,
    hasher: Hasher,
    allowed_ttl: Duration,
    denied_ttl: Duration,
    cache: Arc<Cache<[u8; 32], Decision, Unanswered>>,
}

#[derive(Deserialize)]
struct AccessStatus {
    #[serde(default)]
    allowed: bool,
    #[serde(default)]
    denied: bool,
    #[serde(default)]
    reason: String,
}

impl Authorization {
    /// Without a reviewer, only system:masters may read anything.
    pub(crate) fn new(
        reviewer: Option<Reviewer>,
        allowed_ttl: Duration,
        denied_ttl: Duration,
    ) -> Result<Self, ServingError> {
        let (hasher, cache) = (Hasher::new()?, Cache::new(REMEMBERED_DECISIONS));
        Ok(Self { reviewer: reviewer.map(Arc::new), hasher, allowed_ttl, denied_ttl, cache })
    }

    /// A value that tells users apart, and says nothing about them to others.
    pub(crate) fn identity(&self, user: &User) -> [u8; 32] {
        self.hasher.hash(json!(user).to_string().as_bytes())
    }

    /// Whether `user` may do what `attributes` say.
    ///
    /// # Errors
    /// If the API server gave no answer, or there are too many questions.
    pub(crate) async fn decide(
        &self,
        user: &User,
        attributes: Attributes<'_>,
    ) -> Result<Decision, Unanswered> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(Decision::Allowed);
        }
        let Some(reviewer) = self.reviewer.clone() else { return Ok(Decision::Denied(String::new())) };
        let mut spec = json!(user);
        match attributes {
            Attributes::Path { verb, path } => {
                spec["nonResourceAttributes"] = json!({"path": path, "verb": verb});
            }
            Attributes::Resource { verb, group, resource, namespace } => {
                // As in kubectl's own reviews: an absent namespace stands for all.
                let mut of = json!({"verb": verb, "group": group, "resource": resource});
                if let Some(namespace) = namespace {
                    of["namespace"] = namespace.into();
                }
                spec["resourceAttributes"] = of;
            }
        }
        let key = self.hasher.hash(spec.to_string().as_bytes());
        let (allowed_ttl, denied_ttl) = (self.allowed_ttl, self.denied_ttl);
        let ask = |_| {
            let question = reviewer.question(spec, false)?;
            Ok(async move {
                let status: AccessStatus = reviewer.ask(question).await?;
                Ok(match status.allowed && !status.denied {
                    true => (Decision::Allowed, Some(allowed_ttl)),
                    false => (Decision::Denied(shortened(status.reason)), Some(denied_ttl)),
                })
            })
        };
        self.cache.get(key, ask, Unanswered).await
    }
}

/// A reason is for people; thousands of long ones would take memory.
fn shortened(mut reason: String) -> String {
    const LONGEST: usize = 512;
    if let Some((end, _)) = reason.char_indices().find(|(at, _)| *at >= LONGEST) {
        reason.truncate(end);
    }
    reason
}
