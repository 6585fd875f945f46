//! Finds out why there is no session, with connections of its own.
//!
//! `zookeeper-client` only reports that no host is available. The probes run only while there is no connection.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

// That of the sessions, so that both have the same network in a simulation.
use async_net::TcpStream;
use futures_util::future::join_all;
use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::hosts::{Hosts, Server};
use super::link::{Link, Status};
use crate::host_failure::{ConnectFailure, HostFailure};

/// How long a connection may take before the servers are probed, at most.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a server may take to answer a probe. Until then it counts as not answering.
const PROBE: Duration = Duration::from_secs(5);
/// The pause between rounds of probes.
const PAUSE: Duration = Duration::from_secs(2);

/// The one command that every server answers in any state, unless it is configured not to.
const QUESTION: &[u8] = b"srvr";
/// How much of the answer is read, in bytes.
const ENOUGH: u64 = 1024;

/// Keeps the known causes up to date while there is no connected session.
pub(super) async fn find(hosts: &Hosts, connection_timeout: Duration, link: &Link) -> Infallible {
    let mut status = link.status();
    loop {
        // The sender lives in the link.
        let _ = status.wait_for(|status| !status.is_connected()).await;
        let finding = async {
            sleep(PATIENCE.min(connection_timeout / 4)).await;
            loop {
                look(hosts, link).await;
                sleep(PAUSE).await;
            }
        };
        tokio::select! {
            _ = status.wait_for(Status::is_connected) => {}
            () = finding => {}
        }
        link.causes.send_replace(Vec::new());
    }
}

async fn look(hosts: &Hosts, link: &Link) {
    link.causes.send_if_modified(|causes| {
        let unknown = causes.is_empty();
        if unknown {
            let silent =
                |server: &Server| HostFailure { host: server.to_string(), cause: ConnectFailure::NoAnswer };
            causes.extend(hosts.servers.iter().map(silent));
        }
        unknown
    });
    join_all(hosts.servers.iter().enumerate().map(|(index, server)| async move {
        let cause = timeout(PROBE, probe(server)).await.unwrap_or(ConnectFailure::NoAnswer);
        link.causes.send_modify(|causes| {
            if let Some(failure) = causes.get_mut(index) {
                failure.cause = cause;
            }
        });
    }))
    .await;
}

async fn probe(server: &Server) -> ConnectFailure {
    let addresses = match tokio::net::lookup_host((&*server.name, server.port)).await {
        Ok(addresses) => addresses.collect::<Vec<_>>(),
        Err(_) => return ConnectFailure::NameNotFound,
    };
    let mut stream = match TcpStream::connect(&*addresses).await {
        Ok(stream) => stream,
        Err(error) => return of(&error),
    };
    if server.is_encrypted {
        return ConnectFailure::NoTlsSession;
    }
    let mut answer = Vec::new();
    // The way the connection ends proves nothing: a server closes it after an answer, and so does one that does not
    // understand the command.
    let _ = stream.write_all(QUESTION).await;
    let _ = stream.take(ENOUGH).read_to_end(&mut answer).await;
    read(&answer)
}

fn of(error: &io::Error) -> ConnectFailure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ConnectFailure::Refused,
        io::ErrorKind::TimedOut => ConnectFailure::NoAnswer,
        _ => ConnectFailure::Other(error.to_string()),
    }
}

/// Derives the cause from the answer to the command.
fn read(answer: &[u8]) -> ConnectFailure {
    /// The first bytes of an alert, with which TLS rejects unencrypted data.
    const TLS_ALERT: [u8; 2] = [21, 3];
    let text = String::from_utf8_lossy(answer);
    if text.starts_with("This ZooKeeper instance is not currently serving requests") {
        ConnectFailure::NotServing
    } else if text.starts_with("Zookeeper version") || text.contains("is not executed because") {
        ConnectFailure::NoSession
    } else if answer.starts_with(&TLS_ALERT) {
        ConnectFailure::NeedsTls
    } else {
        ConnectFailure::NotZooKeeper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(read(b"Zookeeper version: 3.8.0-..., built on ..."), ConnectFailure::NoSession);
        assert_eq!(
            read(b"srvr is not executed because it is not in the whitelist.\n"),
            ConnectFailure::NoSession
        );
        assert_eq!(
            read(b"This ZooKeeper instance is not currently serving requests\n"),
            ConnectFailure::NotServing
        );
        assert_eq!(read(&[21, 3, 3, 0, 2, 2, 10]), ConnectFailure::NeedsTls);
        assert_eq!(read(b"HTTP/1.1 400 Bad Request\r\n"), ConnectFailure::NotZooKeeper);
        assert_eq!(read(b""), ConnectFailure::NotZooKeeper);
    }
}
