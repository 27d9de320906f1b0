//! The Endpoints object differs from what it should be.

use super::words::{doctor, look_at_controller, look_at_running_controller, wait_or_permit};
use crate::facts::age;
use crate::facts::output_kind::OutputKind;
use crate::facts::signs::by_controller;
use crate::findings::inputs::Behind;
use crate::findings::prelude::*;

about! {
    /// As EP050, for the Endpoints object. kube-proxy and DNS read slices. If no slice is late,
    /// only clients that read Endpoints miss something, and the severity is info: the endpoints
    /// controller may be switched off on purpose (`--controllers=*,-endpoints-controller`). It is
    /// warning if a controller has written Endpoints of other Services since the slices of this
    /// Service last changed: then the endpoints controller works, and something keeps it from
    /// writing these.
    EP057 "endpoints-behind" Warning may_be_under_way
    "The Endpoints object differs from what it should be."
}

/// Endpoints that the controller still has to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointsBehind {
    #[serde(flatten)]
    pub behind: Behind,
    /// True if no slice is known to be late. Only clients that read Endpoints miss something
    /// then, and the endpoints controller may be switched off on purpose.
    pub is_alone: bool,
    /// True if other Endpoints have been written since the change, so that the endpoints controller
    /// works.
    pub others_written: bool,
}

impl Finding for EndpointsBehind {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let due = inputs.endpoints_due().filter(|_| inputs.endpoints_of_others().is_none());
        let Some(due) = due else { return Vec::new() };
        let key = &inputs.service.key;
        let written = inputs.objects.endpoints_writes.get(key).and_then(by_controller);
        let unwritten = inputs.changes.of_endpoints(inputs.planned);
        let behind = inputs.aged(due, unwritten, inputs.refused(OutputKind::Endpoints, written));
        // If there are none at all, a flag may retire those of the namespace.
        let may_be_alone_late = behind.is_late && inputs.objects.endpoints_of(key).is_some();
        vec![Self {
            is_alone: inputs.slices_behind().is_none_or(|slices| slices.may_be_under_way()),
            others_written: may_be_alone_late && others_are_written(inputs, written),
            behind,
        }]
    }

    fn severity(&self) -> Option<Severity> {
        let behind = &self.behind;
        let may_be_off = self.is_alone && !self.others_written && behind.refused.is_none();
        (!behind.is_late || behind.is_meant() || may_be_off).then_some(Severity::Info)
    }

    fn since(&self) -> Option<Timestamp> {
        self.behind.since
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.endpoints()]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let late = || {
            match (self.others_written, self.is_alone) {
            (true, _) => look_at_running_controller("endpoints ", service),
            (false, true) => Remedy::ask(
                ClusterAdministrator,
                "Nothing, if no client reads Endpoints and the endpoints controller is switched off (--controllers=*,-endpoints-controller) or retires them (--endpoints-default=retired, --endpoints-retired-namespaces); else it is broken: start it, or look at the errors that it logs",
            )
            .shown_by([doctor()]),
            (false, false) => look_at_controller(),
        }
        };
        wait_or_permit(&self.behind, service).unwrap_or_else(late)
    }
}

impl fmt::Display for EndpointsBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instead = if self.is_alone { ", and kube-proxy and DNS read the slices instead" } else { "" };
        self.behind.fmt(f, &format!("the Endpoints are not up to date{instead}"))?;
        if self.others_written && self.behind.refused.is_none() {
            f.write_str("; those of other Services have been written since then")?;
        }
        Ok(())
    }
}

/// Returns true if a controller has written other Endpoints later than this Service changed. The
/// last write of its slices, which show the change, tells when that was. `written` is the last
/// write of its own Endpoints.
fn others_are_written(inputs: &FaultInputs<'_>, written: Option<Timestamp>) -> bool {
    let Some(slices) = inputs.slices_written() else { return false };
    let changed = slices.max(inputs.changes.newest().unwrap_or(slices));
    let sign = inputs.cluster.signs.endpoints.filter(|sign| Some(*sign) > written);
    sign.is_some_and(|sign| age::since(changed, sign) > inputs.options.late_after)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn endpoints_of_an_older_controller_lack_only_its_label() {
        let behind = example("ep057-endpoints-behind");
        assert!(behind.finds(Code::EndpointsBehind));
        assert!(!behind.clone().served().finds(Code::EndpointsBehind));
        let target = json!({"kind": "Pod", "namespace": "default", "name": "web-1", "uid": "uid-pod-web-1"});
        let older = json!({
            "metadata": {"labels": null},
            "subsets": [{
                "addresses": [{"ip": "10.1.0.1", "nodeName": "node-a", "targetRef": target}],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            }],
        });
        assert!(!behind.with("Endpoints/web", older).finds(Code::EndpointsBehind));
    }
}
