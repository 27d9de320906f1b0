//! The server's certificate and key: loads or generates them, and replaces them while the server
//! runs.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use kube_endpoint_api_client::{
    CertificateInUse, CertificateLifetime, CertificatePlace, CertificateUse, unusable_version,
};
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

/// The source of the server's certificate, in the order of upstream's `SecureServingOptions`:
/// files, then the certificate directory, then memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// `--tls-cert-file` and `--tls-private-key-file`: PEM files, the certificate followed by its
    /// intermediates.
    Files { certificate: PathBuf, key: PathBuf },
    /// `--cert-dir`: the pair `kube-endpoint-manager.crt` and `kube-endpoint-manager.key` in this
    /// directory. If they do not exist, the server generates a self-signed pair and stores it
    /// there.
    Directory(PathBuf),
    /// A self-signed certificate that the server generates and does not store.
    Memory,
}

/// The result of reading the files.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The certificate and the key, which the server uses or has refused.
    Content(Vec<u8>, Vec<u8>),
    Error(String),
}

/// The current certificate. TLS connections take it from here.
pub(crate) struct ServerCertificate {
    files: Option<(PathBuf, PathBuf)>,
    /// True if the files are in a certificate directory.
    stored: bool,
    address: IpAddr,
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
    /// When the certificate in memory was made.
    made: Mutex<Timestamp>,
    /// The result of the last read, so that the log has an error once.
    seen: Mutex<Option<Seen>>,
}

impl ServerCertificate {
    /// Loads or generates the certificate. This reads and writes files, so it must not run on a
    /// thread of the runtime.
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
        Ok(Self {
            files,
            stored: matches!(source, CertificateSource::Directory(_)),
            address,
            provider,
            current: RwLock::new(Arc::new(current)),
            made: Mutex::new(now),
            seen: Mutex::new(seen),
        })
    }

    /// Returns the certificate with its chain, and its source.
    pub(crate) fn in_use(&self) -> CertificateInUse {
        let place = match self.files.clone() {
            Some((certificate, key)) if self.stored => CertificatePlace::Stored { certificate, key },
            Some((certificate, _)) => CertificatePlace::File(certificate),
            None => CertificatePlace::Memory,
        };
        let current = Arc::clone(&self.current.read());
        let lifetime = CertificateLifetime::of_chain(&current.cert);
        CertificateInUse { usage: CertificateUse::Serving, place, lifetime }
    }

    /// Reads the files again, or generates another certificate before the one in memory expires. If
    /// the files hold no usable pair, the certificate before stays in use, and this logs a warning
    /// once. This reads files, so it must not run on a thread of the runtime.
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

/// Returns the certificate with its key, if the key belongs to it.
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
    // The parser's error may quote a line of the key, so the log must not show it.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| wrong(key_path, "holds no private key in PEM, PKCS #8, PKCS #1 or SEC 1".to_owned()))?;
    let version = chain.first().and_then(|certificate| unusable_version(certificate));
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        let no_pair = || format!("and {} are not a usable pair: {error}", key_path.display());
        wrong(certificate_path, version.unwrap_or_else(no_pair))
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio_rustls::rustls::crypto::ring::default_provider;

    use super::*;

    #[test]
    fn a_certificate_of_version_1_is_named_as_such() {
        let old = include_bytes!("../../api-client/src/tests/version-1.crt");
        let pair = self_signed::generate(Ipv4Addr::LOCALHOST.into(), Timestamp::UNIX_EPOCH).unwrap();
        let paths = (PathBuf::from("/tls.crt"), PathBuf::from("/tls.key"));
        let error = certified_key(&paths, old, pair.key.as_bytes(), &default_provider()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("/tls.crt") && error.contains(" is of X.509 version 1, "), "{error}");
    }

    #[test]
    fn the_certificate_in_use_has_a_place_and_an_end() {
        let directory = tempfile::TempDir::new().unwrap();
        let provider = Arc::new(default_provider());
        let day = |day: i64| Timestamp::from_second((20_000 + day) * 24 * 60 * 60).unwrap();
        let load = |source: &CertificateSource| {
            ServerCertificate::load(source, Ipv4Addr::LOCALHOST.into(), Arc::clone(&provider), day(0))
                .unwrap()
        };
        let lifetime = |start, end| Ok(CertificateLifetime { start: day(start), end: day(end) });
        let stored = load(&CertificateSource::Directory(directory.path().to_owned()));
        let (certificate, key) = stored.files.clone().unwrap();
        let place = CertificatePlace::Stored { certificate: certificate.clone(), key: key.clone() };
        let used = stored.in_use();
        assert_eq!((used.place, used.lifetime), (place, lifetime(-1, 365)));

        let given = load(&CertificateSource::Files { certificate: certificate.clone(), key: key.clone() });
        assert_eq!(given.in_use().place, CertificatePlace::File(certificate.clone()));
        let pair = self_signed::generate(Ipv4Addr::LOCALHOST.into(), day(100)).unwrap();
        std::fs::write(&certificate, format!("text\n{}more text", pair.certificate)).unwrap();
        std::fs::write(&key, pair.key).unwrap();
        given.reload(day(100));
        assert_eq!(given.in_use().lifetime, lifetime(99, 465));
        std::fs::write(&certificate, "garbage").unwrap();
        given.reload(day(100));
        assert_eq!(given.in_use().lifetime, lifetime(99, 465), "the one before stays in use");

        let memory = load(&CertificateSource::Memory);
        assert_eq!(memory.in_use().place, CertificatePlace::Memory);
        memory.reload(day(310));
        assert_eq!(memory.in_use().lifetime, lifetime(-1, 365));
        memory.reload(day(321));
        assert_eq!(
            memory.in_use().lifetime,
            lifetime(320, 686),
            "it is renewed more than 30 days before its end"
        );
    }
}
