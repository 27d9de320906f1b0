//! Target for patches of stored objects.

use kube_endpoint_apiserver_rules::patch::{PatchType, apply};
use kube_endpoint_apiserver_rules::resource::{self, Resource};
use kube_endpoint_apiserver_rules::strategy::{self, Subresource, WithWarnings};
use serde_json::Value;

/// Patches an object. The first line names a resource; the object is on the second line, the patch
/// after it. The server would create this object.
pub fn patches(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let (Some(plural), Some(object), Some(patch)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    let Some(resource) = resource::all().find(|resource| resource.plural.as_bytes() == plural) else {
        return;
    };
    let Ok(object) = serde_json::from_slice::<Value>(object) else { return };
    let created =
        strategy::decode(resource, object).and_then(|it| strategy::before_create(resource, it.object));
    let Ok(WithWarnings { object, .. }) = created else { return };
    for patch_type in [PatchType::Json, PatchType::Merge, PatchType::Strategic] {
        check(resource, &object, patch_type, patch);
    }
}

fn check(resource: &'static Resource, object: &Value, patch_type: PatchType, patch: &[u8]) {
    let (patched, _) = match apply(resource, object, patch_type, patch) {
        Ok(patched) => patched,
        Err(status) => {
            // As upstream, which has no status for these errors
            // (`interpretStrategicMergePatchError`).
            let plain = ["unknown patch type", "does not contain declared merge key"];
            let is_plain = status.code == 500 && plain.iter().any(|text| status.message.contains(text));
            assert!((400..500).contains(&status.code) || is_plain, "{patch_type:?}: {status:?}");
            return;
        }
    };
    if patch_type == PatchType::Merge {
        let again = apply(resource, &patched, patch_type, patch).map(|(again, _)| again);
        assert_eq!(again.as_ref(), Ok(&patched), "a merge patch that is applied twice");
    }
    // The server does this next with the result.
    if let Ok(decoded) = strategy::decode(resource, patched) {
        let _ = strategy::before_update(resource, object, decoded.object.clone(), Subresource::None);
        let _ = strategy::before_update(resource, object, decoded.object, Subresource::Status);
    }
}
