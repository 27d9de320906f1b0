//! The container image, as an archive of an OCI image layout: for each architecture one file on an
//! empty root file system. `deploy/Dockerfile` makes the same from a checkout.

use std::collections::HashMap;

use anyhow::Result;
use oci_spec::image::{
    ANNOTATION_REF_NAME, Arch, ConfigBuilder, Descriptor, DescriptorBuilder, ImageConfigurationBuilder,
    ImageIndexBuilder, ImageManifestBuilder, MediaType, OciLayoutBuilder, Os, PlatformBuilder, RootFsBuilder,
    Sha256Digest,
};
use serde_json::Value;

use crate::archive::{self, Entry};
use crate::source::Source;
use crate::target::{Program, Target};

/// An image for all architectures.
pub(crate) struct Image {
    /// The digest of its index, such as `sha256:…`.
    pub(crate) digest: String,
    pub(crate) archive: Vec<u8>,
}

/// Makes the image of the programs.
pub(crate) fn make(source: &Source, programs: Vec<(Target, Entry)>) -> Result<Image> {
    let mut files = Vec::new();
    let labels = labels(source)?;
    let mut manifests = Vec::new();
    for (target, program) in programs {
        let architecture = Arch::from(target.architecture());
        let layer = archive::tar(vec![program], source.time)?;
        let config = ConfigBuilder::default()
            .user("65532:65532")
            .exposed_ports(["10270/tcp".to_owned()])
            .entrypoint([format!("/{}", Program::MANAGER.name)])
            .labels(labels.clone())
            .build()?;
        let diff = format!("sha256:{}", archive::sha256(&layer));
        let config = ImageConfigurationBuilder::default()
            .architecture(architecture.clone())
            .os(Os::Linux)
            .created(source.date()?)
            .config(config)
            .rootfs(RootFsBuilder::default().typ("layers").diff_ids([diff]).build()?)
            .build()?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(2_u32)
            .media_type(MediaType::ImageManifest)
            .config(blob(&mut files, MediaType::ImageConfig, json(&config)?)?)
            .layers([blob(&mut files, MediaType::ImageLayerGzip, archive::gzip(&layer)?)?])
            .annotations(labels.clone())
            .build()?;
        let mut manifest = blob(&mut files, MediaType::ImageManifest, json(&manifest)?)?;
        manifest
            .set_platform(Some(PlatformBuilder::default().architecture(architecture).os(Os::Linux).build()?));
        manifests.push(manifest);
    }
    let index = |manifests: Vec<Descriptor>, annotations| {
        let index = ImageIndexBuilder::default().schema_version(2_u32).media_type(MediaType::ImageIndex);
        json(&index.manifests(manifests).annotations(annotations).build()?)
    };
    let mut all = blob(&mut files, MediaType::ImageIndex, index(manifests, labels)?)?;
    let digest = all.digest().to_string();
    // A layout names its images in an index of its own.
    all.set_annotations(Some(HashMap::from([(ANNOTATION_REF_NAME.to_owned(), source.version.clone())])));
    files.push(Entry::file("index.json", index(vec![all], HashMap::new())?));
    let layout = OciLayoutBuilder::default().image_layout_version("1.0.0").build()?;
    files.push(Entry::file("oci-layout", json(&layout)?));
    // Images of several architectures may share a blob.
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(Image { digest, archive: archive::tar(files, source.time)? })
}

fn labels(source: &Source) -> Result<HashMap<String, String>> {
    let repository = env!("CARGO_PKG_REPOSITORY");
    let label = |(name, value): (&str, &str)| (format!("org.opencontainers.image.{name}"), value.to_owned());
    let labels = [
        ("title", Program::MANAGER.name),
        ("description", "Kubernetes' endpoints, EndpointSlice and EndpointSlice-mirroring controllers"),
        ("url", repository),
        ("source", repository),
        ("documentation", &format!("{repository}/tree/main/docs")),
        ("licenses", env!("CARGO_PKG_LICENSE")),
        ("version", &source.version),
        ("revision", &source.commit),
        ("created", &source.date()?),
    ];
    Ok(labels.into_iter().map(label).collect())
}

/// Adds a blob and returns its descriptor.
fn blob(files: &mut Vec<Entry>, kind: MediaType, contents: Vec<u8>) -> Result<Descriptor> {
    let sum = archive::sha256(&contents);
    let descriptor = DescriptorBuilder::default()
        .media_type(kind)
        .size(contents.len() as u64)
        .digest(sum.parse::<Sha256Digest>()?)
        .build()?;
    files.push(Entry::file(&format!("blobs/sha256/{sum}"), contents));
    Ok(descriptor)
}

/// Returns JSON with sorted keys: labels and annotations are maps without an order.
fn json(object: &impl serde::Serialize) -> Result<Vec<u8>> {
    let mut value = serde_json::to_value(object)?;
    value.sort_all_objects();
    Ok(serde_json::to_vec::<Value>(&value)?)
}
