//! Records log messages.

use std::sync::Arc;

use parking_lot::Mutex;

/// Records the fields of each warning and error.
pub(crate) struct Log(pub(crate) Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(Vec<String>);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() != "retry_in" {
                    self.0.push(format!("{}={value:?}", field.name()));
                }
            }
        }
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        let level = if *event.metadata().level() == tracing::Level::ERROR { "ERROR " } else { "" };
        self.0.lock().push(format!("{level}{}", fields.0.join(" ")));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
