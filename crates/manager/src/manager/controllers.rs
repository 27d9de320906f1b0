//! The controllers that a manager runs.

use super::tasks::NamedTasks;

/// The controllers that a manager runs.
#[derive(Clone)]
pub struct RunningControllers {
    #[cfg(feature = "endpointslice")]
    pub endpoint_slice: Option<kube_endpoint_endpointslice_controller::EndpointSliceController>,
    #[cfg(feature = "endpoints")]
    pub endpoints: Option<kube_endpoint_endpoints_controller::EndpointsController>,
    /// Runs in place of the endpoints controller if all Services lose their Endpoints.
    #[cfg(feature = "endpoints")]
    pub retire_all: Option<kube_endpoint_endpoints_controller::RetireAll>,
    #[cfg(feature = "mirroring")]
    pub mirroring: Option<kube_endpoint_mirroring::MirroringController>,
    #[cfg(feature = "selectors")]
    pub endpoint_selector: Option<kube_endpoint_selector::SelectorController>,
}

impl RunningControllers {
    /// Starts the workers.
    pub(super) fn start(&self, tasks: &mut NamedTasks) {
        #[cfg(feature = "endpointslice")]
        if let Some(controller) = self.endpoint_slice.clone() {
            tasks.spawn("endpointslice controller", controller.run());
        }
        #[cfg(feature = "endpoints")]
        if let Some(controller) = self.endpoints.clone() {
            tasks.spawn("endpoints controller", controller.run());
        }
        #[cfg(feature = "endpoints")]
        if let Some(retire_all) = self.retire_all.clone() {
            tasks.spawn("deletion of Endpoints", retire_all.run());
        }
        #[cfg(feature = "mirroring")]
        if let Some(controller) = self.mirroring.clone() {
            tasks.spawn("endpointslice mirroring controller", controller.run());
        }
        #[cfg(feature = "selectors")]
        if let Some(controller) = self.endpoint_selector.clone() {
            tasks.spawn("endpoint selector controller", controller.run());
        }
        let _ = tasks;
    }

    /// Stops the queues from taking keys. The workers still sync those that are queued.
    pub(super) fn shut_down(&self) {
        #[cfg(feature = "endpointslice")]
        if let Some(controller) = &self.endpoint_slice {
            controller.shut_down();
        }
        #[cfg(feature = "endpoints")]
        if let Some(controller) = &self.endpoints {
            controller.shut_down();
        }
        #[cfg(feature = "endpoints")]
        if let Some(retire_all) = &self.retire_all {
            retire_all.shut_down();
        }
        #[cfg(feature = "mirroring")]
        if let Some(controller) = &self.mirroring {
            controller.shut_down();
        }
        #[cfg(feature = "selectors")]
        if let Some(controller) = &self.endpoint_selector {
            controller.shut_down();
        }
    }
}
