//! Defaults of pods and synchronization of their duplicate fields, after `pkg/apis/core/v1/{defaults,conversion}.go`.

use serde_json::{Map, Value, json};

use crate::value::Fields;

/// Lists of containers in a pod's spec.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

pub(super) fn set_defaults(object: &mut Value) {
    object.make("spec");
    if let Some(spec) = object.get_mut("spec") {
        set_spec_defaults(spec);
    }
    if let Some(status) = object.get_mut("status") {
        sync_pod_ips(status);
    }
}

fn set_spec_defaults(spec: &mut Value) {
    spec.set_default("dnsPolicy", "ClusterFirst");
    spec.set_default("restartPolicy", "Always");
    spec.set_default("schedulerName", "default-scheduler");
    spec.set_default("enableServiceLinks", true);
    if !spec.has("securityContext") {
        spec.set("securityContext", Value::Object(Map::new()));
    }
    // A negative grace period means one second.
    match spec.opt_int("terminationGracePeriodSeconds") {
        None => spec.set("terminationGracePeriodSeconds", 30),
        Some(seconds) if seconds < 0 => spec.set("terminationGracePeriodSeconds", 1),
        Some(_) => {}
    }
    // serviceAccount is a deprecated alias of serviceAccountName, which wins.
    let account = match (spec.text("serviceAccountName"), spec.text("serviceAccount")) {
        ("", alias) => alias.to_owned(),
        (name, _) => name.to_owned(),
    };
    if !account.is_empty() {
        spec.set("serviceAccountName", account.as_str());
        spec.set("serviceAccount", account);
    }
    let host_network = spec.flag("hostNetwork");
    for list in CONTAINER_LISTS {
        for container in spec.items_mut(list) {
            set_container_defaults(container, host_network && list != "ephemeralContainers");
            if list != "ephemeralContainers" {
                request_limits(container);
            }
        }
    }
}

fn set_container_defaults(container: &mut Value, host_network: bool) {
    if !container.has("imagePullPolicy") {
        let policy = if is_latest(container.text("image")) { "Always" } else { "IfNotPresent" };
        container.set("imagePullPolicy", policy);
    }
    container.set_default("terminationMessagePath", "/dev/termination-log");
    container.set_default("terminationMessagePolicy", "File");
    for port in container.items_mut("ports") {
        port.set_default("protocol", "TCP");
        if host_network && !port.has("hostPort") {
            let number = port.int("containerPort");
            port.set("hostPort", number);
        }
    }
    for variable in container.items_mut("env") {
        let Some(source) = variable.get_mut("valueFrom") else { continue };
        if let Some(field) = source.get_mut("fieldRef") {
            field.set_default("apiVersion", "v1");
        }
        if let Some(file) = source.get_mut("fileKeyRef") {
            file.set_default("optional", false);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(probe) else { continue };
        for (field, value) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            probe.set_default(field, value);
        }
        set_http_defaults(probe);
        if let Some(grpc) = probe.get_mut("grpc") {
            grpc.set_default("service", "");
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.get_mut(hook) {
                set_http_defaults(hook);
            }
        }
    }
}

fn set_http_defaults(handler: &mut Value) {
    if let Some(http) = handler.get_mut("httpGet") {
        http.set_default("path", "/");
        http.set_default("scheme", "HTTP");
    }
}

/// A container that has a limit but no request for a resource requests its limit.
fn request_limits(container: &mut Value) {
    let Some(resources) = container.get_mut("resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if let Some(requests) = resources.make("requests") {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

/// Whether an image's tag is `latest`, given or implied.
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
