//! Reads the objects of the manifests that the embedded API server loads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kube_endpoint_embedded_apiserver::manifest;
use serde_json::Value;

use super::EmbeddedError;
use crate::options::EmbeddedSample;

/// The objects of one file.
pub(super) struct Manifest {
    /// The file, or the sample.
    pub(super) path: PathBuf,
    /// The objects of kinds that the server stores, with kind, version and name.
    pub(super) objects: Vec<Value>,
    /// The other kinds, as `KIND of VERSION`.
    pub(super) skipped: BTreeSet<String>,
}

impl Manifest {
    /// Reads a sample cluster.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`].
    pub(super) fn of_sample(sample: EmbeddedSample) -> Result<Self, EmbeddedError> {
        let file = match sample {
            EmbeddedSample::Shop => super::SHOP,
            EmbeddedSample::Selectors => super::SELECTORS,
        };
        Self::parse(Path::new("sample"), file.as_bytes())
    }

    /// Reads the objects of a file. It skips those of kinds that the server does not store.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::Invalid`] if something in the file is no object.
    pub(super) fn parse(path: &Path, file: &[u8]) -> Result<Self, EmbeddedError> {
        let objects =
            manifest::read(file).map_err(|why| EmbeddedError::Invalid { path: path.to_owned(), why })?;
        let (stored, others): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|object| object.resource.is_some());
        Ok(Self {
            path: path.to_owned(),
            objects: stored.into_iter().map(|object| object.value).collect(),
            skipped: others.iter().map(manifest::Object::type_name).collect(),
        })
    }

    /// Returns the objects, each with the path of the file.
    pub(super) fn into_objects(self) -> impl Iterator<Item = (PathBuf, Value)> {
        let Self { path, objects, .. } = self;
        objects.into_iter().map(move |object| (path.clone(), object))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kube_endpoint_embedded_apiserver::EmbeddedApiServer;

    use super::*;
    use crate::options::Options;

    #[test]
    fn kinds_that_are_not_stored_are_skipped_and_named_once() {
        let deployment =
            |name: &str| format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\n---\n");
        let others = "apiVersion: v1\nkind: Servise\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n\
                      ---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: c-}\n";
        let text = deployment("one") + &deployment("two") + others;
        let manifest = Manifest::parse(Path::new("m.yaml"), text.as_bytes()).unwrap();
        let kinds: Vec<&Value> = manifest.objects.iter().map(|object| &object["kind"]).collect();
        assert_eq!(kinds, ["Node"]);
        let skipped: Vec<&str> = manifest.skipped.iter().map(String::as_str).collect();
        assert_eq!(skipped, ["Deployment of apps/v1", "Job of batch/v1", "Servise of v1"]);
    }

    #[test]
    fn an_invalid_manifest_is_reported_with_what_to_do() {
        let error = Manifest::parse(Path::new("m.yaml"), b"kind: Node\n---\nkind: [a\n").err().unwrap();
        insta::assert_snapshot!(error, @"m.yaml: line 3: this is not YAML: unclosed bracket '['; correct it, or choose another file with --embedded-load");
    }

    #[test]
    fn the_sample_has_inputs_and_no_outputs_of_the_controllers() {
        let Manifest { objects, skipped, .. } = Manifest::of_sample(EmbeddedSample::Shop).unwrap();
        assert!(skipped.is_empty(), "{skipped:?}");
        let count = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
        assert_eq!(
            (count("Node"), count("Service"), count("EndpointSlice"), count("Endpoints")),
            (6, 9, 0, 1)
        );
        assert_eq!(count("Pod"), 19);
    }

    #[test]
    fn the_sample_with_selectors_has_one_that_is_missing_and_one_that_matches_nothing() {
        let Manifest { objects, skipped, .. } = Manifest::of_sample(EmbeddedSample::Selectors).unwrap();
        assert!(skipped.is_empty(), "{skipped:?}");
        let names = |kind: &str| -> BTreeSet<&str> {
            let of_kind = objects.iter().filter(|object| object["kind"] == kind);
            of_kind.map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
        };
        assert_eq!(names("EndpointSelector"), BTreeSet::from(["db-primary", "search-v2", "web-stable"]));
        let annotation = "kube-endpoint-manager.github.io/endpoint-selector";
        let named: BTreeSet<&str> = objects
            .iter()
            .filter_map(|object| object["metadata"]["annotations"][annotation].as_str())
            .collect();
        assert_eq!(named, BTreeSet::from(["cart-stable", "db-primary", "search-v2", "web-stable"]));
    }

    #[tokio::test]
    async fn the_default_ranges_hold_the_services_of_the_sample() {
        let options = Options::parse_from(["x"]).embedded;
        let server =
            EmbeddedApiServer::builder().service_ranges(options.embedded_service_cidr).build().unwrap();
        let sample = Manifest::of_sample(EmbeddedSample::Shop).unwrap();
        for mut service in sample.objects.into_iter().filter(|object| object["kind"] == "Service") {
            let addresses = service["spec"]["clusterIPs"].clone();
            service["metadata"] =
                serde_json::json!({"name": service["metadata"]["name"], "namespace": "default"});
            let created = server.create(service).await.unwrap();
            assert_eq!(created["spec"]["clusterIPs"], addresses);
        }
    }
}
