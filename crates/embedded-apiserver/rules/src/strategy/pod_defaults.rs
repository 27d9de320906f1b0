//! Defaults of pods and synchronization of their duplicate fields, after
//! `pkg/apis/core/v1/{defaults,conversion}.go`.

use serde_json::{Value, json};

use crate::value::Fields;

pub(super) fn set_defaults(object: &mut Value) {
    set_spec_defaults(object.child("spec"));
    if let Some(status) = object.get_mut("status") {
        sync_pod_ips(status);
    }
}

fn set_spec_defaults(spec: &mut Value) {
    spec.set_default("dnsPolicy", "ClusterFirst");
    spec.set_default("restartPolicy", "Always");
    spec.set_default("schedulerName", "default-scheduler");
    spec.set_default("enableServiceLinks", true);
    spec.set_default("securityContext", json!({}));
    spec.set_default("terminationGracePeriodSeconds", 30);
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            let policy = if is_latest(container.text("image")) { "Always" } else { "IfNotPresent" };
            container.set_default("imagePullPolicy", policy);
            container.set_default("terminationMessagePath", "/dev/termination-log");
            container.set_default("terminationMessagePolicy", "File");
            for port in container.items_mut("ports") {
                port.set_default("protocol", "TCP");
            }
        }
    }
}

/// Returns true if an image's tag is `latest`, given or implied.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Synchronizes podIP and podIPs. If they differ podIP wins, since older kubelets know only that.
pub(super) fn sync_pod_ips(status: &mut Value) {
    let single = status.text("podIP").to_owned();
    let first = status.list("podIPs").first().map(|ip| ip.text("ip").to_owned());
    match first {
        Some(first) if single.is_empty() => status.set("podIP", first),
        first if !single.is_empty() && first.as_deref() != Some(single.as_str()) => {
            status.set("podIPs", json!([{"ip": single}]));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_tag_are_latest() {
        for image in ["a", "a:latest", "host:5000/a", "host/a/b"] {
            assert!(is_latest(image), "{image}");
        }
        for image in ["a:1", "host:5000/a:1", "a@sha256:00", "a:latest@sha256:00"] {
            assert!(!is_latest(image), "{image}");
        }
    }
}
