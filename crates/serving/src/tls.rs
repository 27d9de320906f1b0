//! TLS versions and cipher suites by Go's names, and the TLS configuration.

use std::str::FromStr;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{CipherSuite, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use crate::client_ca::AnyClientCertificate;
use crate::error::ServingError;

/// An invalid value of a TLS option. `Display` lists the valid values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTlsOption {
    /// The name is not that of a version that can be the minimum.
    #[error(
        "invalid TLS version {0:?}: it must be VersionTLS12 or VersionTLS13; this program does not speak older versions"
    )]
    Version(String),
    #[error("unknown cipher suite {name:?}; the suites are {}", CipherSuites::supported().join(", "))]
    UnknownSuite { name: String },
    /// All names are known, but none is available.
    #[error("none of {names} is available; the suites are {}", CipherSuites::supported().join(", "))]
    NoSuite { names: String },
}

/// The minimum TLS version that clients must speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    #[default]
    V12,
    V13,
}

impl FromStr for TlsVersion {
    type Err = InvalidTlsOption;

    /// Parses Go's name of the version. The empty string means the default.
    fn from_str(name: &str) -> Result<Self, InvalidTlsOption> {
        match name {
            "" | "VersionTLS12" => Ok(Self::V12),
            "VersionTLS13" => Ok(Self::V13),
            _ => Err(InvalidTlsOption::Version(name.to_owned())),
        }
    }
}

impl TlsVersion {
    /// Go's name of the version.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V12 => "VersionTLS12",
            Self::V13 => "VersionTLS13",
        }
    }
}

/// Go's names for the suites that rustls supports.
const SUPPORTED: [(&str, CipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Suites that kube-controller-manager accepts (Go's `crypto/tls` knows them) and rustls does not
/// support.
const ONLY_IN_GO: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// The cipher suites that clients may use. The default is every suite that rustls supports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CipherSuites {
    allowed: Option<Vec<CipherSuite>>,
    ignored: Vec<String>,
}

impl CipherSuites {
    /// Parses Go's names. As in Go, the names limit TLS 1.2 only; all suites of TLS 1.3 stay
    /// allowed. An empty list is the default.
    ///
    /// # Errors
    ///
    /// [`InvalidTlsOption`] if a name is unknown, or if Go knows all names but this program
    /// supports none of them.
    pub fn parse<T: AsRef<str>>(names: &[T]) -> Result<Self, InvalidTlsOption> {
        let (mut allowed, mut ignored) = (Vec::new(), Vec::new());
        for name in names.iter().map(AsRef::as_ref) {
            if let Some((_, suite)) = SUPPORTED.iter().find(|(supported, _)| *supported == name) {
                allowed.push(*suite);
            } else if ONLY_IN_GO.contains(&name) {
                ignored.push(name.to_owned());
            } else {
                return Err(InvalidTlsOption::UnknownSuite { name: name.to_owned() });
            }
        }
        match (allowed.is_empty(), ignored.is_empty()) {
            (true, true) => Ok(Self::default()),
            (true, false) => Err(InvalidTlsOption::NoSuite { names: ignored.join(", ") }),
            (false, _) => Ok(Self { allowed: Some(allowed), ignored }),
        }
    }

    /// Returns Go's names of the suites that rustls supports.
    pub fn supported() -> Vec<&'static str> {
        SUPPORTED.iter().map(|(name, _)| *name).collect()
    }

    /// Returns Go's names of the allowed suites, besides those of TLS 1.3, or `None` if all are
    /// allowed.
    pub fn allowed(&self) -> Option<Vec<&'static str>> {
        let name = |suite| SUPPORTED.iter().find(|(_, supported)| *supported == suite).map(|(name, _)| *name);
        Some(self.allowed.as_ref()?.iter().filter_map(|suite| name(*suite)).collect())
    }

    /// Returns the names that Go knows and this program does not support. They have no effect; the
    /// caller should warn.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    fn allows(&self, suite: &SupportedCipherSuite) -> bool {
        suite.tls13().is_some()
            || self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&suite.suite()))
    }
}

/// Returns the cryptography of the server, limited to the suites.
pub(crate) fn provider(suites: &CipherSuites) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|suite| suites.allows(suite));
    Arc::new(provider)
}

/// Returns the configuration of all TLS connections. Each connection takes its certificate from
/// `certificates`.
///
/// # Errors
/// [`ServingError::Tls`] if no cipher suite is left for the versions.
pub(crate) fn server_config(
    provider: &Arc<CryptoProvider>,
    minimum: TlsVersion,
    certificates: Arc<dyn ResolvesServerCert>,
    time: Arc<dyn TimeProvider>,
) -> Result<ServerConfig, ServingError> {
    let versions: &[&SupportedProtocolVersion] = match minimum {
        TlsVersion::V12 if provider.cipher_suites.iter().any(|suite| suite.tls13().is_none()) => {
            &[&TLS13, &TLS12]
        }
        // If only suites of TLS 1.3 were named, TLS 1.2 has none.
        TlsVersion::V12 | TlsVersion::V13 => &[&TLS13],
    };
    let mut config = ServerConfig::builder_with_details(Arc::clone(provider), time)
        .with_protocol_versions(versions)
        .map_err(|error| ServingError::Tls(error.to_string()))?
        .with_client_cert_verifier(Arc::new(AnyClientCertificate::new(provider)))
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Sessions would take memory for clients that have not authenticated, and few clients come back
    // to resume one.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_gos_names() {
        for version in [TlsVersion::V12, TlsVersion::V13] {
            assert_eq!(version.as_str().parse(), Ok(version));
        }
        assert_eq!("".parse(), Ok(TlsVersion::V12));
        for name in ["VersionTLS10", "VersionTLS11", "VersionTLS14", "1.2", "versiontls12"] {
            let error = name.parse::<TlsVersion>().unwrap_err().to_string();
            assert!(error.contains("VersionTLS12 or VersionTLS13"), "{error}");
        }
    }

    #[test]
    fn every_suite_of_rustls_has_a_name() {
        let named: Vec<_> = SUPPORTED.iter().map(|(_, suite)| *suite).collect();
        for suite in ring::default_provider().cipher_suites {
            assert!(named.contains(&suite.suite()), "{suite:?}");
        }
    }

    #[test]
    fn names_limit_only_tls_12() {
        let check = |names: &[&str], expected: usize, ignored: &[&str]| {
            let suites = CipherSuites::parse(names).unwrap();
            assert_eq!(provider(&suites).cipher_suites.len(), expected, "{names:?}");
            assert_eq!(suites.ignored(), ignored);
        };
        check(&[], 9, &[]);
        check(&["TLS_AES_128_GCM_SHA256"], 3, &[]);
        check(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], 4, &[]);
        check(
            &["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_RSA_WITH_AES_128_CBC_SHA"],
            4,
            &["TLS_RSA_WITH_AES_128_CBC_SHA"],
        );
    }

    #[test]
    fn errors_list_the_supported_suites() {
        let errors = [&["TLS_ECDHE_RSA_WITH_AES_128_GCM"][..], &["TLS_RSA_WITH_RC4_128_SHA"], &[""]]
            .map(|names| CipherSuites::parse(names).unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"));
    }
}
