//! Flags of the connection to the API server.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use kube_endpoint_api_client::ContentType;

use super::values::{boolean, content_type, number, path, whole};

/// Flags of the connection to the API server, as in kube-controller-manager.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "API server")]
pub struct ApiServerOptions {
    /// Path of the kubeconfig; default: $KUBECONFIG, ~/.kube/config or the pod's service account
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub kubeconfig: Option<PathBuf>,

    /// URL of the API server, such as https://10.0.0.1:6443; overrides that of the kubeconfig or
    /// the service account
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// Requests per second to the API server, per controller; 0 means 5, negative means no limit
    #[arg(long, value_name = "RATE", default_value_t = 20.0, allow_negative_numbers = true, value_parser = number)]
    pub kube_api_qps: f64,

    /// Burst of requests to the API server, per controller; with --kube-api-qps=0, 0 means 10
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = whole::<u32>)]
    pub kube_api_burst: u32,

    /// Encoding of requests to the API server: application/vnd.kubernetes.protobuf or
    /// application/json
    #[arg(long, value_name = "TYPE", default_value = ContentType::Protobuf.as_str(), value_parser = content_type)]
    pub kube_api_content_type: ContentType,

    /// Write nothing, take no Lease and send no event; log objects that the controllers would write
    /// and that still differ after 30 s
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false, value_parser = boolean,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub dry_run: bool,
}
