//! The Services that aliases mean.

use kube_endpoint_core_model::ObjectKey;

/// Returns the Service that an `externalName` means, such as `db.shop.svc.cluster.local`. A name of
/// another cluster domain may be that of a host outside.
pub(crate) fn service_of(external_name: &str) -> Option<ObjectKey> {
    let mut parts = external_name.trim().trim_end_matches('.').splitn(4, '.');
    let (name, namespace, svc) = (parts.next()?, parts.next()?, parts.next()?);
    let is_of_cluster = svc == "svc" && parts.next().is_none_or(|domain| domain == "cluster.local");
    is_of_cluster.then(|| ObjectKey::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_cluster_are_those_of_services() {
        for (text, want) in [
            ("db.shop.svc.cluster.local", Some("shop/db")),
            ("db.shop.svc.cluster.local.", Some("shop/db")),
            ("db.shop.svc", Some("shop/db")),
            ("db.svc.example.com", None),
            ("db.shop.svc.example.com", None),
            ("db.shop", None),
        ] {
            assert_eq!(service_of(text).map(|key| key.to_string()).as_deref(), want, "{text}");
        }
    }
}
