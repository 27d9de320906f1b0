//! Flags that select what a manager works on.

use clap::Args;

/// Flags that limit a manager to some namespaces or Services.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sharding")]
pub struct SelectionOptions {
    /// Namespaces to list and watch; default: all. Give each shard a Lease of its own
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub namespaces: Vec<String>,

    /// Label selector of the Services to sync, such as team=a,tier!=test; default: all
    #[arg(long, value_name = "SELECTOR")]
    pub service_selector: Option<String>,
}
