//! The connect string: checked before anything is sent.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use super::path;
use crate::error::{Error, Result};

const DEFAULT_PORT: u16 = 2181;

/// A name server that is slow for the first host must not delay a session with the others.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks `host[:port][,host[:port]…][/chroot]`.
pub(crate) fn validate(connect_string: &str) -> Result<()> {
    let (hosts, chroot) = split(connect_string);
    if !chroot.is_empty() {
        path::validate(chroot)?;
    }
    for host in hosts.split(',') {
        if address(host).is_none() {
            let reason = format!("{host:?} is no server; write host:port[,host:port…][/chroot]");
            return Err(Error::InvalidArgument { argument: "connect string", reason });
        }
    }
    Ok(())
}

/// The address of this machine that faces the first server, as text; empty if it cannot be told.
///
/// Curator's default node data is the local address, too.
pub(crate) async fn local_address(connect_string: &str) -> Vec<u8> {
    let (hosts, _) = split(connect_string);
    let Some(server) = hosts.split(',').next().and_then(address) else { return Vec::new() };
    let facing = async {
        let server = tokio::net::lookup_host(server).await.ok()?.next()?;
        // No packet is sent: connecting a datagram socket only chooses a route.
        let any = if server.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(server).ok()?;
        socket.local_addr().ok()
    };
    match tokio::time::timeout(LOOKUP_TIMEOUT, facing).await {
        Ok(Some(local)) => local.ip().to_string().into_bytes(),
        Ok(None) | Err(_) => Vec::new(),
    }
}

/// The hosts and the chroot, which begins with a slash or is empty.
fn split(connect_string: &str) -> (&str, &str) {
    // A scheme such as `tcp+tls://` has slashes that do not begin the chroot.
    let after_scheme = connect_string.rfind("://").map_or(0, |at| at + "://".len());
    let chroot = connect_string[after_scheme..].find('/').map(|at| after_scheme + at);
    connect_string.split_at(chroot.unwrap_or(connect_string.len()))
}

/// The name and the port in `[scheme://]host[:port]`.
fn address(host: &str) -> Option<(&str, u16)> {
    let host = host.rsplit("://").next()?;
    // The colons of a bracketed IPv6 address are none of a port.
    let (name, port) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => host.split_at(host.rfind(':').unwrap_or(host.len())),
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    match port.strip_prefix(':').unwrap_or(port) {
        "" => Some((name, DEFAULT_PORT)),
        port => port.parse().ok().filter(|port| *port > 0).map(|port| (name, port)),
    }
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
        assert_eq!(local_address("nobody.invalid:2181").await, b"");
        assert_eq!(local_address("").await, b"");
    }
}
