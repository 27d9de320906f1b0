//! Settings of traces and of the log.

use super::error::{InvalidOption, in_range};
use crate::options::LoggingOptions;

/// The collector of traces, and the share of syncs that have some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingSettings {
    /// The URL of the collector, with scheme `http` or `https`.
    pub endpoint: String,
    /// Number of syncs in a million that have a trace.
    pub sampling_rate_per_million: u32,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoggingFormat {
    /// Lines for people.
    #[default]
    Text,
    Json,
}

impl TracingSettings {
    /// Returns the settings of `--tracing-endpoint`, or `None` without it.
    pub(super) fn new(options: &LoggingOptions) -> Result<Option<Self>, InvalidOption> {
        let Some(given) = options.tracing_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) else {
            return Ok(None);
        };
        // The address in kube-apiserver's tracing configuration has no scheme, and it uses it
        // without TLS.
        let endpoint = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
        let is_http = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
        let authority = is_http.and_then(|rest| rest.split('/').next());
        if authority.is_none_or(str::is_empty) || endpoint.contains(char::is_whitespace) {
            let why = "write the URL of an OpenTelemetry collector, such as http://127.0.0.1:4317";
            return Err(InvalidOption::new("--tracing-endpoint", given, why));
        }
        let rate = options.tracing_sampling_rate_per_million;
        let rate = in_range("--tracing-sampling-rate-per-million", rate, 0, 1_000_000)?;
        Ok(Some(Self { endpoint, sampling_rate_per_million: rate }))
    }
}

impl LoggingFormat {
    /// Parses the value of `--logging-format`.
    ///
    /// # Errors
    ///
    /// If it is neither `text` nor `json`.
    pub fn new(options: &LoggingOptions) -> Result<Self, InvalidOption> {
        match &*options.logging_format {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(InvalidOption::new("--logging-format", other, "write text or json")),
        }
    }
}
