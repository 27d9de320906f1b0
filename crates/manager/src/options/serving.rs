//! Flags of serving metrics, health and status over HTTPS, and of access to them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::values::{boolean, path, whole};
use crate::go_duration;

/// Flags of serving. All but the default of the port are kube-controller-manager's.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Secure serving")]
pub struct ServingOptions {
    /// Port for metrics, health and status over HTTPS; 0 serves nothing
    /// [default: 10270; 0 with --embedded]
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>)]
    pub secure_port: Option<u16>,

    /// IP address to listen on; 0.0.0.0 and :: listen on all addresses of both families
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,

    /// Certificate (PEM), followed by the certificates of intermediate authorities; self-signed by
    /// default
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key (PEM) of --tls-cert-file
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub tls_private_key_file: Option<PathBuf>,

    /// Directory for the self-signed certificate; default: the program keeps it in memory
    #[arg(long, value_name = "DIRECTORY", value_parser = path())]
    pub cert_dir: Option<PathBuf>,

    /// Lowest TLS version: VersionTLS12 or VersionTLS13 [default: VersionTLS12]
    #[arg(long, value_name = "VERSION")]
    pub tls_min_version: Option<String>,

    /// Cipher suites of TLS 1.2, by their names in Go; default: all that this program has
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tls_cipher_suites: Vec<String>,

    /// Turn HTTP/2 off
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false, value_parser = boolean,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub disable_http2_serving: bool,

    /// Maximum number of concurrent requests on one HTTP/2 connection; 0 means the default of this
    /// program
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u32>)]
    pub http2_max_streams_per_connection: u32,
}

/// Flags of authentication and authorization of the clients of the secure port.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Authentication and authorization")]
pub struct AuthOptions {
    /// Certificate authorities (PEM) of client certificates; the common name is the user; default:
    /// the cluster's
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub client_ca_file: Option<PathBuf>,

    /// Kubeconfig for TokenReviews; default: the connection of the controllers
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub authentication_kubeconfig: Option<PathBuf>,

    /// Do not read certificate authorities from the cluster's ConfigMap
    /// kube-system/extension-apiserver-authentication
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false, value_parser = boolean,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub authentication_skip_lookup: bool,

    /// How long the program remembers the answer to a TokenReview
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration::parse)]
    pub authentication_token_webhook_cache_ttl: Duration,

    /// Accepted for compatibility: if the program cannot read the cluster's certificate
    /// authorities, it always serves without them
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false, value_parser = boolean,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub authentication_tolerate_lookup_failure: bool,

    /// Certificate authorities (PEM) of front proxies, whose headers name the user; default: the
    /// cluster's, which also says which headers count
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub requestheader_client_ca_file: Option<PathBuf>,

    /// Common names of front proxies' certificates; default: all that
    /// --requestheader-client-ca-file has signed
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,

    /// Headers in which a front proxy of --requestheader-client-ca-file names the user
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-user")]
    pub requestheader_username_headers: Vec<String>,

    /// Headers with the uid of the user
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_uid_headers: Vec<String>,

    /// Headers with the groups of the user
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-group")]
    pub requestheader_group_headers: Vec<String>,

    /// Beginnings of headers with extra attributes of the user
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-extra-")]
    pub requestheader_extra_headers_prefix: Vec<String>,

    /// Paths that anyone may read; a path that ends in * stands for all that begin with it
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    pub authorization_always_allow_paths: Vec<String>,

    /// Kubeconfig for SubjectAccessReviews; default: the connection of the controllers
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub authorization_kubeconfig: Option<PathBuf>,

    /// How long the program remembers that a request is allowed
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration::parse)]
    pub authorization_webhook_cache_authorized_ttl: Duration,

    /// How long the program remembers that a request is not allowed
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration::parse)]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,
}
