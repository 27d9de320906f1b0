//! Reads the messages of events, and the words of the API server in them.

use kube_endpoint_core_model::Text;

use super::Refusal;

/// Returns what the API server answered, from the message of a controller's event. Returns `None`
/// if no write failed: the event may be about pods that the controller left out.
pub(super) fn words(message: &str) -> Option<&str> {
    let errors = after(message, "Error updating Endpoint Slices for ").unwrap_or(message);
    // Several errors are in brackets.
    let errors = errors.strip_prefix('[').map_or(errors, |inner| inner.strip_suffix(']').unwrap_or(inner));
    if errors == message {
        let of_endpoints = ["Failed to create endpoint for service ", "Failed to update endpoint "];
        return Some(of_endpoints.iter().find_map(|start| after(message, start)).unwrap_or(message));
    }
    let first = ["failed to ", "error deleting "].iter().filter_map(|start| errors.find(start)).min();
    let Some(error) = first.and_then(|first| errors.get(first..)) else {
        return (!errors.starts_with("skipping Pod ")).then_some(errors);
    };
    let answer = after_key(error, " for Service ").or_else(|| after_key(error, " for Endpoints "));
    let answer = answer.unwrap_or(error);
    let next = [", failed to ", ", error deleting "].iter().filter_map(|start| answer.find(start)).min();
    Some(next.and_then(|next| answer.get(..next)).unwrap_or(answer))
}

/// Returns what the API server answered, from a message about refused slices in the status of an
/// EndpointSelector, which may count other problems at its end.
pub(super) fn words_of_status(message: &str) -> &str {
    let answer = message.split_once(" out of date: ").map_or(message, |(_, answer)| answer);
    answer.split_once(" (and ").map_or(answer, |(answer, _)| answer)
}

/// Returns the rest of a text that starts with `start`, a key and a colon.
fn after<'m>(text: &'m str, start: &str) -> Option<&'m str> {
    text.starts_with(start).then(|| text.split_once(": ").map(|(_, rest)| rest)).flatten()
}

/// Returns the rest behind `before`, a key and a colon.
fn after_key<'m>(text: &'m str, before: &str) -> Option<&'m str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(": ").map(|(_, rest)| rest)
}

/// Finds the reason in the words of an API server of any version since 1.22.
pub(super) fn refusal(words: &str) -> Refusal {
    // The words of a webhook or policy may be anything, so these come first.
    by_admission(words)
        .or_else(|| words.split_once(" is forbidden: ").map(|(_, why)| forbidden(why)))
        .unwrap_or_else(|| by_words(words))
}

fn by_admission(words: &str) -> Option<Refusal> {
    if let Some(webhook) = between(words, "admission webhook \"", "\" denied the request") {
        return Some(Refusal::WebhookDenied { webhook });
    }
    if let Some(webhook) = between(words, "failed calling webhook \"", "\"") {
        return Some(Refusal::WebhookUnreachable { webhook });
    }
    if !words.contains(" denied request: ") {
        return None;
    }
    let validating = words.contains("ValidatingAdmissionPolicy '");
    let policy = between(words, "olicy '", "'").or_else(|| between(words, "policy \"", "\""))?;
    let binding = between(words, "' with binding '", "'").unwrap_or_default();
    Some(Refusal::PolicyDenied { policy, binding, validating })
}

/// Reads what follows "is forbidden: ".
fn forbidden(why: &str) -> Refusal {
    if let Some(user) = between(why, "User \"", "\" cannot ") {
        let verb = between(why, "\" cannot ", " resource \"").unwrap_or_default();
        let resource = between(why, " resource \"", "\"").unwrap_or_default();
        let group = between(why, " in API group \"", "\"").filter(|group| !group.is_empty());
        let resource = match group {
            Some(group) => format!("{resource}.{group}").into(),
            None => resource,
        };
        return Refusal::NotPermitted { user, verb, resource };
    }
    let quota =
        ["exceeded quota: ", "failed quota: ", "status unknown for quota: "].iter().find_map(|start| {
            let name = why.strip_prefix(start)?;
            Some(name.split([',', ':']).next().unwrap_or_default())
        });
    match quota {
        Some(quota) => Refusal::Quota { quota: quota.into() },
        None if why.starts_with("insufficient quota ") => Refusal::Quota { quota: Text::default() },
        None if why.contains("because it is being terminated") => Refusal::NamespaceTerminating,
        None => Refusal::Forbidden,
    }
}

/// Words, in lower case, that tell a reason.
const BY_WORDS: [(&str, Refusal); 31] = [
    ("database space exceeded", Refusal::StorageFull),
    ("no space left", Refusal::StorageFull),
    ("request is too large", Refusal::TooLarge),
    ("entity too large", Refusal::TooLarge),
    ("message larger than max", Refusal::TooLarge),
    (" is invalid: ", Refusal::Invalid),
    ("operation cannot be fulfilled", Refusal::Conflict),
    ("already exists", Refusal::Conflict),
    ("precondition failed", Refusal::Conflict),
    ("storageerror: invalid object", Refusal::Conflict),
    ("too many requests", Refusal::Busy),
    ("has asked us to try again later", Refusal::Busy),
    ("unauthorized", Refusal::Unauthorized),
    ("must be logged in", Refusal::Unauthorized),
    ("provide credentials", Refusal::Unauthorized),
    ("internal error occurred", Refusal::ServerFailed),
    ("etcdserver: ", Refusal::ServerFailed),
    ("unable to handle the request", Refusal::ServerFailed),
    ("unable to return a response", Refusal::ServerFailed),
    ("an error on the server", Refusal::ServerFailed),
    ("request did not complete within", Refusal::ServerFailed),
    ("the server answered 5", Refusal::ServerFailed),
    ("apiserver is shutting down", Refusal::ServerFailed),
    ("connection refused", Refusal::NoAnswer),
    ("connection reset", Refusal::NoAnswer),
    ("connection closed", Refusal::NoAnswer),
    ("deadline exceeded", Refusal::NoAnswer),
    ("timeout", Refusal::NoAnswer),
    ("timed out", Refusal::NoAnswer),
    ("no route to host", Refusal::NoAnswer),
    (": eof", Refusal::NoAnswer),
];

fn by_words(words: &str) -> Refusal {
    let lower = words.to_lowercase();
    if lower.starts_with("namespaces \"") && lower.ends_with("\" not found") {
        return Refusal::NamespaceNotFound;
    }
    let found = BY_WORDS.into_iter().find(|(part, _)| lower.contains(part));
    found.map_or(Refusal::Other, |(_, refusal)| refusal)
}

/// Returns the text between two others, if both are there.
fn between(text: &str, before: &str, behind: &str) -> Option<Text> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(behind)?.0.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(words: &str) -> String {
        format!("{:?}", refusal(words))
    }

    /// The messages are those of a kube-apiserver.
    #[test]
    fn each_message_has_its_class() {
        let slice = "endpointslices.discovery.k8s.io \"web-x\" is forbidden: ";
        let texts = [
            format!("{slice}User \"system:serviceaccount:kube-system:endpointslice-controller\" cannot create resource \"endpointslices\" in API group \"discovery.k8s.io\" in the namespace \"default\""),
            "endpoints \"web\" is forbidden: User \"me\" cannot update resource \"endpoints\" in API group \"\" in the namespace \"default\"".to_owned(),
            format!("{slice}exceeded quota: objects, requested: count/endpointslices.discovery.k8s.io=1, used: count/endpointslices.discovery.k8s.io=5, limited: count/endpointslices.discovery.k8s.io=5"),
            format!("{slice}status unknown for quota: objects, resources: count/endpoints"),
            format!("{slice}insufficient quota to consume: count/endpoints"),
            format!("{slice}unable to create new content in namespace default because it is being terminated"),
            "namespaces \"gone\" not found".to_owned(),
            "admission webhook \"labels.example.com\" denied the request: namespaces \"x\" is forbidden: too large".to_owned(),
            "admission webhook \"labels.example.com\" denied the request without explanation".to_owned(),
            "Internal error occurred: failed calling webhook \"labels.example.com\": failed to call webhook: Post \"https://labels.tools.svc:443/?timeout=10s\": no endpoints available for service \"labels\"".to_owned(),
            format!("{slice}ValidatingAdmissionPolicy 'labels' with binding 'labels-all' denied request: failed expression: false"),
            format!("{slice}ValidatingAdmissionPolicy 'labels' denied request: no binding configured"),
            format!("{slice}policy 'labels' with binding 'labels-all' denied request: bad"),
            format!("{slice}endpoint address 10.1.0.1 is not allowed"),
            "Unauthorized".to_owned(),
            "EndpointSlice.discovery.k8s.io \"web-x\" is invalid: endpoints[0].addresses[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
            "Operation cannot be fulfilled on endpointslices.discovery.k8s.io \"web-x\": the object has been modified; please apply your changes to the latest version and try again".to_owned(),
            "endpoints \"web\" already exists".to_owned(),
            "etcdserver: request is too large".to_owned(),
            "Request entity too large: limit is 3145728".to_owned(),
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097200 vs. 2097152)".to_owned(),
            "the server has received too many requests and has asked us to try again later".to_owned(),
            "etcdserver: mvcc: database space exceeded".to_owned(),
            "etcdserver: request timed out".to_owned(),
            "the server is currently unable to handle the request".to_owned(),
            "an error on the server (\"\") has prevented the request from succeeding".to_owned(),
            "Timeout: request did not complete within requested timeout - context deadline exceeded".to_owned(),
            "POST /apis/discovery.k8s.io/v1/namespaces/default/endpointslices: connection closed before message completed".to_owned(),
            "Put \"https://10.96.0.1:443/x\": dial tcp 10.96.0.1:443: connect: connection refused".to_owned(),
            "the server could not find the requested resource".to_owned(),
            String::new(),
        ];
        let lines: Vec<String> = texts.iter().map(|text| format!("{text}\n  {}", class(text))).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn the_words_of_the_server_are_found_in_the_message_of_an_event() {
        let of = |errors: &str| format!("Error updating Endpoint Slices for Service n/web: {errors}");
        let check = |message: &str, want: Option<&str>| assert_eq!(words(message), want, "{message}");
        check(&of("failed to create web-x EndpointSlice for Service n/web: no"), Some("no"));
        // kube-controller-manager names no slice.
        check(&of("failed to create EndpointSlice for Service n/web: a: b"), Some("a: b"));
        check(&of("skipping Pod p for Service n/web: Node x Not Found"), None);
        check(
            &of(
                "[skipping Pod p for Service n/web: Node x Not Found, failed to update EndpointSlice for Service n/web: no]",
            ),
            Some("no"),
        );
        check(
            &of(
                "[failed to create a EndpointSlice for Service n/web: no, error deleting b EndpointSlice for Service n/web: yes]",
            ),
            Some("no"),
        );
        check(&of("odd"), Some("odd"));
        check("Failed to create endpoint for service n/web: no", Some("no"));
        check("Failed to update endpoint n/web: a: b", Some("a: b"));
        check("anything", Some("anything"));
        check("", Some(""));
    }
}
