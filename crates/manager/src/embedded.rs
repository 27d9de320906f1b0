//! Starts the embedded API server of `--embedded` on loopback, with TLS, with the objects of a
//! sample cluster or of manifests, and with a kubeconfig for kubectl.

mod kubeconfig;
mod manifest;

use std::path::PathBuf;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::Timestamp;
use kube_endpoint_embedded_apiserver::manifest::ManifestError;
use kube_endpoint_embedded_apiserver::{
    BuildError, EmbeddedApiServer, ListenError, ListenOptions, Listener, LoadError, RangeError, User,
};
use serde_json::{Value, json};

use crate::options::EmbeddedOptions;
pub use kubeconfig::KubeconfigError;
use kubeconfig::{EXTENSION, Place};
use manifest::Manifest;

/// The namespace of a shop with its nodes, pods and Services, recorded from a real cluster, and
/// then edited so that all nodes, and all pods but one, are ready.
const SHOP: &str = include_str!("../sample/shop.json");
/// A shop whose Services name EndpointSelectors.
const SELECTORS: &str = include_str!("../sample/selectors.yaml");

/// The error of an embedded API server that did not start. No part of it runs.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error("cannot read the manifest {path}: {why}")]
    Unreadable {
        path: PathBuf,
        /// The error of the operating system.
        why: std::io::Error,
    },
    /// A manifest holds something other than objects.
    #[error("{path}: {why}; correct it, or choose another file with --embedded-load")]
    Invalid {
        /// The file, or the sample.
        path: PathBuf,
        why: ManifestError,
    },
    /// The server cannot load the objects.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The ranges of cluster IPs cannot be used.
    #[error("--embedded-service-cidr: {0}")]
    ServiceCidr(#[from] RangeError),
    /// The server refuses an object.
    #[error("{path}: {kind} {name:?} is refused: {why}")]
    Refused {
        /// The file, or the sample.
        path: PathBuf,
        kind: String,
        name: String,
        /// The message of the server's `Status`.
        why: String,
    },
    /// The operating system has no random numbers.
    #[error("cannot make a bearer token: {0}; --embedded-no-auth runs the API server without one")]
    Token(#[from] getrandom::Error),
    /// The server cannot listen on the address.
    #[error("{0}; choose another with --embedded-address, or see --embedded-allow-remote")]
    Listen(#[from] ListenError),
    /// The kubeconfig cannot be written, or must not replace the file.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
}

/// A running embedded API server.
pub struct Embedded {
    pub server: EmbeddedApiServer,
    pub listener: Listener,
    /// The path of its kubeconfig, which [`Embedded::write_kubeconfig`] writes.
    pub kubeconfig: PathBuf,
    /// The number of objects loaded at the start.
    pub loaded: usize,
    place: Place,
}

impl Embedded {
    /// Loads the objects and starts to listen. With `plays_kubelet`, the server runs the pods that
    /// clients create. It skips objects of kinds that the server does not
    /// store, with a warning in the log for each file: manifests of an application hold more than
    /// the objects on which endpoints depend.
    ///
    /// # Errors
    ///
    /// If any of these steps fails. No part of the server runs then.
    pub async fn start(
        options: &EmbeddedOptions,
        plays_kubelet: bool,
        now: Timestamp,
        seed: u64,
    ) -> Result<Self, EmbeddedError> {
        let place = Place::look(&options.embedded_kubeconfig).await?;
        let manifests = manifests(options)?;
        manifests.iter().for_each(warn_of_skipped);
        let objects: Vec<(PathBuf, Value)> = manifests.into_iter().flat_map(Manifest::into_objects).collect();
        let loaded = objects.len();
        // Objects with a uid come from a server: this loads them unchanged. It creates the others,
        // as a client would.
        let (stored, written): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|(_, object)| object["metadata"]["uid"].is_string());
        let stored = stored.into_iter().map(|(_, object)| object);
        let mut builder = EmbeddedApiServer::builder().seed(seed).start_time(now).track_managers();
        builder = builder.service_ranges(&options.embedded_service_cidr).load(stored);
        if plays_kubelet {
            builder = builder.kubelet();
        }
        if !options.embedded_no_auth {
            builder = builder.token(new_token()?, administrator()).require_token();
        }
        let server = builder.build().map_err(|error| match error {
            BuildError::Load(error) => EmbeddedError::Load(error),
            BuildError::Range(error) => EmbeddedError::ServiceCidr(error),
        })?;
        for (path, object) in written {
            let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, name) = (of(&object["kind"]), of(&object["metadata"]["name"]));
            let created = server.create(object).await;
            created.map_err(|status| EmbeddedError::Refused { path, kind, name, why: status.message })?;
        }
        let listen = ListenOptions { allow_any_address: options.embedded_allow_remote, tls: true };
        let listener = server.listen_with(options.embedded_address, listen).await?;
        Ok(Self { server, listener, kubeconfig: options.embedded_kubeconfig.clone(), loaded, place })
    }

    /// Writes the kubeconfig, with the address of the page for `kubectl diagnose-svc ui`. No step
    /// before touches a file. This replaces a file only if this program wrote it and its API server
    /// has ended.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::Kubeconfig`] if the file cannot be written, or must not be replaced.
    pub async fn write_kubeconfig(&self, page: Option<&str>) -> Result<(), EmbeddedError> {
        let extension = json!({ "page": page });
        let kubeconfig = self.server.kubeconfig_with_extension(&self.listener, EXTENSION, &extension);
        Ok(self.place.write(&kubeconfig).await?)
    }

    /// Returns a client that calls the server in process, without a socket.
    pub fn client(&self) -> ApiClient {
        ApiClient::for_tests(self.server.service())
    }
}

fn warn_of_skipped(manifest: &Manifest) {
    if manifest.skipped.is_empty() {
        return;
    }
    let kinds: Vec<&str> = manifest.skipped.iter().map(String::as_str).collect();
    tracing::warn!(
        file = %manifest.path.display(),
        kinds = kinds.join(", "),
        "objects were skipped: the embedded API server does not store these kinds",
    );
}

/// Returns a bearer token of 128 random bits. It does not depend on `--seed`, so that nobody can
/// guess it.
#[expect(clippy::disallowed_methods, reason = "the seed is in the log")]
fn new_token() -> Result<String, getrandom::Error> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn administrator() -> User {
    let groups = ["system:masters", "system:authenticated"].map(str::to_owned).to_vec();
    User { name: "kubernetes-admin".to_owned(), groups }
}

/// Reads the manifests to load.
fn manifests(options: &EmbeddedOptions) -> Result<Vec<Manifest>, EmbeddedError> {
    if let Some(sample) = options.sample() {
        return Ok(vec![Manifest::of_sample(sample)?]);
    }
    let read = |path: &PathBuf| {
        let file =
            std::fs::read(path).map_err(|why| EmbeddedError::Unreadable { path: path.clone(), why })?;
        Manifest::parse(path, &file)
    };
    options.embedded_load.iter().map(read).collect()
}
