//! The certificates in use, and when they end.

use std::fmt;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_cert::der::Decode;
use x509_cert::{Certificate, Version};

/// A person should replace a certificate this long before its end.
const AHEAD: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The purpose of a certificate or of a bundle of CAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateUse {
    /// The client certificate for the API server.
    ApiServerClient,
    /// The CAs that verify the API server's certificate.
    ApiServerCa,
    /// The client certificate for TokenReviews that have a kubeconfig of their own.
    AuthenticationClient,
    /// The CAs of the API server for TokenReviews that have a kubeconfig of their own.
    AuthenticationCa,
    /// The client certificate for SubjectAccessReviews that have a kubeconfig of their own.
    AuthorizationClient,
    /// The CAs of the API server for SubjectAccessReviews that have a kubeconfig of their own.
    AuthorizationCa,
    /// The certificate of the secure port.
    Serving,
    /// The CAs that verify client certificates on the secure port.
    ClientCa,
    /// The CAs that verify certificates of front proxies on the secure port.
    FrontProxyCa,
}

impl CertificateUse {
    /// Returns the value of the label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::ApiServerClient => "api_server_client",
            Self::ApiServerCa => "api_server_ca",
            Self::AuthenticationClient => "authentication_client",
            Self::AuthenticationCa => "authentication_ca",
            Self::AuthorizationClient => "authorization_client",
            Self::AuthorizationCa => "authorization_ca",
            Self::Serving => "serving",
            Self::ClientCa => "client_ca",
            Self::FrontProxyCa => "front_proxy_ca",
        }
    }
}

impl fmt::Display for CertificateUse {
    /// Writes the purpose as it stands in a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiServerClient => "client certificate for the API server",
            Self::ApiServerCa => "CA of the API server",
            Self::AuthenticationClient => "client certificate of --authentication-kubeconfig",
            Self::AuthenticationCa => "CA of --authentication-kubeconfig",
            Self::AuthorizationClient => "client certificate of --authorization-kubeconfig",
            Self::AuthorizationCa => "CA of --authorization-kubeconfig",
            Self::Serving => "serving certificate",
            Self::ClientCa => "CA of client certificates",
            Self::FrontProxyCa => "CA of front proxies",
        })
    }
}

/// The place that a certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificatePlace {
    /// A file, which this process reads again.
    File(PathBuf),
    /// A field of the kubeconfig, which this process reads once.
    Kubeconfig(&'static str),
    /// A credential plugin, by its command. The client runs it again when its credential ends or
    /// the server refuses it.
    Plugin(String),
    /// A self-signed pair that this program has generated and stored.
    Stored {
        /// The file with the certificate.
        certificate: PathBuf,
        /// The file with its key.
        key: PathBuf,
    },
    /// The memory of this process, which makes another certificate before the end.
    Memory,
    /// A ConfigMap that kube-apiserver publishes and this process reads again.
    ConfigMap(&'static str),
}

impl CertificatePlace {
    /// Returns true if this process replaces the certificate by itself.
    fn is_renewed(&self) -> bool {
        matches!(self, Self::Plugin(_) | Self::Memory)
    }

    /// Tells a person how to replace the certificate.
    pub fn remedy(&self) -> String {
        match self {
            Self::File(_) => "replace the file; it is read again within a minute".to_owned(),
            Self::Kubeconfig(_) => {
                "make a new kubeconfig and restart this process; files that a kubeconfig names instead \
                 (client-certificate, client-key, certificate-authority) are read again without a restart"
                    .to_owned()
            }
            Self::Plugin(_) => "run the plugin by hand to see what it gives".to_owned(),
            Self::Stored { certificate, key } => {
                let (certificate, key) = (certificate.display(), key.display());
                format!("remove {certificate} and {key}, and restart this process")
            }
            Self::Memory => "restart this process".to_owned(),
            Self::ConfigMap(_) => {
                "replace the CA of kube-apiserver, which publishes it; it is read again within a minute"
                    .to_owned()
            }
        }
    }
}

impl fmt::Display for CertificatePlace {
    /// Writes the place as it stands after "in".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) | Self::Stored { certificate: path, .. } => path.display().fmt(f),
            Self::Kubeconfig(field) => write!(f, "{field} of the kubeconfig"),
            Self::Plugin(command) => write!(f, "the answer of the credential plugin {command}"),
            Self::Memory => f.write_str("the memory of this process"),
            Self::ConfigMap(name) => f.write_str(name),
        }
    }
}

/// The time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateLifetime {
    pub start: Timestamp,
    pub end: Timestamp,
}

impl CertificateLifetime {
    /// Returns the time in which all certificates of a chain are valid: a peer refuses the chain
    /// when the first of them ends.
    ///
    /// # Errors
    /// If one of them cannot be decoded. The text says why.
    pub fn of_chain<T: AsRef<[u8]>>(chain: &[T]) -> Result<Self, String> {
        let all =
            chain.iter().map(|certificate| Self::of(certificate.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let (starts, ends) = (all.iter().map(|it| it.start), all.iter().map(|it| it.end));
        starts.max().zip(ends.min()).map(|(start, end)| Self { start, end }).ok_or_else(none)
    }

    /// Returns the lifetime of the CA in a bundle that ends last: from then on the bundle verifies
    /// nothing. Other CAs end earlier whenever somebody replaces a CA, which says nothing about the
    /// certificates that the bundle verifies. CAs that cannot be decoded do not count.
    ///
    /// # Errors
    /// If the bundle has no CA that can be decoded. The text says why.
    pub fn of_bundle<T: AsRef<[u8]>>(bundle: &[T]) -> Result<Self, String> {
        let (mut last, mut failure) = (None::<Self>, None);
        for certificate in bundle {
            match Self::of(certificate.as_ref()) {
                Ok(lifetime) if last.is_none_or(|last| last.end < lifetime.end) => last = Some(lifetime),
                Ok(_) => {}
                Err(why) => failure = Some(why),
            }
        }
        last.ok_or_else(|| failure.unwrap_or_else(none))
    }

    fn of(certificate: &[u8]) -> Result<Self, String> {
        let decoded = Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        let validity = decoded.tbs_certificate().validity();
        let time = |time: x509_cert::time::Time| {
            let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
            Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
        };
        Ok(Self { start: time(validity.not_before), end: time(validity.not_after) })
    }
}

/// Returns why TLS connections cannot use a certificate, if its X.509 version is the reason: in
/// words that follow its name.
pub fn unusable_version(certificate: &[u8]) -> Option<String> {
    let version = match Certificate::from_der(certificate).ok()?.tbs_certificate().version() {
        Version::V1 => 1,
        Version::V2 => 2,
        Version::V3 => return None,
    };
    Some(format!(
        "is of X.509 version {version}, and only version 3 can be used; issue it again with an extension, such as \
         extendedKeyUsage (openssl x509 -req -extfile FILE)"
    ))
}

fn none() -> String {
    "there is no certificate".to_owned()
}

/// Returns the certificates in a text with PEM blocks, up to the first broken one.
pub(crate) fn in_pem(text: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(text).map_while(Result::ok).collect()
}

/// A certificate or a bundle of CAs that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInUse {
    pub usage: CertificateUse,
    /// The place that it comes from.
    pub place: CertificatePlace,
    /// The time in which it is valid, or the reason why that is unknown.
    pub lifetime: Result<CertificateLifetime, String>,
}

impl CertificateInUse {
    /// Returns the time by which a person should have replaced it: 30 days before its end, or a
    /// quarter of its life if that is less, so that a certificate that lives for a day is not
    /// overdue all day. If this process replaces it by itself, returns its end.
    pub fn replace_by(&self) -> Option<Timestamp> {
        let CertificateLifetime { start, end } = *self.lifetime.as_ref().ok()?;
        if self.place.is_renewed() {
            return Some(end);
        }
        let quarter = end.duration_since(start).max(SignedDuration::ZERO) / 4;
        Some(end - quarter.min(AHEAD))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// Returns a certificate that is valid from and to the first day of a year.
    fn certificate(from: i32, to: i32) -> Vec<u8> {
        let mut params = CertificateParams::default();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn lifetime(from: i32, to: i32) -> Result<CertificateLifetime, String> {
        let time = |year: i32| format!("{year}-01-01T00:00:00Z").parse().unwrap();
        Ok(CertificateLifetime { start: time(from), end: time(to) })
    }

    #[test]
    fn a_chain_ends_with_the_first_of_its_certificates() {
        let [leaf, intermediate, root] =
            [(2026, 2028), (2025, 2027), (2020, 2040)].map(|(from, to)| certificate(from, to));
        assert_eq!(CertificateLifetime::of_chain(&[&leaf]), lifetime(2026, 2028));
        assert_eq!(CertificateLifetime::of_chain(&[&leaf, &intermediate, &root]), lifetime(2026, 2027));
        assert!(CertificateLifetime::of_chain::<&[u8]>(&[]).unwrap_err().contains("no certificate"));
        assert!(CertificateLifetime::of_chain(&[&*leaf, b"garbage"]).is_err());
    }

    #[test]
    fn versions_other_than_3_are_unusable() {
        let old = in_pem(include_bytes!("tests/version-1.crt"));
        let why = unusable_version(&old[0]).unwrap();
        assert!(why.starts_with("is of X.509 version 1, and only version 3 can be used; "), "{why}");
        assert_eq!(unusable_version(&certificate(2026, 2028)), None);
        assert_eq!(unusable_version(b"garbage"), None);
        // Its lifetime is readable, so it may well be the CA of others.
        assert!(CertificateLifetime::of_chain(&old).is_ok());
    }

    #[test]
    fn a_bundle_ends_with_the_last_of_its_cas() {
        let [old, new] = [(2010, 2020), (2019, 2050)].map(|(from, to)| certificate(from, to));
        assert_eq!(CertificateLifetime::of_bundle(&[&old, &new]), lifetime(2019, 2050));
        assert_eq!(CertificateLifetime::of_bundle(&[&new, &old]), lifetime(2019, 2050));
        assert_eq!(CertificateLifetime::of_bundle(&[&*old, b"garbage"]), lifetime(2010, 2020));
        assert!(CertificateLifetime::of_bundle(&[b"garbage"]).is_err());
        assert!(CertificateLifetime::of_bundle::<&[u8]>(&[]).unwrap_err().contains("no certificate"));
    }

    #[test]
    fn the_farthest_end_is_a_time() {
        let forever = certificate(2020, 9999);
        assert_eq!(CertificateLifetime::of_chain(&[forever]), lifetime(2020, 9999));
    }

    #[test]
    fn a_certificate_is_cut_short_anywhere_without_a_panic() {
        let whole = certificate(2026, 2027);
        for length in 0..whole.len() {
            assert!(CertificateLifetime::of_chain(&[&whole[..length]]).is_err(), "{length}");
        }
    }

    #[test]
    fn text_around_pem_and_other_blocks_are_skipped() {
        let key = KeyPair::generate().unwrap();
        let pem = || CertificateParams::default().self_signed(&key).unwrap().pem();
        let text = format!("subject=a\n{}{}\nissuer=b\n{}bye", pem(), key.serialize_pem(), pem());
        assert_eq!(in_pem(text.as_bytes()).len(), 2);
        assert_eq!(
            in_pem(
                format!("{}-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n", pem()).as_bytes()
            )
            .len(),
            1
        );
        assert!(in_pem(b"garbage").is_empty());
    }

    #[test]
    fn a_certificate_is_to_be_replaced_30_days_or_a_quarter_of_its_life_before_its_end() {
        let check = |hours: i64, place: CertificatePlace, ahead: i64| {
            let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            let end = start + SignedDuration::from_hours(hours);
            let lifetime = Ok(CertificateLifetime { start, end });
            let used = CertificateInUse { usage: CertificateUse::Serving, place, lifetime };
            assert_eq!(used.replace_by(), Some(end - SignedDuration::from_hours(ahead)), "{used:?}");
        };
        let file = || CertificatePlace::File("/a".into());
        check(365 * 24, file(), 30 * 24);
        check(24, file(), 6);
        check(-24, file(), 0);
        check(365 * 24, CertificatePlace::Kubeconfig("client-certificate-data"), 30 * 24);
        check(24, CertificatePlace::Plugin("aws".to_owned()), 0);
        check(365 * 24, CertificatePlace::Memory, 0);
    }
}
