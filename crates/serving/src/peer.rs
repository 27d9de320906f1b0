//! The user at the other end of a connection over loopback. Linux lists the sockets of the machine
//! with their users; elsewhere nobody is refused.

use std::net::SocketAddr;

use tokio::net::TcpStream;

/// The state of a connected socket in the list.
const ESTABLISHED: &str = "01";

/// Returns false if the other end of a connection belongs to another user than this process and
/// root.
#[cfg(target_os = "linux")]
pub(crate) fn is_of_this_user(stream: &TcpStream) -> bool {
    let (Ok(own), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    let path = if own.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let process = std::fs::metadata("/proc/self").map(|it| std::os::unix::fs::MetadataExt::uid(&it));
    // A system without the list has no other users who matter: it is a sandbox.
    let (Ok(table), Ok(process)) = (std::fs::read_to_string(path), process) else { return true };
    user_of(&table, peer, own).is_some_and(|user| user == 0 || user == process)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_of_this_user(_: &TcpStream) -> bool {
    true
}

/// Returns the user of the socket that is connected from one address to another, from a table such
/// as `/proc/net/tcp`.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has the table"))]
fn user_of(table: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (from, to) = (in_table(from), in_table(to));
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, _, _, _, user, ..] = fields[..] else { return None };
        (local == from && remote == to && state == ESTABLISHED).then(|| user.parse().ok())?
    })
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
        assert_eq!(user_of(table, at(0xC001), at(8080)), Some(1001));
        // A socket that waits after its end is listed as root's.
        assert_eq!(user_of(table, at(0xC002), at(8080)), None);
        assert_eq!(user_of(table, at(0xC003), at(8080)), None);
        let loopback = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 80));
        assert_eq!(in_table(loopback), "00000000000000000000000001000000:0050");
    }

    #[tokio::test]
    async fn a_connection_of_this_process_is_of_this_user() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = tokio::net::TcpListener::bind(address).await else { continue };
            let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            assert!(is_of_this_user(&stream), "{address}");
        }
    }
}
