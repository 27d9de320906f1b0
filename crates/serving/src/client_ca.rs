//! Verifies the certificates of clients and of front proxies, and keeps the CAs that sign them.
//!
//! As in upstream, the TLS handshake accepts any client certificate (its owner has to have the
//! key), and the server verifies the certificate when a request uses it. So a new CA also applies
//! to open connections, and a client with a certificate that is not valid here may still use a
//! token.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use kube_endpoint_api_client::{CertificateInUse, CertificateLifetime, CertificatePlace, CertificateUse};
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
use crate::front_proxy::RequestHeaders;
use crate::subject::user_of;
use crate::user::User;

/// Asks for a client certificate without requiring one, and checks only that the client has the
/// key.
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

struct State<R> {
    /// `None` while there is no CA: the server then ignores client certificates.
    trusted: Option<(Arc<dyn ClientCertVerifier>, Arc<R>)>,
    /// The CA that the server trusts, with its place and its lifetime.
    in_use: Option<CertificateInUse>,
    /// The bundle and the rules of the last update, which the server uses or has refused.
    seen: Option<(Vec<u8>, R)>,
    /// The error that the log has last.
    error: Option<String>,
    generation: u64,
}

/// The bundle of CA certificates in use, and rules that go with it. An update replaces both at
/// once.
pub(crate) struct Ca<R> {
    provider: Arc<CryptoProvider>,
    usage: CertificateUse,
    /// The kind of client whose certificates it signs, for the log.
    of: &'static str,
    state: RwLock<State<R>>,
}

/// The CA of client certificates.
pub(crate) type ClientCa = Ca<()>;

/// The CA of the certificates of front proxies.
pub(crate) type ProxyCa = Ca<RequestHeaders>;

impl ClientCa {
    /// Returns a value that has no CA yet.
    pub(crate) fn of_clients(provider: Arc<CryptoProvider>) -> Self {
        Self::new(provider, CertificateUse::ClientCa, "client")
    }

    /// Returns the user of a certificate chain, or `None` if there is no CA, or the certificate
    /// names no user.
    ///
    /// # Errors
    /// The reason, if the certificate is not valid now, or no known CA has signed it for clients.
    pub(crate) fn user(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Option<User>, String> {
        match self.verify(chain, now)? {
            Some((certificate, _)) => user_of(certificate),
            None => Ok(None),
        }
    }
}

impl ProxyCa {
    /// Returns a value that has no CA yet.
    pub(crate) fn of_front_proxies(provider: Arc<CryptoProvider>) -> Self {
        Self::new(provider, CertificateUse::FrontProxyCa, "front proxy")
    }

    /// Returns the headers in which the owner of a certificate chain names users, or `None` if
    /// there is no CA.
    ///
    /// # Errors
    /// The reason, if the certificate is not valid now, no known CA has signed it for clients, or
    /// its common name is not allowed.
    pub(crate) fn headers(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Option<Arc<RequestHeaders>>, String> {
        let Some((certificate, headers)) = self.verify(chain, now)? else { return Ok(None) };
        let name = user_of(certificate)?.map(|user| user.name).unwrap_or_default();
        if !headers.allow(&name) {
            return Err(format!("has the common name {name:?}, which is not allowed"));
        }
        Ok(Some(headers))
    }
}

impl<R: Clone + PartialEq> Ca<R> {
    fn new(provider: Arc<CryptoProvider>, usage: CertificateUse, of: &'static str) -> Self {
        let state = State { trusted: None, in_use: None, seen: None, error: None, generation: 0 };
        Self { provider, usage, of, state: RwLock::new(state) }
    }

    /// Returns the bundle with which the server verifies certificates, if there is one.
    pub(crate) fn in_use(&self) -> Option<CertificateInUse> {
        self.state.read().in_use.clone()
    }

    /// Reads the file for the first time.
    pub(crate) fn load(&self, path: &Path, rules: &R) -> Result<(), ServingError> {
        let content = std::fs::read(path).map_err(|why| ServingError::File {
            action: "read",
            path: path.to_owned(),
            why,
        })?;
        self.replace(content, rules, &CertificatePlace::File(path.to_owned()))
            .map_err(|why| ServingError::Content { path: path.to_owned(), why })
    }

    /// Reads the file again. It logs a problem once, and then keeps the bundle before.
    pub(crate) fn reload(&self, path: &Path, rules: &R) {
        let place = CertificatePlace::File(path.to_owned());
        match std::fs::read(path) {
            Ok(content) => self.update(content, rules, &place),
            Err(error) => self.problem(&place, format!("cannot be read: {error}")),
        }
    }

    /// Takes a bundle, from a file or the ConfigMap. It logs a problem once, and then keeps the
    /// bundle before.
    pub(crate) fn update(&self, bundle: Vec<u8>, rules: &R, place: &CertificatePlace) {
        if let Err(why) = self.replace(bundle, rules, place) {
            self.problem(place, why);
        }
    }

    /// Logs a problem unless the log already has it last.
    pub(crate) fn problem(&self, place: &CertificatePlace, why: String) {
        let mut state = self.state.write();
        if state.error.as_ref() == Some(&why) {
            return;
        }
        let of = self.of;
        match state.trusted {
            Some(_) => {
                tracing::warn!("the {of} CA in {place} {why}; the {of} CA that was read before stays in use");
            }
            None => tracing::warn!(
                "the {of} CA in {place} {why}; {of} certificates are not accepted until it can be read"
            ),
        }
        state.error = Some(why);
    }

    fn replace(&self, bundle: Vec<u8>, rules: &R, place: &CertificatePlace) -> Result<(), String> {
        let is_seen = |seen: &(Vec<u8>, R)| seen.0 == bundle && seen.1 == *rules;
        if self.state.read().seen.as_ref().is_some_and(is_seen) {
            return Ok(());
        }
        let verifier = verifier(&bundle, &self.provider);
        let mut state = self.state.write();
        state.seen = Some((bundle, rules.clone()));
        let (verifier, lifetime) = verifier?;
        state.trusted = Some((verifier, Arc::new(rules.clone())));
        state.in_use = Some(CertificateInUse { usage: self.usage, place: place.clone(), lifetime });
        state.error = None;
        state.generation += 1;
        drop(state);
        tracing::info!("{} certificates are verified with the CA in {place}", self.of);
        Ok(())
    }

    /// Returns a number that changes with the bundle.
    pub(crate) fn generation(&self) -> u64 {
        self.state.read().generation
    }

    /// Verifies a certificate chain. Returns the first certificate and the rules, or `None` if
    /// there is no CA or no certificate.
    fn verify<'c, 'd>(
        &self,
        chain: &'c [CertificateDer<'d>],
        now: UnixTime,
    ) -> Result<Option<(&'c CertificateDer<'d>, Arc<R>)>, String> {
        let Some((verifier, rules)) = self.state.read().trusted.clone() else { return Ok(None) };
        let Some((certificate, intermediates)) = chain.split_first() else { return Ok(None) };
        verifier
            .verify_client_cert(certificate, intermediates, now)
            .map_err(|error| format!("cannot be verified: {error}"))?;
        Ok(Some((certificate, rules)))
    }
}

/// A verifier of certificates, and the lifetime of its bundle.
type Verifier = (Arc<dyn ClientCertVerifier>, Result<CertificateLifetime, String>);

fn verifier(bundle: &[u8], provider: &Arc<CryptoProvider>) -> Result<Verifier, String> {
    let (mut roots, mut certificates) = (RootCertStore::empty(), Vec::new());
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate = certificate.map_err(|error| format!("is no PEM: {}", causes(&error)))?;
        certificates.push(certificate.clone());
        roots
            .add(certificate)
            .map_err(|error| format!("holds a certificate that cannot be used: {}", causes(&error)))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| format!("holds no usable CA: {}", causes(&error)))?;
    Ok((verifier, CertificateLifetime::of_bundle(&certificates)))
}
