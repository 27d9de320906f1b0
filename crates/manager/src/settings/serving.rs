//! Settings of serving metrics, health and status over HTTPS.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::error::InvalidOption;
use crate::options::{AuthOptions, ServingOptions};

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V12,
    /// TLS 1.3.
    V13,
}

impl TlsVersion {
    /// The name in `--tls-min-version`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V12 => "VersionTLS12",
            Self::V13 => "VersionTLS13",
        }
    }
}

/// Cipher suites that can be selected, by their names in Go. Those of TLS 1.3 are always on, as in Go.
const CIPHER_SUITES: [&str; 6] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// Cipher suites of TLS 1.3.
const TLS13_CIPHER_SUITES: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// Cipher suites that kube-controller-manager accepts and this program does not have: they use CBC, RC4, 3DES, or a key
/// exchange without forward secrecy.
const WEAK_CIPHER_SUITES: [&str; 14] = [
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
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
];

/// What is served over HTTPS, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServingSettings {
    /// The address to listen on. An unspecified address stands for all addresses of both families.
    pub bind_address: IpAddr,
    /// The port to listen on.
    pub port: u16,
    /// The certificate and its chain. None stands for a self-signed certificate. Given exactly if `key_file` is.
    pub cert_file: Option<PathBuf>,
    /// The private key of `cert_file`.
    pub key_file: Option<PathBuf>,
    /// The directory in which a self-signed certificate is kept. None keeps it in memory.
    pub cert_dir: Option<PathBuf>,
    /// The lowest TLS version that clients may use.
    pub min_tls_version: TlsVersion,
    /// The cipher suites of TLS 1.2 that clients may use, by their names in Go. Empty stands for all.
    pub cipher_suites: Vec<&'static str>,
    /// Whether clients may use HTTP/2.
    pub http2: bool,
    /// Maximum number of concurrent requests on one HTTP/2 connection; none stands for the default.
    pub http2_max_streams_per_connection: Option<u32>,
    /// Authorities of client certificates, besides those that the cluster publishes.
    pub client_ca_file: Option<PathBuf>,
    /// Paths that anyone may read. One that ends in `*` stands for all paths that begin with the rest.
    pub always_allow_paths: Vec<String>,
    /// The kubeconfig for TokenReviews. None stands for the connection of the controllers.
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Whether the cluster's client authorities (ConfigMap `kube-system/extension-apiserver-authentication`) are not used.
    pub authentication_skip_lookup: bool,
    /// Whether serving goes on when the cluster's client authorities cannot be read.
    pub authentication_tolerate_lookup_failure: bool,
    /// How long the answer to a TokenReview is cached.
    pub token_cache_ttl: Duration,
    /// The kubeconfig for SubjectAccessReviews. None stands for the connection of the controllers.
    pub authorization_kubeconfig: Option<PathBuf>,
    /// How long the answer that a request is allowed is cached.
    pub authorized_cache_ttl: Duration,
    /// How long the answer that a request is not allowed is cached.
    pub unauthorized_cache_ttl: Duration,
}

impl ServingSettings {
    /// kube-controller-manager's defaults on this port.
    pub fn on_port(port: u16) -> Self {
        Self {
            bind_address: IpAddr::from([0, 0, 0, 0]),
            port,
            cert_file: None,
            key_file: None,
            cert_dir: None,
            min_tls_version: TlsVersion::default(),
            cipher_suites: Vec::new(),
            http2: true,
            http2_max_streams_per_connection: None,
            client_ca_file: None,
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            authentication_kubeconfig: None,
            authentication_skip_lookup: false,
            authentication_tolerate_lookup_failure: false,
            token_cache_ttl: Duration::from_secs(10),
            authorization_kubeconfig: None,
            authorized_cache_ttl: Duration::from_secs(10),
            unauthorized_cache_ttl: Duration::from_secs(10),
        }
    }

    /// Validates the flags. Nothing is read from files yet.
    pub(super) fn new(
        port: u16,
        options: &ServingOptions,
        auth: &AuthOptions,
    ) -> Result<Self, InvalidOption> {
        match (&options.tls_cert_file, &options.tls_private_key_file) {
            (Some(file), None) => {
                let why = "it needs --tls-private-key-file";
                return Err(InvalidOption::new("--tls-cert-file", file.display(), why));
            }
            (None, Some(file)) => {
                let why = "it needs --tls-cert-file";
                return Err(InvalidOption::new("--tls-private-key-file", file.display(), why));
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        let paths = &auth.authorization_always_allow_paths;
        if let Some(path) = paths.iter().find(|path| path.trim_end_matches('*').contains('*')) {
            let why = "only the last character of a path may be *";
            return Err(InvalidOption::new("--authorization-always-allow-paths", path, why));
        }
        let streams = options.http2_max_streams_per_connection;
        Ok(Self {
            bind_address: options.bind_address,
            cert_file: options.tls_cert_file.clone(),
            key_file: options.tls_private_key_file.clone(),
            cert_dir: options.cert_dir.clone(),
            min_tls_version: min_tls_version(options.tls_min_version.as_deref().unwrap_or_default())?,
            cipher_suites: cipher_suites(&options.tls_cipher_suites)?,
            http2: !options.disable_http2_serving,
            http2_max_streams_per_connection: (streams > 0).then_some(streams),
            client_ca_file: auth.client_ca_file.clone(),
            // A leading slash is optional upstream.
            always_allow_paths: paths
                .iter()
                .filter(|path| !path.is_empty())
                .map(|path| format!("/{}", path.trim_start_matches('/')))
                .collect(),
            authentication_kubeconfig: auth.authentication_kubeconfig.clone(),
            authentication_skip_lookup: auth.authentication_skip_lookup,
            authentication_tolerate_lookup_failure: auth.authentication_tolerate_lookup_failure,
            token_cache_ttl: auth.authentication_token_webhook_cache_ttl,
            authorization_kubeconfig: auth.authorization_kubeconfig.clone(),
            authorized_cache_ttl: auth.authorization_webhook_cache_authorized_ttl,
            unauthorized_cache_ttl: auth.authorization_webhook_cache_unauthorized_ttl,
            ..Self::on_port(port)
        })
    }
}

fn min_tls_version(name: &str) -> Result<TlsVersion, InvalidOption> {
    match name {
        "" | "VersionTLS12" => Ok(TlsVersion::V12),
        "VersionTLS13" => Ok(TlsVersion::V13),
        "VersionTLS10" | "VersionTLS11" => {
            tracing::warn!(
                version = name,
                "--tls-min-version is ignored: the lowest TLS version of this program is VersionTLS12"
            );
            Ok(TlsVersion::V12)
        }
        other => {
            let why = "write VersionTLS12 or VersionTLS13";
            Err(InvalidOption::new("--tls-min-version", other, why))
        }
    }
}

fn cipher_suites(names: &[String]) -> Result<Vec<&'static str>, InvalidOption> {
    let option = "--tls-cipher-suites";
    let mut suites = Vec::new();
    for name in names.iter().filter(|name| !name.is_empty()) {
        // Go has these two under a second name, without the hash.
        let full = match name.strip_suffix("_CHACHA20_POLY1305") {
            Some(_) => format!("{name}_SHA256"),
            None => name.clone(),
        };
        if let Some(known) = CIPHER_SUITES.iter().find(|known| **known == full) {
            suites.push(*known);
        } else if WEAK_CIPHER_SUITES.contains(&&*full) {
            tracing::warn!(suite = name, "a cipher suite is ignored: this program does not have it");
        } else if !TLS13_CIPHER_SUITES.contains(&&*full) {
            let why = format!("unknown cipher suite; the suites are {}", CIPHER_SUITES.join(", "));
            return Err(InvalidOption::new(option, name, why));
        }
    }
    if suites.is_empty()
        && !names.iter().all(|name| TLS13_CIPHER_SUITES.contains(&&**name) || name.is_empty())
    {
        let why = format!("none of these is available; the suites are {}", CIPHER_SUITES.join(", "));
        return Err(InvalidOption::new(option, names.join(","), why));
    }
    Ok(suites)
}
