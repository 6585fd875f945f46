//! The connect string: checked before anything is sent, and kept for messages.

use std::time::Duration;

use super::path;
use crate::error::{Error, Result};

/// A name server that is slow for the first host must not delay a session with the others.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks `host[:port][,host[:port]…][/chroot]`.
pub(crate) fn validate(connect_string: &str) -> Result<()> {
    let invalid = |reason: String| Err(Error::InvalidArgument { argument: "connect string", reason });
    // A scheme such as `tcp+tls://` has slashes that do not begin the chroot.
    let after_scheme = connect_string.rfind("://").map_or(0, |at| at + "://".len());
    let (hosts, chroot) = match connect_string[after_scheme..].find('/') {
        Some(at) => connect_string.split_at(after_scheme + at),
        None => (connect_string, ""),
    };
    if !chroot.is_empty() {
        path::validate(chroot)?;
    }
    for host in hosts.split(',') {
        let address = host.rsplit("://").next().unwrap_or_default();
        // The colons of a bracketed IPv6 address are none of a port.
        let (name, port) = match address.strip_prefix('[') {
            Some(rest) => rest.split_once(']').unwrap_or(("", rest)),
            None => address.split_at(address.rfind(':').unwrap_or(address.len())),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return invalid(format!("{host:?} names no host; write host:port[,host:port…][/chroot]"));
        }
        let port = port.strip_prefix(':').unwrap_or(port);
        if !port.is_empty() && !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return invalid(format!("{port:?} is no port; write host:port[,host:port…][/chroot]"));
        }
    }
    Ok(())
}

/// The address of this machine that faces the servers; empty if it cannot be told.
///
/// Curator's default node data is the local address, too. No packet is sent: connecting a datagram socket
/// only chooses a route.
pub(crate) async fn local_address(connect_string: &str) -> Vec<u8> {
    let Some(first) = connect_string.split([',']).next() else { return Vec::new() };
    let host = first.rsplit("://").next().unwrap_or_default();
    let host = host.split('/').next().unwrap_or_default();
    let server = if host.contains(':') { host.to_owned() } else { format!("{host}:2181") };
    let facing = async {
        let server = tokio::net::lookup_host(server).await?.next().ok_or(std::io::ErrorKind::NotFound)?;
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = tokio::net::UdpSocket::bind(any).await?;
        socket.connect(server).await?;
        socket.local_addr()
    };
    let address = tokio::time::timeout(LOOKUP_TIMEOUT, facing).await;
    address
        .ok()
        .and_then(std::io::Result::ok)
        .map(|address| address.ip().to_string().into_bytes())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_connect_strings() {
        for hosts in [
            "localhost",
            "localhost:2181",
            "zk1:2181,zk2:2182,zk3/apps/orders",
            "[::1]:2181,[fe80::1]",
            "tcp://zk1:2181,tcp+tls://zk2:2281/apps",
            "tcp://zk1:2181",
        ] {
            assert_eq!(validate(hosts), Ok(()), "{hosts}");
        }
    }

    #[test]
    fn bad_connect_strings_are_refused_with_a_reason() {
        for hosts in [
            "",
            ",",
            "zk1,",
            ",zk1",
            ":2181",
            "zk1:0",
            "zk1:port",
            "zk1:99999",
            "zk1:2181/",
            "zk1/a//b",
            "[::1:2181",
            "zk 1:2181",
            "tcp://:2181",
            "zk1:2181/a/../b",
        ] {
            assert!(validate(hosts).is_err(), "{hosts}");
        }
    }

    #[tokio::test]
    async fn the_local_address_faces_the_server() {
        assert_eq!(local_address("127.0.0.1:2181,zk2:2181/chroot").await, b"127.0.0.1");
        assert_eq!(local_address("tcp://127.0.0.1/chroot").await, b"127.0.0.1");
        assert_eq!(local_address("").await, b"");
    }
}
