//! How many bytes have to arrive before the reader of a socket is woken.

use std::io::{self, Read};

use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::net::TcpStream;

/// A connection that may be able to wake its reader later.
pub(crate) trait LowWater {
    /// From now on the reader is woken when at least so many bytes wait to be read, or when the
    /// peer closes the connection. A read itself still returns whatever is there. If more wait
    /// already, the reader is woken now (Linux 4.18 or later).
    ///
    /// Returns whether that is possible. Otherwise nothing has changed: the reader is woken for
    /// each packet.
    fn set_low_water(&self, bytes: u16) -> bool;

    /// Reads what waits though it is less than the mark: the reader would not be woken for it.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if nothing waits. Others are those of the connection; the
    /// kernel reports them once.
    fn read_now(&self, into: &mut [u8]) -> io::Result<usize>;
}

impl LowWater for TokioIo<TcpStream> {
    #[cfg(target_os = "linux")]
    fn set_low_water(&self, bytes: u16) -> bool {
        use std::os::fd::AsRawFd;

        let bytes = libc::c_int::from(bytes);
        let length = size_of_val(&bytes) as libc::socklen_t;
        let socket = self.inner().as_raw_fd();
        #[expect(unsafe_code, reason = "neither tokio nor socket2 has this option")]
        // SAFETY: the socket is open while it is borrowed, and the value is as long as `length`
        // says.
        let result = unsafe {
            libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, (&raw const bytes).cast(), length)
        };
        result == 0
    }

    /// Other systems count otherwise, or tell the reader nothing at the end of the connection.
    #[cfg(not(target_os = "linux"))]
    fn set_low_water(&self, _: u16) -> bool {
        false
    }

    fn read_now(&self, into: &mut [u8]) -> io::Result<usize> {
        (&*SockRef::from(self.inner())).read(into)
    }
}

/// A connection to a proxy, which may be one with TLS: what has arrived is then not what can be
/// read.
impl<T> LowWater for MaybeHttpsStream<T> {
    fn set_low_water(&self, _: u16) -> bool {
        false
    }

    fn read_now(&self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    async fn connected() -> (TokioIo<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, server) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (TokioIo::new(client.unwrap()), server.unwrap().0)
    }

    /// Reads what has arrived. Returns how much.
    fn read(client: &TokioIo<TcpStream>) -> usize {
        let mut read = 0;
        loop {
            match client.inner().try_read(&mut [0; 64]) {
                Ok(0) | Err(_) => return read,
                Ok(count) => read += count,
            }
        }
    }

    #[tokio::test]
    async fn the_reader_is_woken_when_enough_has_arrived() {
        let (client, mut server) = connected().await;
        assert!(client.set_low_water(100));
        server.write_all(&[0; 99]).await.unwrap();
        let is_readable = || timeout(Duration::from_millis(50), client.inner().readable());
        is_readable().await.unwrap_err();
        server.write_all(&[0; 1]).await.unwrap();
        client.inner().readable().await.unwrap();
        assert_eq!(read(&client), 100);
    }

    #[tokio::test]
    async fn a_lower_mark_wakes_the_reader() {
        let (client, mut server) = connected().await;
        assert!(client.set_low_water(100));
        server.write_all(&[0; 9]).await.unwrap();
        timeout(Duration::from_millis(50), client.inner().readable()).await.unwrap_err();
        assert!(client.set_low_water(1));
        client.inner().readable().await.unwrap();
        assert_eq!(read(&client), 9);
    }

    #[tokio::test]
    async fn the_end_of_the_connection_wakes_the_reader() {
        let (client, mut server) = connected().await;
        assert!(client.set_low_water(100));
        server.write_all(&[0; 9]).await.unwrap();
        drop(server);
        client.inner().readable().await.unwrap();
        assert_eq!(read(&client), 9);
    }

    #[tokio::test]
    async fn less_than_the_mark_can_be_read() {
        let (client, mut server) = connected().await;
        assert!(client.set_low_water(100));
        let mut buffer = [0; 64];
        assert_eq!(client.read_now(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        server.write_all(&[7; 9]).await.unwrap();
        timeout(Duration::from_millis(50), client.inner().readable()).await.unwrap_err();
        assert_eq!((client.read_now(&mut buffer).unwrap(), buffer[8], buffer[9]), (9, 7, 0));
        // The mark is still the same.
        server.write_all(&[0; 99]).await.unwrap();
        timeout(Duration::from_millis(50), client.inner().readable()).await.unwrap_err();
        server.write_all(&[0; 1]).await.unwrap();
        client.inner().readable().await.unwrap();
        assert_eq!(read(&client), 100);
    }
}
