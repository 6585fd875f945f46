//! Ports for servers that are stopped and started again.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// The ports of well-known services are below it.
const LOWEST: u16 = 10_000;
/// The first port that most systems use for outgoing connections; some begin higher.
const EPHEMERAL: u16 = 32_768;
/// The minimum size of the range of ports.
const ENOUGH: u16 = 2_000;
/// How often it is tried to listen.
const ATTEMPTS: u32 = 1_000;

/// A port of 127.0.0.1 that stays reserved, even while no server listens on it.
///
/// It differs from all other ports of this process, and from those that this module has reserved in other
/// processes: the UDP port of the same number serves as a token, which the kernel takes back however a process
/// ends.
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

    /// Listens on the port, in a runtime. Waits for an earlier listener of this process: another process that is being
    /// started holds a copy of it until its own program runs.
    pub(super) fn listen(&self) -> io::Result<tokio::net::TcpListener> {
        let mut attempt = 1;
        let listener = loop {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, self.number)) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempt < ATTEMPTS => {
                    attempt += 1;
                    thread::sleep(Duration::from_millis(1));
                }
                listening => break listening?,
            }
        };
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    }
}

/// Returns the number after the last one. A port of a dropped server is not used again until all others were, so
/// that a client of the old server does not connect to a new one. The first number is random, since other processes
/// do the same.
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

/// Returns a range of ports that no outgoing connection gets. A client that keeps trying to reach a stopped server
/// on a port of the ephemeral range sooner or later gets that very port for itself, and is then connected to
/// itself.
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
