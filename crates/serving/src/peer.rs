//! The user at the other end of a connection over loopback. Linux lists the sockets of the machine
//! with their users; elsewhere nobody is refused.
//!
//! The list has a line for each socket, in no useful order, so a look costs time in proportion to
//! the sockets of the machine: once for each connection, and it ends at the line it looks for. The
//! kernel also answers questions about one socket (`sock_diag`), in a binary protocol that is not
//! worth it for the few connections of a browser.

use std::fmt;
use std::io::BufRead;
use std::net::SocketAddr;

use tokio::net::TcpStream;

/// The state of a connected socket in the list.
const ESTABLISHED: &str = "01";

/// The other end of a connection belongs to another user than this process and root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stranger {
    /// The number of that user. It is missing if the list does not have the other end.
    user: Option<u32>,
    /// The number of this process's user.
    own: u32,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.own;
        write!(f, "This page shows the whole cluster, so only the user who runs the program may read it. ")?;
        match self.user {
            Some(user) => write!(f, "The program runs as user {own}, your browser as user {user}. ")?,
            None => write!(
                f,
                "The program runs as user {own}; your browser runs in a container or network namespace of its own. "
            )?,
        }
        writeln!(f, "Start the program as the user of the browser, without sudo, and on the same system.")
    }
}

/// Returns the user at the other end of a connection if nobody but the user of this process and
/// root should use it.
#[cfg(target_os = "linux")]
pub(crate) fn stranger(stream: &TcpStream) -> Option<Stranger> {
    let path = match stream.local_addr() {
        Ok(SocketAddr::V6(_)) => "/proc/net/tcp6",
        _ => "/proc/net/tcp",
    };
    let own = std::fs::metadata("/proc/self").map(|it| std::os::unix::fs::MetadataExt::uid(&it));
    // A system without the list has no other users who matter: it is a sandbox.
    let (Ok(table), Ok(own)) = (std::fs::File::open(path), own) else { return None };
    let user = match (stream.peer_addr(), stream.local_addr()) {
        (Ok(peer), Ok(here)) => user_of(std::io::BufReader::new(table), peer, here),
        // The client has gone.
        _ => None,
    };
    (user != Some(0) && user != Some(own)).then_some(Stranger { user, own })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn stranger(_: &TcpStream) -> Option<Stranger> {
    None
}

/// Returns the user of the socket that is connected from one address to another, from a table such
/// as `/proc/net/tcp`.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has the table"))]
fn user_of(mut table: impl BufRead, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (from, to) = (in_table(from), in_table(to));
    let mut line = String::new();
    while table.read_line(&mut line).is_ok_and(|length| length > 0) {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next() == Some(&*from) && fields.next() == Some(&*to) && fields.next() == Some(ESTABLISHED)
        {
            return fields.nth(3)?.parse().ok();
        }
        line.clear();
    }
    None
}

/// Returns an address as the table has it: words in the order of the machine, in hexadecimal.
fn in_table(address: SocketAddr) -> String {
    let octets = match address {
        SocketAddr::V4(address) => address.ip().octets().to_vec(),
        SocketAddr::V6(address) => address.ip().octets().to_vec(),
    };
    let words = octets.chunks_exact(4).map(|word| <[u8; 4]>::try_from(word).unwrap_or_default());
    let words: String = words.map(|word| format!("{:08X}", u32::from_ne_bytes(word))).collect();
    format!("{words}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_user_of_a_socket_is_found_by_its_two_addresses() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1\n   \
            1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 2 1\n   \
            2: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 3 1\n   \
            3: 0100007F:C002 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 4 1\n";
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(user_of(table.as_bytes(), at(0xC001), at(8080)), Some(1001));
        // A socket that waits after its end is listed as root's.
        assert_eq!(user_of(table.as_bytes(), at(0xC002), at(8080)), None);
        assert_eq!(user_of(table.as_bytes(), at(0xC003), at(8080)), None);
        let loopback = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 80));
        assert_eq!(in_table(loopback), "00000000000000000000000001000000:0050");
    }

    #[tokio::test]
    async fn a_connection_of_this_process_is_of_this_user() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = tokio::net::TcpListener::bind(address).await else { continue };
            let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            assert_eq!(stranger(&stream), None, "{address}");
        }
    }

    #[test]
    fn a_stranger_is_told_why_and_what_to_do() {
        insta::assert_snapshot!(
            Stranger { user: Some(1001), own: 0 },
            @"This page shows the whole cluster, so only the user who runs the program may read it. The program runs as user 0, your browser as user 1001. Start the program as the user of the browser, without sudo, and on the same system."
        );
        insta::assert_snapshot!(
            Stranger { user: None, own: 1000 },
            @"This page shows the whole cluster, so only the user who runs the program may read it. The program runs as user 1000; your browser runs in a container or network namespace of its own. Start the program as the user of the browser, without sudo, and on the same system."
        );
    }
}
