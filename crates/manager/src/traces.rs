//! Traces of the process: sent over OTLP if they are asked for and the build has the feature
//! `otlp`.

#[cfg(feature = "otlp")]
mod otlp;

use std::time::Duration;

use crate::settings::TracingSettings;

/// Traces cannot be sent. Nothing has been started.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// The endpoint cannot be used.
    #[error(
        "cannot send traces to {endpoint}: {why}; give the address of a collector that speaks OTLP over gRPC"
    )]
    Endpoint { endpoint: String, why: String },
    /// The build has no OTLP.
    #[error(
        "this program was built without traces; build it with the feature otlp, or leave out --tracing-endpoint"
    )]
    NotBuiltIn,
}

/// What sends the traces of the process.
#[derive(Debug)]
pub struct Traces {
    #[cfg(feature = "otlp")]
    sender: Option<otlp::OtlpTraces>,
}

impl Traces {
    /// Starts to send traces; without settings it does nothing. Controllers that are built from now
    /// on are traced, and their requests carry the trace context in the header `traceparent`.
    /// Whether a collector answers is not tried. Must be called within a tokio runtime; metrics are
    /// registered with the current recorder.
    ///
    /// # Errors
    ///
    /// When the endpoint cannot be used.
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

/// Traces without a collector, which are not those of the process.
#[cfg(all(test, feature = "otlp"))]
pub(crate) fn without_collector() -> Result<Traces, TracingError> {
    let endpoint = "http://192.0.2.1:4317".to_owned();
    let sender = otlp::OtlpTraces::start(&TracingSettings { endpoint, sampling_rate_per_million: 0 })?;
    Ok(Traces { sender: Some(sender) })
}
