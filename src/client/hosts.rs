//! Parses and checks the connect string before anything is sent.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use super::path;
use crate::cut::cut;
use crate::error::{Error, Result};

const DEFAULT_PORT: u16 = 2181;

/// Bounds the lookup: a name server that is slow for the first host must not delay a session with the others.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// A parsed connect string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    /// At least one server.
    pub(crate) servers: Vec<Server>,
    /// Begins with a slash, or is empty.
    pub(crate) chroot: String,
}

/// One of the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// A name, or an address without brackets.
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) is_encrypted: bool,
}

/// Parses `[scheme://]host[:port][,[scheme://]host[:port]…][/chroot]`. As in the connect strings of ZooKeeper's own
/// client, there may be spaces around a host, and the chroot may be `/`, which is the same as none.
///
/// If the client has TLS options, a host without a scheme is encrypted, and plain hosts are rejected: nothing that
/// was meant to be encrypted is sent in the clear.
///
/// # Errors
/// [`Error::InvalidArgument`] and [`Error::InvalidPath`].
pub(crate) fn validate(connect_string: &str, has_tls_options: bool) -> Result<Hosts> {
    let (hosts, chroot) = split(connect_string.trim());
    let chroot = if chroot == "/" { "" } else { chroot };
    if !chroot.is_empty() {
        if let Some((chroot, hosts)) = chroot.split_once(',') {
            return Err(invalid(format!(
                "{:?} follows the chroot {:?}; write the chroot once, behind the last host",
                cut(hosts),
                cut(chroot)
            )));
        }
        path::validate(chroot)?;
    }
    let servers = hosts.split(',').map(|host| server(host.trim(), has_tls_options)).collect::<Result<_>>()?;
    Ok(Hosts { servers, chroot: chroot.to_owned() })
}

impl Hosts {
    /// Returns a connect string for each server, with its scheme, in the form that `zookeeper-client` parses.
    pub(crate) fn one_by_one(&self) -> Vec<String> {
        let scheme = |server: &Server| if server.is_encrypted { "tcp+tls" } else { "tcp" };
        let one = |server| format!("{}://{server}{}", scheme(server), self.chroot);
        self.servers.iter().map(one).collect()
    }

    /// Whether both name a server by the same name and port.
    pub(super) fn share_a_server_with(&self, other: &Self) -> bool {
        let is_same = |one: &Server, other: &Server| one.port == other.port && one.name == other.name;
        self.servers.iter().any(|one| other.servers.iter().any(|other| is_same(one, other)))
    }

    /// Returns the address of this machine that faces the first server, if it can be determined.
    pub(crate) async fn local_address(&self) -> Option<IpAddr> {
        let Server { name, port, .. } = self.servers.first()?;
        let facing = async {
            let server = tokio::net::lookup_host((&**name, *port)).await.ok()?.next()?;
            // No packet is sent: connecting a datagram socket only chooses a route.
            let any = if server.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
            let socket = UdpSocket::bind((any, 0)).ok()?;
            socket.connect(server).ok()?;
            socket.local_addr().ok()
        };
        let local = tokio::time::timeout(LOOKUP_TIMEOUT, facing).await.ok()??;
        Some(local.ip())
    }
}

/// Formats as `host:port`.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port, .. } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// Splits off the chroot, which begins with a slash or is empty.
fn split(connect_string: &str) -> (&str, &str) {
    let mut slashes = connect_string.match_indices('/').map(|(at, _)| at);
    // The slashes of a scheme such as `tcp+tls://` do not begin the chroot.
    let chroot = slashes.find(|at| {
        let (before, behind) = connect_string.split_at(*at);
        !(before.ends_with(":/") || before.ends_with(':') && behind.starts_with("//"))
    });
    connect_string.split_at(chroot.unwrap_or(connect_string.len()))
}

fn server(host: &str, has_tls_options: bool) -> Result<Server> {
    let shown = cut(host);
    if host.contains(|c: char| c == ';' || c.is_whitespace()) {
        return Err(invalid(format!("{shown:?} is not a server; separate hosts with commas")));
    }
    let (is_encrypted, address) = match host.split_once("://") {
        None => (has_tls_options, host),
        Some(("tcp", _)) if has_tls_options => {
            return Err(invalid(format!(
                "{shown:?} is not encrypted, although the client has TLS options; write tcp+tls://, or omit the \
                 scheme"
            )));
        }
        Some(("tcp", address)) => (false, address),
        Some(("tcp+tls", address)) if has_tls_options => (true, address),
        Some(("tcp+tls", _)) => return Err(invalid(cannot_encrypt(&shown))),
        Some((scheme, address)) => {
            let (scheme, address) = (cut(scheme), cut(address));
            return Err(invalid(format!(
                "{shown:?} has the scheme {scheme:?}; write tcp://{address}, or tcp+tls://{address} for an encrypted \
                 connection"
            )));
        }
    };
    let (name, port) = name_and_port(address).map_err(|reason| invalid(format!("{shown:?} {reason}")))?;
    if is_encrypted && !can_be_certified(name) {
        return Err(invalid(format!(
            "{shown:?} cannot be encrypted, since no certificate can be issued for such a name; write a DNS name or an \
             IP address"
        )));
    }
    Ok(Server { name: name.to_owned(), port, is_encrypted })
}

fn cannot_encrypt(host: &str) -> String {
    let missing = if cfg!(feature = "tls") {
        "give the client TLS options, with `ClientBuilder::tls`"
    } else {
        "enable the feature `tls` of zk-recipes, and give the client TLS options"
    };
    format!("{host:?} expects an encrypted connection; {missing}")
}

/// Splits `host[:port]`.
fn name_and_port(address: &str) -> Result<(&str, u16), &'static str> {
    let (name, port) = match address.strip_prefix('[') {
        Some(bracketed) => {
            let (name, port) = bracketed.split_once(']').ok_or("has no closing bracket; write [::1]:2181")?;
            let (ip, _scope) = name.split_once('%').unwrap_or((name, ""));
            ip.parse::<Ipv6Addr>()
                .map_err(|_| "has brackets around something that is not an IPv6 address")?;
            let port = if port.is_empty() {
                ""
            } else {
                port.strip_prefix(':').ok_or("is not of the form host:port")?
            };
            (name, port)
        }
        None => {
            let (name, port) = address.split_once(':').unwrap_or((address, ""));
            if port.contains(':') {
                return Err("has several colons; write an IPv6 address in brackets, as in [::1]:2181");
            }
            ensure_name(name)?;
            (name, port)
        }
    };
    let is_number = port.bytes().all(|digit| digit.is_ascii_digit());
    match port.parse().ok().filter(|port| *port > 0 && is_number) {
        _ if port.is_empty() => Ok((name, DEFAULT_PORT)),
        Some(port) => Ok((name, port)),
        None => Err("needs a port from 1 to 65535"),
    }
}

fn ensure_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("is not a server; write host:port[,host:port…][/chroot]");
    }
    if name.contains(|c: char| !c.is_alphanumeric() && !"-._".contains(c)) {
        return Err(
            "contains a character that host names cannot have; write host:port[,host:port…][/chroot]",
        );
    }
    Ok(())
}

/// Whether a certificate can be for that name: an IP address, or a DNS name as `rustls` takes it. `zookeeper-client`
/// panics if it is neither.
fn can_be_certified(name: &str) -> bool {
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let is_label = |label: &str| {
        let is_of_a_label = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        (1..=63).contains(&label.len())
            && label.chars().all(is_of_a_label)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let labels = name.strip_suffix('.').unwrap_or(name);
    let last = labels.rsplit('.').next().unwrap_or(labels);
    name.len() <= 253 && labels.split('.').all(is_label) && !last.chars().all(|c| c.is_ascii_digit())
}

fn invalid(reason: String) -> Error {
    Error::InvalidArgument { argument: "connect string", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_connect_strings() {
        for (hosts, read) in [
            ("localhost", "tcp://localhost:2181"),
            ("localhost:2181", "tcp://localhost:2181"),
            (
                "zk1:2181,zk2:2182,zk3/apps/orders",
                "tcp://zk1:2181/apps/orders tcp://zk2:2182/apps/orders tcp://zk3:2181/apps/orders",
            ),
            ("[::1]:2181,[fe80::1%eth0]", "tcp://[::1]:2181 tcp://[fe80::1%eth0]:2181"),
            ("tcp://zk1:2181,zk2:2281/apps", "tcp://zk1:2181/apps tcp://zk2:2281/apps"),
            ("zk-1.example_net:", "tcp://zk-1.example_net:2181"),
            (
                " zk1:2181, zk2:2182 ,\tzk3/apps ",
                "tcp://zk1:2181/apps tcp://zk2:2182/apps tcp://zk3:2181/apps",
            ),
            ("zk1:2181/", "tcp://zk1:2181"),
            ("tcp://zk1, tcp://zk2/", "tcp://zk1:2181 tcp://zk2:2181"),
            ("127.1", "tcp://127.1:2181"),
        ] {
            let one_by_one = validate(hosts, false).map(|hosts| hosts.one_by_one().join(" "));
            assert_eq!(one_by_one.as_deref(), Ok(read), "{hosts}");
        }
    }

    #[test]
    fn with_options_for_encryption_everything_is_encrypted() {
        let read = validate("zk1,tcp+tls://zk2:2281,[::1]:2282/apps", true).unwrap();
        assert!(read.servers.iter().all(|server| server.is_encrypted));
        let one_by_one = ["tcp+tls://zk1:2181/apps", "tcp+tls://zk2:2281/apps", "tcp+tls://[::1]:2282/apps"];
        assert_eq!(read.one_by_one(), one_by_one);
        let error = validate("zk1,tcp://zk2", true).unwrap_err().to_string();
        assert!(error.contains("tcp://zk2") && error.contains("tcp+tls://"), "{error}");
        let error = validate("tcp+tls://zk1", false).unwrap_err().to_string();
        assert!(error.contains("TLS options"), "{error}");
    }

    #[test]
    fn what_no_certificate_can_be_issued_for_is_refused_with_encryption() {
        for name in [
            "127.1",
            "zk.1",
            "1",
            "zk..a",
            "-zk",
            "zk-",
            ".",
            "zk.1.",
            "größe",
            &"a".repeat(64),
            "[fe80::1%eth0]",
        ] {
            let error = validate(name, true).expect_err(name).to_string();
            assert!(error.contains("certificate") && error.contains(name), "{error}");
            assert!(validate(name, false).is_ok(), "{name}");
        }
        for name in
            ["127.0.0.1", "[::1]", "zk_1.example.net", "zk1.", "1.zk", "xn--grsse-lya", &"a".repeat(63)]
        {
            assert!(validate(name, true).is_ok(), "{name}");
        }
    }

    #[test]
    fn the_error_of_a_long_connect_string_is_short() {
        let long = "x y".repeat(100_000);
        for hosts in [long.clone(), format!("{long}://a"), format!("a://{long}"), format!("a/b,{long}")] {
            let error = validate(&hosts, false).unwrap_err();
            assert!(error.to_string().len() < 1000 && format!("{error:?}").len() < 1000);
        }
    }

    #[test]
    fn bad_connect_strings_are_refused_with_what_to_write_instead() {
        for (hosts, instead) in [
            ("", "host:port"),
            (",", "host:port"),
            ("zk1,", "host:port"),
            (",zk1", "host:port"),
            (":2181", "host:port"),
            ("zk1:0", "port from 1"),
            ("zk1:port", "port from 1"),
            ("zk1:+1", "port from 1"),
            ("zk1:99999", "port from 1"),
            ("zk1/a//b", "empty name"),
            ("[::1:2181", "[::1]:2181"),
            ("[::1]2181", "host:port"),
            ("[zk1]:2181", "IPv6"),
            ("::1", "[::1]:2181"),
            ("zk1:2181:2182", "[::1]:2181"),
            ("zk 1:2181", "commas"),
            ("zk1:2181 zk2:2181", "commas"),
            ("zk1,,zk2", "host:port"),
            ("zk1, ,zk2", "host:port"),
            ("zk1//", "ends with"),
            ("zk1;zk2", "commas"),
            ("zk1:2181;zk2:2181", "commas"),
            ("user@zk1", "character"),
            ("tcp://:2181", "host:port"),
            ("ftp://zk1:2181", "tcp://zk1:2181"),
            ("http://zk1:2181/a", "tcp://zk1:2181"),
            ("TCP://zk1", "tcp://zk1"),
            ("tcp://tcp://zk1", "port from 1"),
            ("zk1:2181/a,zk2:2181/a", "behind the last host"),
            ("zk1/a,tcp://zk2/b", "behind the last host"),
            ("zk1:2181/a/../b", "relative"),
        ] {
            let error = validate(hosts, false).expect_err(hosts).to_string();
            assert!(error.contains(instead), "{hosts}: {error}");
        }
    }

    #[tokio::test]
    async fn the_local_address_faces_the_server() {
        let local_address = async |hosts| validate(hosts, false).unwrap().local_address().await;
        let localhost = Some(IpAddr::from([127, 0, 0, 1]));
        assert_eq!(local_address("127.0.0.1:2181,zk2:2181/chroot").await, localhost);
        assert_eq!(local_address("tcp://127.0.0.1/chroot").await, localhost);
        assert_eq!(local_address("nobody.invalid:2181").await, None);
    }
}
