//! Sends traces of the process over OTLP, if the build has the feature `otlp` and the settings ask
//! for traces.

#[cfg(feature = "otlp")]
mod otlp;

use std::time::Duration;

use crate::settings::TracingSettings;

/// The error of traces that cannot be sent. No task has started.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// The endpoint is not usable.
    #[error(
        "cannot send traces to {endpoint}: {why}; give the address of a collector that speaks OTLP over gRPC"
    )]
    Endpoint { endpoint: String, why: String },
    /// The build lacks the feature `otlp`.
    #[error(
        "this program was built without traces; build it with the feature otlp, or leave out --tracing-endpoint"
    )]
    NotBuiltIn,
}

/// Sends the traces of the process.
#[derive(Debug)]
pub struct Traces {
    #[cfg(feature = "otlp")]
    sender: Option<otlp::OtlpTraces>,
}

impl Traces {
    /// Starts to send traces. Without settings this does nothing. Later controllers have traces,
    /// and their requests carry the trace context in the header `traceparent`. This does not
    /// contact the collector. It registers metrics with the current recorder. Call it within a
    /// tokio runtime.
    ///
    /// # Errors
    ///
    /// If the endpoint is not usable, or the build lacks the feature `otlp`.
    pub fn start(settings: Option<&TracingSettings>) -> Result<Self, TracingError> {
        #[cfg(feature = "otlp")]
        {
            let sender = settings.map(otlp::OtlpTraces::start).transpose()?;
            if let Some(sender) = &sender {
                sender.install();
            }
            Ok(Self { sender })
        }
        #[cfg(not(feature = "otlp"))]
        settings.map_or(Ok(Self {}), |_| Err(TracingError::NotBuiltIn))
    }

    /// Sends the spans that have ended, for `timeout` at most.
    pub async fn shut_down(self, timeout: Duration) {
        #[cfg(feature = "otlp")]
        if let Some(sender) = self.sender {
            sender.shut_down(timeout).await;
        }
        #[cfg(not(feature = "otlp"))]
        let _ = timeout;
    }
}

/// Returns traces without a collector, and does not make them those of the process.
#[cfg(all(test, feature = "otlp"))]
pub(crate) fn without_collector() -> Result<Traces, TracingError> {
    let endpoint = "http://192.0.2.1:4317".to_owned();
    let sender = otlp::OtlpTraces::start(&TracingSettings { endpoint, sampling_rate_per_million: 0 })?;
    Ok(Traces { sender: Some(sender) })
}
