//! Flags that select the part of the cluster that a manager works on.

use clap::Args;

/// Flags that limit a manager to some namespaces or Services.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Part of the cluster")]
pub struct SelectionOptions {
    /// Namespaces to list and watch; default: all. The default name of the Lease gets them as a
    /// suffix
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub namespaces: Vec<String>,

    /// Label selector of the Services to sync, such as team=a,tier!=test; default: all
    #[arg(long, value_name = "SELECTOR")]
    pub service_selector: Option<String>,
}
