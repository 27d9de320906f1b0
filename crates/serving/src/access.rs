//! What a page may find out about its reader: may they list objects of a kind?

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
    /// May read everything; nobody is asked. For a page that only the owner of the cluster can
    /// open.
    pub fn everything() -> Self {
        Self(Rights::Everything)
    }

    /// May read nothing; nobody is asked. A path that needs no authentication is read with it.
    pub fn nothing() -> Self {
        Self(Rights::Nothing)
    }

    pub(crate) fn of_user(user: User, authorization: Arc<Authorization>) -> Self {
        Self(Rights::User { user: Arc::new(user), authorization })
    }

    /// Returns a value that is equal for two readers if and only if they have the same user name,
    /// uid, groups and extra fields, as far as a hash can tell: decisions about one hold for the
    /// other.
    pub fn reader(&self) -> [u8; 32] {
        match &self.0 {
            Rights::Everything => [1; 32],
            Rights::Nothing => [0; 32],
            Rights::User { user, authorization } => authorization.identity(user),
        }
    }

    /// Whether the reader may list the objects of a resource, such as `endpointslices` of the group
    /// `discovery.k8s.io`, in a namespace; without one, in all. The API server is asked
    /// (`SubjectAccessReview`), and its answer is kept for as long as those about paths.
    ///
    /// # Errors
    ///
    /// If the API server gives no answer, or too many questions are being asked.
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
