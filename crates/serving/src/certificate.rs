//! The server's certificate and key: where they come from, and what replaces them while the server runs.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use kube_endpoint_core_model::causes;
use parking_lot::{Mutex, RwLock};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::error::ServingError;
use crate::self_signed::{self, Pair};

/// The names of the generated files in a certificate directory, without extension.
const PAIR_NAME: &str = "kube-endpoint-manager";

/// Where the server's certificate comes from. The order of upstream's `SecureServingOptions`: files, then the certificate
/// directory, then memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// `--tls-cert-file` and `--tls-private-key-file`: PEM files, the certificate followed by its intermediates.
    Files {
        /// The certificate.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// `--cert-dir`: the pair `kube-endpoint-manager.crt` and `kube-endpoint-manager.key` in this directory. If they do
    /// not exist, a self-signed pair is generated and stored there.
    Directory(PathBuf),
    /// A self-signed certificate that is not stored.
    Memory,
}

/// What an update found.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The content that is in use, or was refused: certificate and key.
    Content(Vec<u8>, Vec<u8>),
    /// The error of reading.
    Error(String),
}

/// The current certificate. TLS connections take it from here.
pub(crate) struct ServerCertificate {
    files: Option<(PathBuf, PathBuf)>,
    address: IpAddr,
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
    /// When the certificate in memory was made.
    made: Mutex<Timestamp>,
    /// What was seen last, so that an error is logged once.
    seen: Mutex<Option<Seen>>,
}

impl ServerCertificate {
    /// Loads or generates the certificate. This reads and writes files, so it must not run on a thread of the runtime.
    pub(crate) fn load(
        source: &CertificateSource,
        address: IpAddr,
        provider: Arc<CryptoProvider>,
        now: Timestamp,
    ) -> Result<Self, ServingError> {
        let files = match source {
            CertificateSource::Files { certificate, key } => Some((certificate.clone(), key.clone())),
            CertificateSource::Directory(directory) => {
                let file = |extension: &str| directory.join(format!("{PAIR_NAME}.{extension}"));
                let files = (file("crt"), file("key"));
                store_if_missing(&files, address, now)?;
                Some(files)
            }
            CertificateSource::Memory => None,
        };
        let (current, seen) = match &files {
            Some(files) => {
                let (certificate, key) = (read(&files.0)?, read(&files.1)?);
                let pair = certified_key(files, &certificate, &key, &provider)?;
                (pair, Some(Seen::Content(certificate, key)))
            }
            None => {
                tracing::info!("serving with a self-signed certificate that is not stored");
                (generated(address, now, &provider)?, None)
            }
        };
        Ok(Self {
            files,
            address,
            provider,
            current: RwLock::new(Arc::new(current)),
            made: Mutex::new(now),
            seen: Mutex::new(seen),
        })
    }

    /// Reads the files again, or generates another certificate before the one in memory expires. If the files hold no
    /// usable pair, the certificate before stays in use, and a warning is logged once. This reads files, so it must not
    /// run on a thread of the runtime.
    pub(crate) fn reload(&self, now: Timestamp) {
        let Some(files) = &self.files else {
            return self.renew(now);
        };
        let (found, loaded) = match read(&files.0).and_then(|certificate| Ok((certificate, read(&files.1)?)))
        {
            Ok((certificate, key)) => {
                let loaded = certified_key(files, &certificate, &key, &self.provider);
                (Seen::Content(certificate, key), loaded)
            }
            Err(error) => (Seen::Error(error.to_string()), Err(error)),
        };
        if self.seen.lock().as_ref() == Some(&found) {
            return;
        }
        *self.seen.lock() = Some(found);
        match loaded {
            Ok(pair) => {
                *self.current.write() = Arc::new(pair);
                tracing::info!(path = %files.0.display(), "the serving certificate has changed; new connections use it");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot use the new serving certificate; the one before stays in use");
            }
        }
    }

    fn renew(&self, now: Timestamp) {
        let mut made = self.made.lock();
        if !self_signed::is_due(*made, now) {
            return;
        }
        match generated(self.address, now, &self.provider) {
            Ok(pair) => {
                (*self.current.write(), *made) = (Arc::new(pair), now);
                tracing::info!("the self-signed serving certificate was renewed");
            }
            Err(error) => tracing::warn!(%error, "cannot renew the serving certificate"),
        }
    }
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCertificate").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ServingError> {
    std::fs::read(path).map_err(|why| ServingError::File { action: "read", path: path.to_owned(), why })
}

fn generated(
    address: IpAddr,
    now: Timestamp,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, ServingError> {
    let Pair { certificate, key } = self_signed::generate(address, now)?;
    let nowhere = (PathBuf::new(), PathBuf::new());
    certified_key(&nowhere, certificate.as_bytes(), key.as_bytes(), provider)
}

/// Makes sure that the pair exists. A directory with only one of the files is an error, as upstream has it.
fn store_if_missing(
    (certificate, key): &(PathBuf, PathBuf),
    address: IpAddr,
    now: Timestamp,
) -> Result<(), ServingError> {
    let one_of_two = |path: &Path, other: &Path| ServingError::Content {
        path: path.to_owned(),
        why: format!("exists without {}; remove it, or add the other file", other.display()),
    };
    match (certificate.exists(), key.exists()) {
        (true, true) => return Ok(()),
        (true, false) => return Err(one_of_two(certificate, key)),
        (false, true) => return Err(one_of_two(key, certificate)),
        (false, false) => {}
    }
    let pair = self_signed::generate(address, now)?;
    write(certificate, &pair.certificate, 0o644)?;
    write(key, &pair.key, 0o600)?;
    tracing::info!(path = %certificate.display(), "a self-signed serving certificate was generated");
    Ok(())
}

/// Writes a file that nobody can read before it has its permissions.
fn write(path: &Path, content: &str, mode: u32) -> Result<(), ServingError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    let write = || {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(content.as_bytes())
    };
    write().map_err(|why| ServingError::File { action: "write", path: path.to_owned(), why })
}

/// A pair that fits together.
fn certified_key(
    (certificate_path, key_path): &(PathBuf, PathBuf),
    certificate: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, ServingError> {
    let wrong = |path: &PathBuf, why: String| ServingError::Content { path: path.clone(), why };
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(certificate_path, format!("is no PEM: {}", causes(&error))))?;
    if chain.is_empty() {
        return Err(wrong(
            certificate_path,
            "holds no certificate; it must hold PEM blocks that begin with BEGIN CERTIFICATE".to_owned(),
        ));
    }
    // The error of the parser may quote the line, which may be of the key.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| wrong(key_path, "holds no private key in PEM, PKCS #8, PKCS #1 or SEC 1".to_owned()))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        wrong(certificate_path, format!("and {} are not a usable pair: {error}", key_path.display()))
    })
}
