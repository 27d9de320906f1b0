//! Tells a page if its reader may list the objects of a kind.

use std::sync::Arc;

use crate::authorization::{Attributes, Authorization, Decision};
use crate::reviews::Unanswered;
use crate::user::User;

/// The rights of whoever reads a page.
#[derive(Clone)]
pub struct Access(Rights);

#[derive(Clone)]
enum Rights {
    Everything,
    Nothing,
    User { user: Arc<User>, authorization: Arc<Authorization> },
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Rights::Everything => "Access(everything)",
            Rights::Nothing => "Access(nothing)",
            Rights::User { .. } => "Access(user)",
        })
    }
}

impl Access {
    /// Grants everything without asking, for a page that only the owner of the cluster can open.
    pub fn everything() -> Self {
        Self(Rights::Everything)
    }

    /// Grants nothing without asking, for a path that needs no authentication.
    pub fn nothing() -> Self {
        Self(Rights::Nothing)
    }

    pub(crate) fn of_user(user: User, authorization: Arc<Authorization>) -> Self {
        Self(Rights::User { user: Arc::new(user), authorization })
    }

    /// Returns a hash of the reader's user name, uid, groups and extra fields. Decisions about one
    /// reader hold for all others with the same hash.
    pub fn reader(&self) -> [u8; 32] {
        match &self.0 {
            Rights::Everything => [1; 32],
            Rights::Nothing => [0; 32],
            Rights::User { user, authorization } => authorization.identity(user),
        }
    }

    /// Returns true if the reader may list the objects of a resource, such as `endpointslices` of
    /// the group `discovery.k8s.io`, in a namespace, or in all namespaces if it is `None`. It asks
    /// the API server (`SubjectAccessReview`), and keeps the answer for the same time as answers
    /// about paths.
    ///
    /// # Errors
    ///
    /// [`Unanswered`] if the API server gives no answer, or too many questions are open.
    pub async fn may_list(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
    ) -> Result<bool, Unanswered> {
        match &self.0 {
            Rights::Everything => Ok(true),
            Rights::Nothing => Ok(false),
            Rights::User { user, authorization } => {
                let attributes = Attributes::Resource { verb: "list", group, resource, namespace };
                Ok(authorization.decide(user, attributes).await? == Decision::Allowed)
            }
        }
    }
}
