//! The patchStrategy and patchMergeKey tags of the kinds in the resource table, as in `k8s.io/api`
//! and apimachinery's `meta/v1`. A patch merges an unlisted field that is an object, and replaces
//! one that is a list.

/// The fields of one object type that have a patch strategy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Schema(&'static [(&'static str, Field)]);

/// How a patch applies to one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The key by which a patch merges a list of objects. It is empty for lists of primitives,
    /// which a patch merges by value.
    pub(crate) merge_key: Option<&'static str>,
    /// The type of the field, or of the elements of the list.
    pub(crate) schema: &'static Schema,
}

/// No patch strategies: a patch merges objects and replaces lists at all levels.
const PLAIN: Schema = Schema(&[]);

const fn object(schema: &'static Schema) -> Field {
    Field { merge_key: None, schema }
}

const fn list(merge_key: &'static str, schema: &'static Schema) -> Field {
    Field { merge_key: Some(merge_key), schema }
}

const fn plain_list(merge_key: &'static str) -> Field {
    list(merge_key, &PLAIN)
}

impl Schema {
    /// Returns how a patch applies to the field `name`.
    pub(crate) fn field(&self, name: &str) -> Field {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map_or(object(&PLAIN), |(_, field)| *field)
    }
}

const METADATA: Schema = Schema(&[("ownerReferences", plain_list("uid")), ("finalizers", plain_list(""))]);

pub(crate) static ONLY_METADATA: Schema = Schema(&[("metadata", object(&METADATA))]);

const STATUS_WITH_CONDITIONS: Schema = Schema(&[("conditions", plain_list("type"))]);

pub(crate) static NAMESPACE: Schema =
    Schema(&[("metadata", object(&METADATA)), ("status", object(&STATUS_WITH_CONDITIONS))]);

pub(crate) static SERVICE: Schema = Schema(&[
    ("metadata", object(&METADATA)),
    ("spec", object(&Schema(&[("ports", plain_list("port"))]))),
    ("status", object(&STATUS_WITH_CONDITIONS)),
]);

pub(crate) static NODE: Schema = Schema(&[
    ("metadata", object(&METADATA)),
    ("spec", object(&Schema(&[("podCIDRs", plain_list(""))]))),
    ("status", object(&Schema(&[("conditions", plain_list("type")), ("addresses", plain_list("type"))]))),
]);

const CONTAINER: Schema = Schema(&[
    ("ports", plain_list("containerPort")),
    ("env", plain_list("name")),
    ("volumeMounts", plain_list("mountPath")),
    ("volumeDevices", plain_list("devicePath")),
]);

pub(crate) static POD: Schema = Schema(&[
    ("metadata", object(&METADATA)),
    (
        "spec",
        object(&Schema(&[
            ("volumes", plain_list("name")),
            ("initContainers", list("name", &CONTAINER)),
            ("containers", list("name", &CONTAINER)),
            ("ephemeralContainers", list("name", &CONTAINER)),
            ("imagePullSecrets", plain_list("name")),
            ("hostAliases", plain_list("ip")),
            ("topologySpreadConstraints", plain_list("topologyKey")),
            ("schedulingGates", plain_list("name")),
            ("resourceClaims", plain_list("name")),
        ])),
    ),
    (
        "status",
        object(&Schema(&[
            ("conditions", plain_list("type")),
            ("hostIPs", plain_list("ip")),
            ("podIPs", plain_list("ip")),
            ("resourceClaimStatuses", plain_list("name")),
        ])),
    ),
]);

#[cfg(test)]
mod tests {
    use crate::resource;

    #[test]
    fn every_kind_merges_owner_references_by_uid_and_finalizers_by_value() {
        for resource in resource::all() {
            let metadata = resource.patch_schema.field("metadata").schema;
            assert_eq!(metadata.field("ownerReferences").merge_key, Some("uid"), "{}", resource.kind);
            assert_eq!(metadata.field("finalizers").merge_key, Some(""), "{}", resource.kind);
            assert_eq!(metadata.field("managedFields").merge_key, None, "{}", resource.kind);
        }
    }
}
