//! Who sent a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";

/// A user, as the `status.user` of a `TokenReview` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct User {
    #[serde(rename(deserialize = "username", serialize = "user"))]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the user of a request without credentials.
    pub(crate) fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS || self.groups.iter().any(|group| group == UNAUTHENTICATED)
    }

    /// Adds the group of all users that have authenticated.
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_anonymous() && !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authenticated_users_have_upstreams_group() {
        let check = |user: User, groups: &[&str]| assert_eq!(user.authenticated().groups, groups);
        let alice = User { name: "alice".to_owned(), ..User::default() };
        check(alice.clone(), &["system:authenticated"]);
        check(alice.authenticated(), &["system:authenticated"]);
        check(User::anonymous(), &["system:unauthenticated"]);
    }
}
