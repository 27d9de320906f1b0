//! Flags of logs and traces.

use clap::Args;

use super::values::whole;

/// Flags of logs and traces.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logs and traces")]
pub struct LoggingOptions {
    /// Log level: 0 to 3 info (with --embedded, 0 is warnings only), 4 and 5 debug, 6 and more
    /// trace; RUST_LOG overrides it
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, value_parser = whole::<u8>)]
    pub verbosity: u8,

    /// Format of the log on standard error: `text`, or `json` with one object per line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub logging_format: String,

    /// Address of an OpenTelemetry collector for traces over OTLP, such as http://127.0.0.1:4317;
    /// default: no traces
    #[arg(long, value_name = "URL")]
    pub tracing_endpoint: Option<String>,

    /// How many of a million syncs the program traces
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = whole::<u32>)]
    pub tracing_sampling_rate_per_million: u32,
}
