//! Captures the log of a test.

use std::io::{Result, Write};
use std::mem::take;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Level};

/// The log of the current thread, without times, from [`Log::capture`] until this is dropped.
pub struct Log {
    text: Arc<Mutex<Vec<u8>>>,
    _current: DefaultGuard,
}

impl Log {
    /// Captures the events of this level and above.
    pub fn capture(level: Level) -> Self {
        // While there is only one subscriber, tracing asks the thread that comes first to a line
        // whether anybody listens, and that may be the thread of another test.
        static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&SECOND);
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let writer = Arc::clone(&text);
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(move || Writer(Arc::clone(&writer)))
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .finish();
        Self { text, _current: set_default(subscriber) }
    }

    /// Returns the log since the last [`Log::take`].
    pub fn text(&self) -> String {
        text(self.text.lock().expect("no writer panics").clone())
    }

    /// Takes the log, so that it begins anew.
    pub fn take(&self) -> String {
        text(take(&mut *self.text.lock().expect("no writer panics")))
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("a log is text")
}

struct Writer(Arc<Mutex<Vec<u8>>>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
