//! Advice about an image that cannot be pulled, by the words of the registry and the kubelet.

/// Reasons of waiting containers.
const REASONS: [&str; 7] = [
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// Words in lower case, and what to do. The first that fits counts.
const WORDS: [(&[&str], &str); 8] = [
    (&["errimageneverpull"], "Load the image of {} onto the node, or let its imagePullPolicy pull it"),
    (
        &["invalidimagename", "invalid reference format"],
        "Correct the image of {}: its text is not the name of an image",
    ),
    (
        &["toomanyrequests", "too many requests"],
        "Wait, or let the nodes pull the image of {} with an account: the registry gives no more to this client now",
    ),
    (
        &["unauthorized", "forbidden", "authentication required", "authorization", "denied"],
        "Give the pod credentials to pull the image of {} (imagePullSecrets of the pod or of its ServiceAccount), or correct the image",
    ),
    (
        &["no match for platform", "no matching manifest"],
        "Build the image of {} for the processor of the node, too, or let the pod run on nodes that it is for (nodeSelector kubernetes.io/arch)",
    ),
    (&["no such host"], "Correct the registry in the image of {}: its name does not resolve on the node"),
    (
        &[
            "connection refused",
            "timeout",
            "deadline exceeded",
            "unreachable",
            "no route",
            "reset",
            "x509",
            "tls",
        ],
        "Look at the registry of the image of {}: the node does not reach or trust it",
    ),
    (
        &["not found", "manifest unknown", "name unknown"],
        "Correct the name or the tag of the image of {}: the registry does not have it",
    ),
];

/// Returns what to do about a container that waits for a reason, if that is its image. `said` is
/// what the kubelet says.
pub(in crate::findings) fn advice(why: &str, said: &str, container: &str) -> Option<String> {
    REASONS.contains(&why).then(|| {
        let said = format!("{why} {said}").to_lowercase();
        let fits = |(words, _): &&(&[&str], &str)| words.iter().any(|word| said.contains(word));
        let advice = WORDS.iter().find(fits).map(|(_, advice)| *advice);
        advice.unwrap_or("Correct the image of {}, or the credentials to pull it").replace("{}", container)
    })
}
