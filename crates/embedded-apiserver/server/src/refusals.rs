//! The errors with which a kube-apiserver's admission refuses a write, in its words, for
//! [`Fault::RefuseWith`](crate::Fault::RefuseWith).

use kube_endpoint_apiserver_rules::resource;

use crate::{Cause, Details, Status};

/// Returns the error of an admission webhook that denied the request, after apiserver's
/// `webhook/errors/statuserror.go`. `reason` is that of the webhook's response, empty for none.
/// `code` is at least 400, which is also the code without one.
pub fn webhook_denied(webhook: &str, code: u16, reason: &'static str, message: &str) -> Status {
    let why = match (message, reason) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    Status::new(code.max(400), reason, format!("admission webhook {webhook:?} denied the request{why}"))
}

/// Returns the error of a failed call of a webhook whose failurePolicy is Fail: 500 InternalError.
/// `why` is the error of the call, such as
/// `failed to call webhook: Post "https://hook.default.svc:443/?timeout=10s": context deadline exceeded`.
pub fn webhook_failed(webhook: &str, why: &str) -> Status {
    let message = format!("failed calling webhook {webhook:?}: {why}");
    let mut status = Status::new(500, "InternalError", format!("Internal error occurred: {message}"));
    status.details = Some(Box::new(Details { causes: vec![cause(message)], ..Details::default() }));
    status
}

/// Returns the error of a ResourceQuota that refuses the object: 403 Forbidden. The quantities have
/// the form `name=quantity`, such as `count/endpointslices.discovery.k8s.io=1`.
pub fn quota_exceeded(
    plural: &str,
    name: &str,
    quota: &str,
    [requested, used, limited]: [&str; 3],
) -> Status {
    let why = format!("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}");
    forbidden(plural, name, &why)
}

/// Returns the error of a ValidatingAdmissionPolicy that refuses the object: 422 Invalid, the
/// default reason of a validation.
pub fn policy_denied(plural: &str, name: &str, policy: &str, binding: &str, message: &str) -> Status {
    let why =
        format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}");
    let mut status = forbidden(plural, name, &why);
    (status.code, status.reason) = (422, "Invalid");
    status.details.get_or_insert_default().causes.push(cause(why));
    status
}

fn cause(message: String) -> Cause {
    Cause { reason: String::new(), message, field: String::new() }
}

fn forbidden(plural: &str, name: &str, why: &str) -> Status {
    match resource::all().find(|resource| resource.plural == plural) {
        Some(resource) => Status::forbidden(resource, name, why),
        None => Status::new(403, "Forbidden", format!("{plural} {name:?} is forbidden: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_refuses_in_the_real_servers_words() {
        let quantities = ["count/endpointslices.discovery.k8s.io=1"; 3];
        let refusals = [
            webhook_denied("deny.example.com", 0, "", ""),
            webhook_denied("deny.example.com", 403, "Forbidden", "not on Fridays"),
            webhook_denied("deny.example.com", 500, "InternalError", ""),
            webhook_failed("hook.example.com", "failed to call webhook: context deadline exceeded"),
            quota_exceeded("endpointslices", "web-", "slices", quantities),
            policy_denied("endpoints", "web", "no-web", "no-web-binding", "failed expression: false"),
        ];
        let lines: Vec<String> = refusals.iter().map(|status| status.to_json().to_string()).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
