//! A stream whose client must read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Fails if written data has not all left the process within a time limit: so the server cuts off a
/// client that reads one byte at a time like one that reads nothing.
pub(crate) struct TimedIo<T> {
    inner: T,
    limit: Duration,
    /// Set while data waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> TimedIo<T> {
    pub(crate) fn new(inner: T, limit: Duration) -> Self {
        Self { inner, limit, deadline: None }
    }

    /// Fails if the data has waited too long; otherwise wakes the task when it has.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let late = self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready());
        if late {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads too slowly"));
        }
        Ok(())
    }

    fn wait(&mut self) {
        let limit = self.limit;
        self.deadline.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimedIo<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimedIo<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.wait();
        this.check(cx)?;
        Pin::new(&mut this.inner).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        match flushed {
            Poll::Ready(result) => {
                this.deadline = None;
                Poll::Ready(result)
            }
            Poll::Pending => {
                this.wait();
                this.check(cx)?;
                Poll::Pending
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.wait();
        this.check(cx)?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Returns how long it takes to write `size` bytes to a client that reads a byte every `pause`,
    /// and the result.
    async fn write(size: usize, pause: Duration) -> (Duration, io::Result<()>) {
        let (client, server) = duplex(16);
        let reading = tokio::spawn(async move {
            let mut client = client;
            loop {
                tokio::time::sleep(pause).await;
                if client.read_u8().await.is_err() {
                    return;
                }
            }
        });
        let mut timed = TimedIo::new(server, LIMIT);
        let start = Instant::now();
        let written = async {
            timed.write_all(&vec![0; size]).await?;
            timed.flush().await
        };
        let written = written.await;
        reading.abort();
        (start.elapsed(), written)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_cut_off() {
        for pause in [Duration::from_secs(1), Duration::from_secs(9), Duration::from_secs(3600)] {
            let (time, written) = write(1000, pause).await;
            assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert!((LIMIT..=LIMIT + Duration::from_secs(1)).contains(&time), "{time:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_in_time_gets_everything() {
        let (time, written) = write(1000, Duration::from_millis(20)).await;
        assert!(written.is_ok() && time < LIMIT, "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_between_answers_does_not_count() {
        let (mut client, server) = duplex(16);
        let mut timed = TimedIo::new(server, LIMIT);
        for _ in 0..3 {
            timed.write_all(b"answer").await.unwrap();
            timed.flush().await.unwrap();
            client.read_exact(&mut [0; 6]).await.unwrap();
            tokio::time::sleep(2 * LIMIT).await;
        }
    }
}
