//! Asks the API server what a user may do.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_core_model::harmless;
use serde::Deserialize;
use serde_json::json;

use crate::cache::Cache;
use crate::error::ServingError;
use crate::hash::Hasher;
use crate::reviews::{Reviewer, Unanswered};
use crate::user::User;

/// How many allowing decisions the cache remembers, and how many denying ones, as upstream's.
const REMEMBERED_DECISIONS: NonZeroUsize = NonZeroUsize::new(8192).expect("not zero");

/// Members of this group may do everything: upstream's `AlwaysAllowGroups`.
const MASTERS: &str = "system:masters";

/// The API server's decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    /// The reason is the API server's, and may be empty.
    Denied(String),
}

/// An action that a user wants to take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attributes<'a> {
    /// An action on a decoded path.
    Path {
        /// Such as `get`.
        verb: &'a str,
        path: &'a str,
    },
    /// An action on the objects of a resource.
    Resource {
        /// Such as `list`.
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        /// `None` stands for all.
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
    /// Creates an authorization. Without a reviewer, only system:masters may read anything.
    pub(crate) fn new(
        reviewer: Option<Reviewer>,
        allowed_ttl: Duration,
        denied_ttl: Duration,
    ) -> Result<Self, ServingError> {
        let (hasher, cache) =
            (Hasher::new()?, Cache::new(REMEMBERED_DECISIONS, |decision| *decision == Decision::Allowed));
        Ok(Self { reviewer: reviewer.map(Arc::new), hasher, allowed_ttl, denied_ttl, cache })
    }

    /// Returns a hash that tells users apart, and that reveals nothing about them.
    pub(crate) fn identity(&self, user: &User) -> [u8; 32] {
        self.hasher.hash(json!(user).to_string().as_bytes())
    }

    /// Returns the decision about an action of `user`.
    ///
    /// # Errors
    /// [`Unanswered`] if the API server gave no answer, or too many questions are open.
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
        let ask = |before: Option<Decision>| {
            // A flood of other questions must not keep a user out whom the API server has allowed
            // before.
            let question = reviewer.question(spec, before == Some(Decision::Allowed))?;
            Ok(async move {
                let status: AccessStatus = reviewer.ask(question).await?;
                Ok(match status.allowed && !status.denied {
                    true => (Decision::Allowed, Some(allowed_ttl)),
                    false => (
                        Decision::Denied(harmless(&status.reason, LONGEST_REASON).into_owned()),
                        Some(denied_ttl),
                    ),
                })
            })
        };
        self.cache.get(key, ask, Unanswered).await
    }
}

/// How many characters of a reason the cache keeps. A reason is for people, and thousands of long
/// ones would take memory.
const LONGEST_REASON: usize = 512;

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::{BoxFuture, join_all};
    use kube_endpoint_api_client::ApiClient;
    use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, PolicyRule};

    use super::*;

    type Answer = Result<Decision, Unanswered>;

    /// Returns an API server on which prometheus may read `/metrics`, and a function that decides
    /// about a user and a path.
    fn decider(ttl: Duration) -> (EmbeddedApiServer, impl Fn(&str, String) -> BoxFuture<'static, Answer>) {
        let rule = PolicyRule {
            subjects: vec!["prometheus".to_owned()],
            verbs: vec!["get".to_owned()],
            non_resource_urls: vec!["/metrics".to_owned()],
            ..PolicyRule::default()
        };
        let api = EmbeddedApiServer::builder().policy_rule(rule).build().unwrap();
        let reviewer = Reviewer::of_access(ApiClient::for_tests(api.service()), Duration::from_secs(10));
        let authorization = Arc::new(Authorization::new(Some(reviewer), ttl, ttl).unwrap());
        let decide = move |name: &str, path: String| {
            let (authorization, user) = (Arc::clone(&authorization), named(name));
            async move { authorization.decide(&user, Attributes::Path { verb: "get", path: &path }).await }
                .boxed()
        };
        (api, decide)
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_questions_leaves_room_for_who_was_allowed_before() {
        let ttl = Duration::from_secs(10);
        let (_api, decide) = decider(ttl);
        let scrape = || decide("prometheus", "/metrics".to_owned());
        assert_eq!(scrape().await, Ok(Decision::Allowed));
        let mut refused = 0;
        for round in 0..5 {
            // The decision expires.
            tokio::time::sleep(ttl).await;
            let mut flood = Vec::new();
            // Some questions are asked at once, some wait, and the rest are refused.
            for wave in 0..3 {
                let path = |number| format!("/{round}/{wave}/{number}");
                flood.extend((0..1000).map(|number| tokio::spawn(decide("other", path(number)))));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(scrape().await, Ok(Decision::Allowed), "round {round}");
            refused +=
                join_all(flood).await.into_iter().filter(|answer| answer.as_ref().unwrap().is_err()).count();
        }
        assert!(refused > 10_000, "the limit was reached: {refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn more_denials_than_are_remembered_displace_no_decision_that_allows() {
        let (api, decide) = decider(Duration::from_secs(300));
        let scrape = || decide("prometheus", "/metrics".to_owned());
        let reviews =
            || api.request_log().iter().filter(|entry| entry.request.path.ends_with("reviews")).count();
        assert_eq!(scrape().await, Ok(Decision::Allowed));
        let mut denied = 0;
        for number in 0..REMEMBERED_DECISIONS.get() + 100 {
            denied += usize::from(decide("other", format!("/{number}")).await.is_ok());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(denied > REMEMBERED_DECISIONS.get(), "{denied}");
        api.clear_request_log();
        assert_eq!((scrape().await, reviews()), (Ok(Decision::Allowed), 0));
        assert_eq!(decide("other", "/0".to_owned()).await, Ok(Decision::Denied(String::new())));
        assert_eq!(reviews(), 1, "the first denial was displaced");
    }

    fn named(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }
}
