//! Fewer system calls and wakes for reads over TLS.
//!
//! rustls reads 4 KiB at a time, so a list of 5 MB takes 1,300 system calls. [`ReadAhead`], which
//! is below it, reads more at once while the server sends more.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// The size of the buffer of a connection on which little arrives at a time.
const LITTLE: usize = 4 << 10;
/// The size of the buffer once a read has filled [`LITTLE`].
const MUCH: usize = 16 << 10;
/// After this many reads in a row of at most [`LITTLE`], the buffer is small again.
const LITTLE_READS: u32 = 16;

/// A connection that reads more than its caller asks for, and returns the rest in the next calls.
/// It passes writes on.
#[derive(Debug)]
pub(crate) struct ReadAhead<T> {
    inner: T,
    /// Empty before the first read, then of length [`LITTLE`] or [`MUCH`].
    buffer: Box<[u8]>,
    /// The part of the buffer that the caller has not read yet.
    start: usize,
    end: usize,
    /// The number of reads in a row of at most [`LITTLE`], up to now.
    little_reads: u32,
}

impl<T> ReadAhead<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, buffer: Box::default(), start: 0, end: 0, little_reads: 0 }
    }
}

impl<T: Read + Unpin> ReadAhead<T> {
    /// Reads into the buffer, whose content the caller has read. It stays empty at the end of the
    /// stream.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.is_empty() || self.buffer.len() == MUCH && self.little_reads >= LITTLE_READS {
            self.buffer = vec![0; LITTLE].into();
        }
        let mut buffer = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer.unfilled()))?;
        (self.start, self.end) = (0, buffer.filled().len());
        self.little_reads = if self.end > LITTLE { 0 } else { self.little_reads.saturating_add(1) };
        Poll::Ready(Ok(()))
    }
}

impl<T: Read + Unpin> Read for ReadAhead<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.start == this.end {
            ready!(this.poll_fill(context))?;
        }
        let returned = into.remaining().min(this.end - this.start);
        into.put_slice(&this.buffer[this.start..this.start + returned]);
        this.start += returned;
        // The server has sent more than fits, so there may be much more.
        if this.start == LITTLE && this.buffer.len() == LITTLE {
            this.buffer = vec![0; MUCH].into();
            (this.start, this.end) = (0, 0);
            this.little_reads = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for ReadAhead<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<T: Connection> Connection for ReadAhead<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf as TokioReadBuf};

    use super::*;

    /// Answers each read with as many bytes as it has room for, but at most as many as the next
    /// element says. After the last element the stream ends, or the server resets it. Notes the
    /// room of each read.
    struct Server {
        sizes: std::vec::IntoIter<usize>,
        resets: bool,
        sent: usize,
        rooms: Vec<usize>,
    }

    /// Returns the byte at a place of the stream.
    fn byte(place: usize) -> u8 {
        (place % 251) as u8
    }

    impl AsyncRead for Server {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut TokioReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let room = into.remaining();
            self.rooms.push(room);
            let size = match self.sizes.next() {
                None if self.resets => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                size => size.unwrap_or_default().min(room),
            };
            let first = self.sent;
            into.put_slice(&(first..first + size).map(byte).collect::<Vec<u8>>());
            self.sent += size;
            Poll::Ready(Ok(()))
        }
    }

    fn client(sizes: Vec<usize>, resets: bool) -> TokioIo<ReadAhead<TokioIo<Server>>> {
        let server = Server { sizes: sizes.into_iter(), resets, sent: 0, rooms: Vec::new() };
        TokioIo::new(ReadAhead::new(TokioIo::new(server)))
    }

    /// Reads up to `at_a_time` bytes at a time until the end. Returns the room of each read from
    /// the server, and the size of the buffer at the end.
    async fn read(sizes: Vec<usize>, at_a_time: usize) -> (Vec<usize>, usize) {
        let mut client = client(sizes, false);
        let (mut got, mut buffer) = (0, vec![0; at_a_time]);
        loop {
            let count = client.read(&mut buffer).await.unwrap();
            if count == 0 {
                break;
            }
            assert!(buffer[..count].iter().enumerate().all(|(at, it)| *it == byte(got + at)));
            got += count;
        }
        let ReadAhead { inner, buffer, .. } = client.into_inner();
        assert_eq!(got, inner.inner().sent);
        (inner.into_inner().rooms, buffer.len())
    }

    #[tokio::test]
    async fn much_is_read_at_once_while_the_server_sends_much() {
        for at_a_time in [1, 1000, 4096, 5000, 100_000] {
            // rustls alone reads 4 KiB each time: 245 reads.
            let (rooms, kept) = read(vec![1_000_000; 17], at_a_time).await;
            assert_eq!((rooms[0], rooms[1..].iter().all(|room| *room == MUCH)), (LITTLE, true));
            assert_eq!((rooms.len(), kept), (18, MUCH));
        }
    }

    #[tokio::test]
    async fn little_is_read_into_a_small_buffer() {
        let (rooms, kept) = read(vec![LITTLE - 1; 50], 4096).await;
        assert_eq!((rooms, kept), (vec![LITTLE; 51], LITTLE));
    }

    #[tokio::test]
    async fn the_buffer_is_small_again_after_a_list() {
        let sizes = [vec![LITTLE, MUCH, MUCH], vec![100; 20]].concat();
        let (rooms, kept) = read(sizes, 4096).await;
        let large = 2 + LITTLE_READS as usize;
        let want = [vec![LITTLE], vec![MUCH; large], vec![LITTLE; 20 + 3 + 1 - 1 - large]].concat();
        assert_eq!((rooms, kept), (want, LITTLE));
    }

    #[tokio::test]
    async fn what_was_read_before_an_error_is_returned_first() {
        let mut client = client(vec![6], true);
        let mut got = [0; 4];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(got, [0, 1, 2, 3]);
        assert_eq!(client.read(&mut got).await.unwrap(), 2);
        assert_eq!(client.read(&mut got).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
