//! The client against a small TLS server, over real sockets and with real files.

mod connections;
mod in_use;
mod plugins;
mod rotation;
mod server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use kube::Config;
use kube::client::Body;
use tempfile::TempDir;

use crate::timeouts::Timeouts;

pub(super) use server::{Authority, Identity, Server};

/// Time limits short enough for a test. They differ from the defaults only where tests wait.
pub(super) fn limits() -> Timeouts {
    Timeouts {
        reload: Duration::from_millis(50),
        retry: Duration::from_millis(20),
        // A machine that is busy with other tests may take this long to read a file.
        renewal_wait: Duration::from_secs(20),
        ..Timeouts::default()
    }
}

/// A directory with the credentials of a client.
pub(super) struct Credentials {
    directory: TempDir,
}

impl Credentials {
    pub(super) fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces a file the way the kubelet does: a new one takes its name.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let new = self.path(&format!(".{name}"));
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }

    pub(super) fn write_identity(&self, identity: &Identity) {
        self.write("client.crt", &identity.certificate);
        self.write("client.key", &identity.key);
    }
}

/// Returns a configuration for a server whose CA is in `ca`.
pub(super) fn config(server: &Server, ca: &Path) -> Config {
    let mut config = Config::new(server.url().parse().unwrap());
    config.root_cert_file = Some(ca.to_owned());
    config
}

pub(super) fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

/// Waits until `done` is true.
pub(super) async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !done().await {
        assert!(tokio::time::Instant::now() < deadline, "still waiting: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
