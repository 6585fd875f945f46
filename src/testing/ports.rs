//! Ports for servers that are stopped and started again.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;

use parking_lot::Mutex;

/// Below it are the ports of well-known services.
const LOWEST: u16 = 10_000;
/// Where most systems begin to number outgoing connections; some begin higher.
const EPHEMERAL: u16 = 32_768;
/// Fewer ports than that are not worth a range of their own.
const ENOUGH: u16 = 2_000;

/// A port of 127.0.0.1 that stays ours, also while no server listens on it.
///
/// No other port of this process is equal to it, and none handed out by this module in another process: the UDP port of
/// the same number is the token, which a kernel takes back whatever way a process ends.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    _token: UdpSocket,
}

impl Port {
    pub(super) fn reserve() -> io::Result<Self> {
        let range = range();
        for _ in range.clone() {
            let number = next(&range);
            let Ok(token) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _token: token });
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            format!("no free port on 127.0.0.1 between {} and {}", range.start, range.end),
        ))
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }
}

/// The next number after the last one handed out: a port of a dropped server does not come back until all others were
/// used, so that a client of the old server does not find itself at a new one. Begins anywhere, as other processes do.
fn next(range: &Range<u16>) -> u16 {
    static LAST: Mutex<Option<u16>> = Mutex::new(None);
    let mut last = LAST.lock();
    let number = match *last {
        None => fastrand::u16(range.clone()),
        Some(number) if range.contains(&(number + 1)) => number + 1,
        Some(_) => range.start,
    };
    *last = Some(number);
    number
}

/// Ports that no outgoing connection gets. A client that keeps trying to reach a stopped server on a port of the
/// ephemeral range sooner or later gets that very port, and is then connected to itself.
fn range() -> Range<u16> {
    let settings = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let ephemeral = settings.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(EPHEMERAL);
    if ephemeral >= LOWEST + ENOUGH { LOWEST..ephemeral } else { LOWEST..EPHEMERAL }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_port_is_handed_out_twice_even_after_a_drop() {
        let numbers: Vec<_> = (0..100).map(|_| Port::reserve().unwrap().number()).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
    }

    #[test]
    fn another_process_sees_that_a_port_is_taken_while_nobody_listens() {
        let port = Port::reserve().unwrap();
        TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).expect("free for the server");
        UdpSocket::bind((Ipv4Addr::LOCALHOST, port.number())).expect_err("the token is ours");
    }
}
