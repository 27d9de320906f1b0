//! Captures the log of a test.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// The log of the current thread since [`capture`].
pub(crate) struct Captured {
    text: Arc<Mutex<Vec<u8>>>,
    _current: DefaultGuard,
}

/// Captures the events that the current thread logs at info and above.
pub(crate) fn capture() -> Captured {
    let text = Arc::new(Mutex::new(Vec::new()));
    let subscriber = tracing_subscriber::fmt()
        .with_writer(Shared(Arc::clone(&text)))
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .finish();
    Captured { text, _current: tracing::subscriber::set_default(subscriber) }
}

impl Captured {
    /// Returns the log, without times.
    pub(crate) fn lines(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Shared {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
