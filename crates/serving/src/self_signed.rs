//! The self-signed certificate of a server without one.

use std::net::IpAddr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use kube_endpoint_core_model::causes;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

use crate::error::ServingError;

/// How long a certificate is valid, as upstream's.
const DAYS: i64 = 365;

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Generates a certificate for the address, or for `localhost` if it is unspecified, as upstream's
/// `MaybeDefaultWithSelfSignedCerts`.
pub(crate) fn generate(address: IpAddr, now: Timestamp) -> Result<Pair, ServingError> {
    let failed = |error: rcgen::Error| ServingError::SelfSigned(causes(&error));
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    if !address.is_unspecified() && !names.contains(&address.to_string()) {
        names.push(address.to_string());
    }
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("localhost@{}", now.as_second()));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = now.to_zoned(TimeZone::UTC).date();
    // The clocks of clients may be behind.
    let (start, end) = (day(today, -1), day(today, DAYS));
    params.not_before = date_time_ymd(start.0, start.1, start.2);
    params.not_after = date_time_ymd(end.0, end.1, end.2);
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Returns true if it is time to replace a certificate that was made at `made`: before anything
/// warns of its end.
pub(crate) fn is_due(made: Timestamp, now: Timestamp) -> bool {
    now.as_second() - made.as_second() > (DAYS - 45) * 24 * 60 * 60
}

/// Returns year, month and day of the date that is `days` after `today`.
fn day(today: Date, days: i64) -> (i32, u8, u8) {
    let date = today.saturating_add(Span::new().days(days));
    (date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
}
