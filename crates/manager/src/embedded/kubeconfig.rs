//! The file of `--embedded-kubeconfig`. Only what this program wrote is replaced, and only once its
//! server is gone.
//!
//! A marker in the file says who wrote it. `kubectl config` keeps it, but not comments, so it is an
//! extension. The file is in use while the API server of its address accepts its token. It has a
//! token, so only its owner may read it.

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

/// The name of the extension that marks a file of this program.
const MARKER: &str = "kube-endpoint-manager";
/// The name of the only cluster, user and context.
const NAME: &str = "embedded";
/// A comment for people.
const COMMENT: &str =
    "# Written by kube-endpoint-manager --embedded, which replaces this file at its next start.\n";
/// How long a server has to answer. One that takes longer counts as running.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The most bytes of its answer.
const LONGEST_ANSWER: usize = 64 << 10;
/// How often the file is looked at again while another process writes it, and how long to wait in
/// between.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Why a kubeconfig is not written. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The operating system does not let it.
    #[error("cannot write the kubeconfig {path}: {why}; choose another place with --embedded-kubeconfig")]
    Io {
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
    /// The file is something else.
    #[error(
        "{path} exists and {why}, so it is not replaced; choose another place with --embedded-kubeconfig, or remove the file"
    )]
    NotOurs {
        path: PathBuf,
        /// A description of it, in words that follow "and".
        why: String,
    },
    /// Another process needs it.
    #[error(
        "{path} is the kubeconfig of a running --embedded, whose API server listens on {server}; choose another place with \
         --embedded-kubeconfig, or stop that process"
    )]
    InUse {
        path: PathBuf,
        /// The URL of the API server.
        server: String,
    },
    /// Another process has locked it.
    #[error(
        "another process has locked {path}; choose another place with --embedded-kubeconfig, or start again when it is done"
    )]
    Locked { path: PathBuf },
}

/// A path that a kubeconfig may be written to.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// The content that may be replaced; empty if there is no file.
    before: Vec<u8>,
}

/// The kind of a file's content.
#[derive(Debug)]
enum Content {
    /// There is nothing to lose.
    Empty,
    /// This program wrote it.
    Ours(Box<Kubeconfig>),
    /// Anything else. In words that follow "and".
    Other(String),
}

impl Place {
    /// Finds out whether a kubeconfig may be written to a path. Nothing is written.
    ///
    /// # Errors
    ///
    /// If it may not.
    pub(super) async fn look(path: &Path) -> Result<Self, KubeconfigError> {
        let io_error = |why| KubeconfigError::Io { path: path.to_owned(), why };
        let kind = std::fs::metadata(path).map(|it| it.file_type()).ok();
        // A terminal or /dev/null: there is nothing to lose, and reading it could block.
        let is_device = kind.is_some_and(|kind| kind.is_char_device());
        if kind.is_some_and(|kind| !kind.is_file() && !kind.is_dir() && !kind.is_char_device()) {
            // Opening a named pipe waits until somebody reads from it.
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

    /// Writes a kubeconfig, marked as one of this program. If the file has changed since it was
    /// looked at, it is looked at again.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or may not be any more.
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

/// The text with the comment and the marker.
fn marked(kubeconfig: &str) -> String {
    format!("{COMMENT}{kubeconfig}extensions:\n- name: {MARKER}\n  extension: {{writtenBy: --embedded}}\n")
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
    let is_marked = kubeconfig.extensions.iter().flatten().any(|extension| extension.name == MARKER);
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

/// The URL of the API server in a kubeconfig, if it still runs: it accepts the token of the
/// kubeconfig, and says that it is an embedded one. Another program may have got its port.
async fn running_server(kubeconfig: &Kubeconfig) -> Option<String> {
    let asked = async {
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig.clone(), &Default::default()).await.ok()?;
        // Proxies of the environment do not reach it.
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

/// Puts a text in the place of what a file held `before`, at once: readers see either. Returns
/// false if it holds something else by now, or another process holds its lock.
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
    // A link stays, and what it points to is replaced.
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
        // That error is the one to show.
        let _ = std::fs::remove_file(&temporary);
    }
    written.map(|()| true)
}

/// A file of this process beside another one.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    // A process of this number that crashed may have left one.
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
