//! The Services without v1 Endpoints.

use super::Settings;
use super::error::InvalidOption;
use super::part::namespace_names;
use crate::controller_name::ControllerName;
use crate::options::{ControllerOptions, EndpointsDefault};

/// The Services for which the endpoints controller writes no v1 Endpoints, apart from those whose
/// annotation says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetirementSettings {
    /// True for all Services (`--endpoints-default=retired`). The endpoints controller does not run
    /// then.
    pub all: bool,
    /// The namespaces whose Services have none unless their annotation says otherwise, sorted.
    pub namespaces: Vec<String>,
    /// Why it does not matter that the API server reads Endpoints itself, if somebody has decided
    /// so (`--endpoints-retired-accept`).
    pub accepted: Option<String>,
}

impl RetirementSettings {
    pub(super) fn new(options: &ControllerOptions) -> Result<Self, InvalidOption> {
        const NAMESPACES: &str = "--endpoints-retired-namespaces";
        let all = options.endpoints_default == EndpointsDefault::Retired;
        let namespaces = namespace_names(NAMESPACES, &options.endpoints_retired_namespaces)?;
        if all && !namespaces.is_empty() {
            let why = "--endpoints-default=retired retires all namespaces; give one of the two flags";
            return Err(InvalidOption::new(NAMESPACES, namespaces.join(","), why));
        }
        let accepted = options.endpoints_retired_accept.clone();
        if let Some(reason) = accepted.as_deref().filter(|reason| reason.trim().is_empty()) {
            let why = "write why nothing needs the Endpoints; the reason goes to the log";
            return Err(InvalidOption::new("--endpoints-retired-accept", reason, why));
        }
        Ok(Self { all, namespaces, accepted })
    }
}

impl Settings {
    /// Returns true if a controller runs. Where all Endpoints are retired, the endpoints controller
    /// does not.
    pub fn runs(&self, name: ControllerName) -> bool {
        self.is_selected(name) && !(name == ControllerName::Endpoints && self.retirement.all)
    }

    /// Returns true if the manager deletes the Endpoints of controllers, in place of the endpoints
    /// controller.
    pub(crate) fn retires_all(&self) -> bool {
        self.is_selected(ControllerName::Endpoints) && self.retirement.all
    }

    fn is_selected(&self, name: ControllerName) -> bool {
        self.controllers.contains(&name) && name.is_built_in()
    }
}
