//! Fewer system calls and wakes for reads over TLS.
//!
//! rustls reads 4 KiB at a time, so a list of 5 MB takes 1,300 system calls. [`ReadAhead`], which
//! is below it, has tokio's buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::BufReader;

const BUFFER: usize = 16 << 10;

/// A connection that reads up to [`BUFFER`] bytes at a time.
#[derive(Debug)]
pub(crate) struct ReadAhead<T>(TokioIo<BufReader<TokioIo<T>>>);

impl<T: Read + Write + Unpin> ReadAhead<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self(TokioIo::new(BufReader::with_capacity(BUFFER, TokioIo::new(inner))))
    }
}

impl<T: Read + Write + Unpin> Read for ReadAhead<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<T: Read + Write + Unpin> Write for ReadAhead<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl<T: Connection + Read + Write + Unpin> Connection for ReadAhead<T> {
    fn connected(&self) -> Connected {
        self.0.inner().get_ref().inner().connected()
    }
}
