//! Writes the file of `--embedded-kubeconfig`. It replaces only a file that this program wrote, and
//! only if the server in it has ended.
//!
//! A marker in the file tells that this program wrote it. The marker is an extension, because
//! `kubectl config` keeps extensions, but not comments. The file is in use while the API server at
//! its address accepts its token. Because of the token, only its owner may read it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use kube::Config;
use kube::client::Body;
use kube::config::Kubeconfig;
use kube_endpoint_api_client::{Answered, client_from_config, without_credentials};
use tokio::time::{sleep, timeout};

/// The name of two extensions: that of the file marks it as one of this program, that of the
/// cluster names the page (`bins/kubectl-diagnose-svc/src/ui/embedded.rs`).
pub(super) const EXTENSION: &str = "kube-endpoint-manager";
/// The name of the only cluster, user and context.
const NAME: &str = "embedded";
/// A comment for people.
const COMMENT: &str =
    "# Written by kube-endpoint-manager --embedded, which replaces this file at its next start.\n";
/// The time limit for an answer of a server. A server that takes longer counts as running.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The most bytes of an answer.
const LONGEST_ANSWER: usize = 64 << 10;
/// The number of looks at the file while another process writes it, and the pause between two
/// looks.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// The error of a kubeconfig that was not written. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The operating system refuses to read or write the file.
    #[error("cannot write the kubeconfig {path}: {why}; choose another place with --embedded-kubeconfig")]
    Io {
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
    /// The file has content that this program did not write, or it is a pipe, a socket or a block
    /// device.
    #[error(
        "{path} exists and {why}, so it is not replaced; choose another place with --embedded-kubeconfig, or remove the file"
    )]
    NotOurs {
        path: PathBuf,
        /// A description of it, in words that follow "and".
        why: String,
    },
    /// Another process uses the file.
    #[error(
        "{path} is the kubeconfig of a running --embedded, whose API server listens on {server}; choose another place with \
         --embedded-kubeconfig, or stop that process"
    )]
    InUse {
        path: PathBuf,
        /// The URL of the API server.
        server: String,
    },
    /// Another process has locked the file.
    #[error(
        "another process has locked {path}; choose another place with --embedded-kubeconfig, or start again when it is done"
    )]
    Locked { path: PathBuf },
}

/// A path to which a kubeconfig may be written.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// The content that may be replaced. It is empty if there is no file.
    before: Vec<u8>,
}

/// The kind of a file's content.
#[derive(Debug)]
enum Content {
    /// There is no content to lose.
    Empty,
    /// This program wrote it.
    Ours(Box<Kubeconfig>),
    /// Anything else, as words that follow "and".
    Other(String),
}

impl Place {
    /// Checks that a kubeconfig may be written to a path. This writes nothing.
    ///
    /// # Errors
    ///
    /// The reason, if it must not be written there.
    pub(super) async fn look(path: &Path) -> Result<Self, KubeconfigError> {
        let io_error = |why| KubeconfigError::Io { path: path.to_owned(), why };
        let kind = std::fs::metadata(path).map(|it| it.file_type()).ok();
        // A terminal or /dev/null has no content to keep, and reading it could block.
        let is_device = kind.is_some_and(|kind| kind.is_char_device());
        if kind.is_some_and(|kind| !kind.is_file() && !kind.is_dir() && !kind.is_char_device()) {
            // Opening a named pipe would wait until somebody reads from it.
            let why = "is a pipe, a socket or a block device".to_owned();
            return Err(KubeconfigError::NotOurs { path: path.to_owned(), why });
        }
        let before = match if is_device { Ok(Vec::new()) } else { std::fs::read(path) } {
            Ok(before) => before,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(io_error(error)),
        };
        match content(&before) {
            Content::Empty => {}
            Content::Other(why) => return Err(KubeconfigError::NotOurs { path: path.to_owned(), why }),
            Content::Ours(kubeconfig) => {
                if let Some(server) = running_server(&kubeconfig).await {
                    return Err(KubeconfigError::InUse { path: path.to_owned(), server });
                }
            }
        }
        Ok(Self { path: path.to_owned(), before })
    }

    /// Writes a kubeconfig with the marker of this program. If the file has changed since the last
    /// look, this looks at it again.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or must no longer be replaced.
    pub(super) async fn write(&self, kubeconfig: &str) -> Result<(), KubeconfigError> {
        let text = marked(kubeconfig);
        let mut place = Self { path: self.path.clone(), before: self.before.clone() };
        for _ in 0..ATTEMPTS {
            let replaced = replace(&place.path, &place.before, &text);
            if replaced.map_err(|why| KubeconfigError::Io { path: self.path.clone(), why })? {
                return Ok(());
            }
            sleep(PAUSE).await;
            place = Self::look(&self.path).await?;
        }
        Err(KubeconfigError::Locked { path: self.path.clone() })
    }
}

/// Returns the text with the comment and the marker.
fn marked(kubeconfig: &str) -> String {
    format!("{COMMENT}{kubeconfig}extensions:\n- name: {EXTENSION}\n  extension: {{writtenBy: --embedded}}\n")
}

fn content(bytes: &[u8]) -> Content {
    if bytes.trim_ascii().is_empty() {
        return Content::Empty;
    }
    let other = |why: &str| Content::Other(why.to_owned());
    let kubeconfig = std::str::from_utf8(bytes).ok().and_then(|text| Kubeconfig::from_yaml(text).ok());
    let Some(kubeconfig) = kubeconfig.filter(|it| !it.clusters.is_empty()) else {
        return other("is no kubeconfig");
    };
    let is_marked = kubeconfig.extensions.iter().flatten().any(|extension| extension.name == EXTENSION);
    if !is_marked {
        return other("is a kubeconfig that --embedded did not write");
    }
    let clusters = kubeconfig.clusters.iter().map(|it| &*it.name);
    let users = kubeconfig.auth_infos.iter().map(|it| &*it.name);
    let contexts = kubeconfig.contexts.iter().map(|it| &*it.name);
    match clusters.chain(users).chain(contexts).find(|name| *name != NAME) {
        Some(added) => {
            Content::Other(format!("also has the entry {added:?}, which --embedded did not write"))
        }
        None => Content::Ours(Box::new(kubeconfig)),
    }
}

/// Returns the URL of the API server in a kubeconfig, if it still runs: it accepts the token of the
/// kubeconfig, and names itself an embedded one. Another program may have got its port.
async fn running_server(kubeconfig: &Kubeconfig) -> Option<String> {
    let asked = async {
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig.clone(), &Default::default()).await.ok()?;
        // A proxy of the environment does not reach loopback.
        config.proxy_url = None;
        let url = without_credentials(&config.cluster_url);
        let client = client_from_config(config).await.ok()?;
        let answer = client.send(Request::get("/version").body(Body::empty()).ok()?).await.ok()?;
        let answered = Answered::read(answer, LONGEST_ANSWER).await.ok()?;
        is_embedded(&answered).then_some(url)
    };
    let server = || {
        let cluster = kubeconfig.clusters.first().and_then(|it| it.cluster.as_ref());
        let url = cluster.and_then(|it| it.server.as_deref()?.parse().ok());
        url.map_or_else(|| "an unknown address".to_owned(), |url| without_credentials(&url))
    };
    timeout(ANSWER_TIMEOUT, asked).await.unwrap_or_else(|_| Some(server()))
}

/// Returns true if an answer to `/version` is that of an embedded API server.
fn is_embedded(answered: &Answered) -> bool {
    let version: serde_json::Value = serde_json::from_slice(answered.body()).unwrap_or_default();
    answered.status().is_success()
        && version["gitVersion"].as_str().is_some_and(|it| it.ends_with("+embedded"))
}

/// Replaces the content `before` of a file by a text. Readers see one or the other. Returns false
/// if the file has another content by now, or another process holds its lock.
fn replace(path: &Path, before: &[u8], text: &str) -> io::Result<bool> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if !file.metadata()?.is_file() {
        file.write_all(text.as_bytes())?;
        return Ok(true);
    }
    // Two processes that start at the same time take turns.
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let is_gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    // This keeps a link, and replaces its target.
    let target = match std::fs::canonicalize(path) {
        Err(error) if is_gone(&error) => return Ok(false),
        target => target?,
    };
    let now = match std::fs::read(&target) {
        Err(error) if is_gone(&error) => return Ok(false),
        now => now?,
    };
    if now != before {
        return Ok(false);
    }
    let temporary = temporary(&target);
    let written = write_private(&temporary, text).and_then(|()| std::fs::rename(&temporary, &target));
    if written.is_err() {
        // The caller shows the first error, so this one is ignored.
        let _ = std::fs::remove_file(&temporary);
    }
    written.map(|()| true)
}

/// Returns the path of a file of this process beside another file.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    // A crashed process with the same id may have left the file.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
