//! Settings of serving metrics, health and status over HTTPS.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use kube_endpoint_serving::{
    CipherSuites, FrontProxyOptions, InvalidTlsOption, OpenPaths, RequestHeaders, TlsVersion,
};

use super::error::InvalidOption;
use crate::options::{AuthOptions, ServingOptions};

/// The settings of the HTTPS server, and of access to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServingSettings {
    /// The address to listen on. An unspecified address stands for all addresses of both families.
    pub bind_address: IpAddr,
    pub port: u16,
    /// The certificate and its chain. `None` stands for a self-signed certificate. Set it if and
    /// only if you set `key_file`.
    pub cert_file: Option<PathBuf>,
    /// The private key of `cert_file`.
    pub key_file: Option<PathBuf>,
    /// The directory that keeps a self-signed certificate. `None` keeps it in memory.
    pub cert_dir: Option<PathBuf>,
    /// The lowest TLS version that clients may use.
    pub min_tls_version: TlsVersion,
    /// The cipher suites of TLS 1.2 that clients may use.
    pub cipher_suites: CipherSuites,
    /// True if clients may use HTTP/2.
    pub http2: bool,
    /// Maximum number of concurrent requests on one HTTP/2 connection. `None` stands for the
    /// default.
    pub http2_max_streams_per_connection: Option<u32>,
    /// Authorities of client certificates, instead of those that the cluster publishes.
    pub client_ca_file: Option<PathBuf>,
    /// The CA and the headers of a front proxy, which names users in headers. They replace those
    /// that the cluster publishes.
    pub front_proxy: Option<FrontProxyOptions>,
    /// Paths that anyone may read.
    pub always_allow_paths: OpenPaths,
    /// The kubeconfig for TokenReviews. `None` stands for the connection of the controllers.
    pub authentication_kubeconfig: Option<PathBuf>,
    /// True if the server ignores the authorities and headers that the cluster publishes (ConfigMap
    /// `kube-system/extension-apiserver-authentication`).
    pub authentication_skip_lookup: bool,
    /// Without effect, and accepted for compatibility: the server always goes on without the
    /// cluster's client authorities when it cannot read them.
    pub authentication_tolerate_lookup_failure: bool,
    /// The time for which the server caches the answer to a TokenReview.
    pub token_cache_ttl: Duration,
    /// The kubeconfig for SubjectAccessReviews. `None` stands for the connection of the
    /// controllers.
    pub authorization_kubeconfig: Option<PathBuf>,
    /// The time for which the server caches the answer that a request is allowed.
    pub authorized_cache_ttl: Duration,
    /// The time for which the server caches the answer that a request is not allowed.
    pub unauthorized_cache_ttl: Duration,
}

impl ServingSettings {
    /// Returns kube-controller-manager's defaults on this port.
    pub fn on_port(port: u16) -> Self {
        Self {
            bind_address: IpAddr::from([0, 0, 0, 0]),
            port,
            cert_file: None,
            key_file: None,
            cert_dir: None,
            min_tls_version: TlsVersion::default(),
            cipher_suites: CipherSuites::default(),
            http2: true,
            http2_max_streams_per_connection: None,
            client_ca_file: None,
            front_proxy: None,
            always_allow_paths: OpenPaths::default(),
            authentication_kubeconfig: None,
            authentication_skip_lookup: false,
            authentication_tolerate_lookup_failure: false,
            token_cache_ttl: Duration::from_secs(10),
            authorization_kubeconfig: None,
            authorized_cache_ttl: Duration::from_secs(10),
            unauthorized_cache_ttl: Duration::from_secs(10),
        }
    }

    /// Validates the flags. This does not read their files yet.
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
            front_proxy: front_proxy(auth)?,
            always_allow_paths: open_paths(&auth.authorization_always_allow_paths)?,
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

/// Returns the front proxy, if the flags name its CA. As in upstream, the other flags change
/// nothing without it.
fn front_proxy(auth: &AuthOptions) -> Result<Option<FrontProxyOptions>, InvalidOption> {
    let list = |option: &str, values: &[String]| {
        let values: Vec<String> = values.iter().map(|value| value.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(InvalidOption::new(option, values.join(","), "a value is empty"));
        }
        Ok(values)
    };
    let headers = RequestHeaders {
        username: list("--requestheader-username-headers", &auth.requestheader_username_headers)?,
        uid: list("--requestheader-uid-headers", &auth.requestheader_uid_headers)?,
        group: list("--requestheader-group-headers", &auth.requestheader_group_headers)?,
        extra_prefixes: list(
            "--requestheader-extra-headers-prefix",
            &auth.requestheader_extra_headers_prefix,
        )?,
        allowed_names: list("--requestheader-allowed-names", &auth.requestheader_allowed_names)?,
    };
    let file = auth.requestheader_client_ca_file.clone();
    Ok(file.map(|client_ca_file| FrontProxyOptions { client_ca_file, headers }))
}

fn min_tls_version(name: &str) -> Result<TlsVersion, InvalidOption> {
    if let "VersionTLS10" | "VersionTLS11" = name {
        tracing::warn!(
            version = name,
            "--tls-min-version is ignored: the lowest TLS version of this program is VersionTLS12"
        );
        return Ok(TlsVersion::V12);
    }
    let why = "write VersionTLS12 or VersionTLS13";
    name.parse().map_err(|_| InvalidOption::new("--tls-min-version", name, why))
}

fn cipher_suites(names: &[String]) -> Result<CipherSuites, InvalidOption> {
    let names: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    let suites = CipherSuites::parse(&names).map_err(|error| {
        let (value, what) = match error {
            InvalidTlsOption::NoSuite { names } => (names, "none of these is available"),
            InvalidTlsOption::UnknownSuite { name } | InvalidTlsOption::Version(name) => {
                (name, "unknown cipher suite")
            }
        };
        let why = format!("{what}; the suites are {}", CipherSuites::supported().join(", "));
        InvalidOption::new("--tls-cipher-suites", value, why)
    })?;
    for suite in suites.ignored() {
        tracing::warn!(suite, "a cipher suite is ignored: this program does not have it");
    }
    Ok(suites)
}

fn open_paths(paths: &[String]) -> Result<OpenPaths, InvalidOption> {
    let paths: Vec<&String> = paths.iter().filter(|path| !path.is_empty()).collect();
    let why = "only the last character of a path may be *";
    OpenPaths::parse(&paths)
        .map_err(|invalid| InvalidOption::new("--authorization-always-allow-paths", invalid.path(), why))
}
