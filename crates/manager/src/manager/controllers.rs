//! The controllers that a manager runs.

use std::fmt;

use kube_endpoint_core_model::ResourceVersion;

use super::tasks::NamedTasks;

/// After a take-over, versions up to which the cache of a kind may not show what the previous
/// leader has written. None if it shows all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) endpoint_slices: Option<ResourceVersion>,
    pub(super) endpoints: Option<ResourceVersion>,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (kind, version) in [("endpointslices", self.endpoint_slices), ("endpoints", self.endpoints)] {
            let Some(version) = version else { continue };
            write!(f, "{before}{kind} ")?;
            match version {
                ResourceVersion(u64::MAX) => f.write_str("until the next list")?,
                version => write!(f, "up to {version}")?,
            }
            before = ", ";
        }
        if before.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

/// The controllers that a manager runs.
#[derive(Clone)]
pub struct RunningControllers {
    /// The endpointslice controller.
    #[cfg(feature = "endpointslice")]
    pub endpoint_slice: Option<kube_endpoint_endpointslice_controller::EndpointSliceController>,
    #[cfg(feature = "endpoints")]
    pub endpoints: Option<kube_endpoint_endpoints_controller::EndpointsController>,
    #[cfg(feature = "mirroring")]
    pub mirroring: Option<kube_endpoint_mirroring::MirroringController>,
}

impl RunningControllers {
    /// Starts the workers.
    pub(super) fn start(&self, tasks: &mut NamedTasks, unread: Unread) {
        #[cfg(feature = "endpointslice")]
        if let Some(controller) = self.endpoint_slice.clone() {
            let name = "endpointslice controller";
            match unread.endpoint_slices {
                Some(unread) => tasks.spawn(name, controller.take_over(unread)),
                None => tasks.spawn(name, controller.run()),
            }
        }
        #[cfg(feature = "endpoints")]
        if let Some(controller) = self.endpoints.clone() {
            let name = "endpoints controller";
            match unread.endpoints {
                Some(unread) => tasks.spawn(name, controller.take_over(unread)),
                None => tasks.spawn(name, controller.run()),
            }
        }
        #[cfg(feature = "mirroring")]
        if let Some(controller) = self.mirroring.clone() {
            let name = "endpointslice mirroring controller";
            match unread.endpoint_slices {
                Some(unread) => tasks.spawn(name, controller.take_over(unread)),
                None => tasks.spawn(name, controller.run()),
            }
        }
        let _ = (tasks, unread);
    }

    /// Takes no more keys. Those that are queued are still synced.
    pub(super) fn shut_down(&self) {
        #[cfg(feature = "endpointslice")]
        if let Some(controller) = &self.endpoint_slice {
            controller.shut_down();
        }
        #[cfg(feature = "endpoints")]
        if let Some(controller) = &self.endpoints {
            controller.shut_down();
        }
        #[cfg(feature = "mirroring")]
        if let Some(controller) = &self.mirroring {
            controller.shut_down();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unread_is_logged_by_kind() {
        let check = |endpoint_slices: Option<u64>, endpoints: Option<u64>, want: &str| {
            let (endpoint_slices, endpoints) =
                (endpoint_slices.map(ResourceVersion), endpoints.map(ResourceVersion));
            assert_eq!(Unread { endpoint_slices, endpoints }.to_string(), want);
        };
        check(None, None, "none");
        check(Some(7), None, "endpointslices up to 7");
        check(None, Some(u64::MAX), "endpoints until the next list");
        check(Some(7), Some(8), "endpointslices up to 7, endpoints up to 8");
    }
}
