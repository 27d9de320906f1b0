//! TLS of a listener: a CA and a certificate for its address, made at its start. The keys never
//! leave the process, so the certificate of the CA vouches for this listener only.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{self, ServerConfig};

/// How long the certificates are valid.
const DAYS: i64 = 365;

/// The reason why a listener has no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot use the certificate: {0}")]
    Config(#[from] rustls::Error),
}

/// The certificates of a listener.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The certificate of the CA, in PEM.
    pub(crate) ca: String,
}

impl Tls {
    /// Makes certificates for a listener on an address, and for `localhost`.
    pub(crate) fn new(address: IpAddr, now: Timestamp) -> Result<Self, TlsError> {
        let mut params = params("kube-endpoint-manager embedded CA", Vec::new(), now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let mut names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        if !names.contains(&address.to_string()) {
            names.push(address.to_string());
        }
        let mut params = self::params("kube-endpoint-manager embedded API server", names, now)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &ca)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), ca: ca.pem() })
    }
}

fn params(name: &str, names: Vec<String>, now: Timestamp) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let today = now.to_zoned(TimeZone::UTC).date();
    // The clocks of clients may be behind.
    let (start, end) = (day(today, -1), day(today, DAYS));
    params.not_before = date_time_ymd(start.0, start.1, start.2);
    params.not_after = date_time_ymd(end.0, end.1, end.2);
    Ok(params)
}

/// Returns year, month and day of the date that is `days` after `today`.
fn day(today: Date, days: i64) -> (i32, u8, u8) {
    let date = today.saturating_add(Span::new().days(days));
    (date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
}
