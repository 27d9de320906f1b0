//! Flags that select the part of the cluster that a manager works on.

use clap::Args;

/// Flags that limit a manager to some namespaces or Services.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sharding")]
pub struct SelectionOptions {
    /// Namespaces to list and watch; default: all. The default name of the Lease gets them as a
    /// suffix
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub namespaces: Vec<String>,

    /// Label selector of the Services to sync, such as team=a,tier!=test; default: all
    #[arg(long, value_name = "SELECTOR")]
    pub service_selector: Option<String>,

    /// The shard of the namespaces to work on, as INDEX/COUNT: 0/2 and 1/2 divide them by the hash
    /// of their names
    #[arg(long, value_name = "INDEX/COUNT")]
    pub shard: Option<String>,
}
