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
use crate::stored_pair;

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
    /// Whether the files are those of a certificate directory.
    stored: bool,
    address: IpAddr,
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
    /// When the certificate in memory was made.
    made: Mutex<Timestamp>,
    /// What was seen last, so that an error is logged once.
    seen: Mutex<Option<Seen>>,
    /// When a warning about the end of the certificate was logged last.
    warned: Mutex<Option<Timestamp>>,
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
                stored_pair::store_if_missing(&files, address, &provider, now)?;
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
        let this = Self {
            files,
            stored: matches!(source, CertificateSource::Directory(_)),
            address,
            provider,
            current: RwLock::new(Arc::new(current)),
            made: Mutex::new(now),
            seen: Mutex::new(seen),
            warned: Mutex::default(),
        };
        this.warn_before_expiry(now);
        Ok(this)
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
            return self.warn_before_expiry(now);
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

    /// Nothing replaces a self-signed certificate that is stored, so this warns once a day in the last 30 days.
    fn warn_before_expiry(&self, now: Timestamp) {
        const DAY: i64 = 24 * 60 * 60;
        let Some((certificate, key)) = self.files.as_ref().filter(|_| self.stored) else { return };
        let end = self.current.read().end_entity_cert().ok().and_then(|leaf| self_signed::end(leaf));
        let Some(end) = end.filter(|end| end - now.as_second() < 30 * DAY) else { return };
        let mut warned = self.warned.lock();
        if warned.is_some_and(|warned| now.as_second() - warned.as_second() < DAY) {
            return;
        }
        *warned = Some(now);
        let (certificate, key) = (certificate.display(), key.display());
        let days = (end - now.as_second()).div_euclid(DAY);
        if days < 0 {
            tracing::warn!(
                "the self-signed serving certificate {certificate} has expired; remove it and {key}, and restart this process"
            );
        } else {
            tracing::warn!(
                "the self-signed serving certificate {certificate} expires in {days} days; remove it and {key}, and restart \
                 this process"
            );
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

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ServingError> {
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

/// A pair that fits together.
pub(crate) fn certified_key(
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio_rustls::rustls::crypto::ring::default_provider;

    use super::*;

    #[test]
    fn the_end_of_a_stored_self_signed_certificate_is_warned_of_once_a_day() {
        let directory = tempfile::TempDir::new().unwrap();
        let provider = Arc::new(default_provider());
        let day = |day: i64| Timestamp::from_second((20_000 + day) * 24 * 60 * 60).unwrap();
        let load = |source: &CertificateSource, now| {
            ServerCertificate::load(source, Ipv4Addr::LOCALHOST.into(), Arc::clone(&provider), now).unwrap()
        };
        let source = CertificateSource::Directory(directory.path().to_owned());
        let stored = load(&source, day(0));
        let half_a_day = jiff::SignedDuration::from_hours(12);
        for (now, warned) in [
            (day(0), None),
            (day(335), None),
            (day(336), Some(day(336))),
            (day(336) + half_a_day, Some(day(336))),
            (day(337), Some(day(337))),
            (day(400), Some(day(400))),
        ] {
            stored.reload(now);
            assert_eq!(*stored.warned.lock(), warned, "{now}");
        }
        assert_eq!(*load(&source, day(350)).warned.lock(), Some(day(350)));
        let (certificate, key) = stored.files.unwrap();
        let given = load(&CertificateSource::Files { certificate, key }, day(350));
        assert_eq!(*given.warned.lock(), None);
    }
}
