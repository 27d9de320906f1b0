//! The CA that signs client certificates, and their verification.
//!
//! As in upstream, the TLS handshake accepts any client certificate (its owner has to have the key), and the certificate is
//! verified when a request uses it. So a new CA also applies to open connections, and a client with a certificate that is
//! not valid here may still use a token.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube_endpoint_core_model::causes;
use parking_lot::RwLock;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use crate::error::ServingError;
use crate::subject::user_of;
use crate::user::User;

/// Asks for a client certificate without requiring one, and checks only that the client has the key.
pub(crate) struct AnyClientCertificate(WebPkiSupportedAlgorithms);

impl AnyClientCertificate {
    pub(crate) fn new(provider: &CryptoProvider) -> Self {
        Self(provider.signature_verification_algorithms)
    }
}

impl fmt::Debug for AnyClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyClientCertificate")
    }
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[derive(Default)]
struct State {
    /// Without a CA, client certificates are ignored.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The bundle that was seen last, in use or refused.
    bundle: Option<Vec<u8>>,
    /// The error that was logged last.
    error: Option<String>,
    generation: u64,
}

/// The bundle of CA certificates in use.
pub(crate) struct ClientCa {
    provider: Arc<CryptoProvider>,
    state: RwLock<State>,
}

impl ClientCa {
    /// No CA yet.
    pub(crate) fn new(provider: Arc<CryptoProvider>) -> Self {
        Self { provider, state: RwLock::default() }
    }

    /// Reads the file for the first time.
    pub(crate) fn load(&self, path: &Path) -> Result<(), ServingError> {
        let content = std::fs::read(path).map_err(|why| ServingError::File {
            action: "read",
            path: path.to_owned(),
            why,
        })?;
        self.replace(content, &path.display())
            .map_err(|why| ServingError::Content { path: path.to_owned(), why })
    }

    /// Reads the file again. A problem is logged once, and the bundle before stays in use.
    pub(crate) fn reload(&self, path: &PathBuf) {
        match std::fs::read(path) {
            Ok(content) => self.update(content, &path.display()),
            Err(error) => self.problem(&path.display(), format!("cannot be read: {error}")),
        }
    }

    /// Takes a bundle, from wherever it was read. A problem is logged once, and the bundle before stays in use.
    pub(crate) fn update(&self, bundle: Vec<u8>, source: &dyn fmt::Display) {
        if let Err(why) = self.replace(bundle, source) {
            self.problem(source, why);
        }
    }

    /// Logs a problem unless it was the last one logged.
    pub(crate) fn problem(&self, source: &dyn fmt::Display, why: String) {
        let mut state = self.state.write();
        if state.error.as_ref() == Some(&why) {
            return;
        }
        let consequence = match state.verifier {
            Some(_) => "the client CA that was read before stays in use",
            None => "client certificates are not accepted until it can be read",
        };
        tracing::warn!("the client CA in {source} {why}; {consequence}");
        state.error = Some(why);
    }

    fn replace(&self, bundle: Vec<u8>, source: &dyn fmt::Display) -> Result<(), String> {
        if self.state.read().bundle.as_ref() == Some(&bundle) {
            return Ok(());
        }
        let verifier = verifier(&bundle, &self.provider);
        let mut state = self.state.write();
        state.bundle = Some(bundle);
        state.verifier = Some(verifier?);
        state.error = None;
        state.generation += 1;
        drop(state);
        tracing::info!("client certificates are verified with the CA in {source}");
        Ok(())
    }

    /// A number that changes with the bundle.
    pub(crate) fn generation(&self) -> u64 {
        self.state.read().generation
    }

    /// The user of a certificate chain; `None` if there is no CA, or the certificate names no user.
    ///
    /// # Errors
    /// If the certificate is not valid now, or no known CA has signed it for clients.
    pub(crate) fn user(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Option<User>, String> {
        let Some(verifier) = self.state.read().verifier.clone() else { return Ok(None) };
        let Some((certificate, intermediates)) = chain.split_first() else { return Ok(None) };
        verifier
            .verify_client_cert(certificate, intermediates, now)
            .map_err(|error| format!("cannot be verified: {error}"))?;
        user_of(certificate)
    }
}

fn verifier(bundle: &[u8], provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate = certificate.map_err(|error| format!("is no PEM: {}", causes(&error)))?;
        roots
            .add(certificate)
            .map_err(|error| format!("holds a certificate that cannot be used: {}", causes(&error)))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| format!("holds no usable CA: {}", causes(&error)))
}
