//! ZooKeeper's four-letter words: commands over a plain connection.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

/// Sends a command to the server at `port`, and returns its whole answer.
pub(super) async fn ask(port: u16, word: &str, patience: Duration) -> io::Result<String> {
    if word.len() != 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{word:?} is no four-letter word: four lower case letters, such as \"mntr\""),
        ));
    }
    let failed = |kind, what: &dyn std::fmt::Display| {
        io::Error::new(kind, format!("{word} to 127.0.0.1:{port}: {what}"))
    };
    let exchange = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    match time::timeout(patience, exchange).await {
        Err(_) => Err(failed(io::ErrorKind::TimedOut, &format_args!("no answer within {patience:?}"))),
        Ok(Err(error)) => Err(failed(error.kind(), &error)),
        Ok(Ok(answer)) if answer.is_empty() => Err(failed(
            io::ErrorKind::UnexpectedEof,
            &"closed without an answer; the server does not know this word or was just stopped",
        )),
        Ok(Ok(answer)) => Ok(answer),
    }
}

/// Returns the `Mode` in the answer to `srvr`: "standalone", "leader" or "follower"; `None` while the server has no
/// quorum.
pub(super) fn mode(srvr: &str) -> Option<&str> {
    after(srvr, "Mode: ")
}

/// Whether the server serves clients, from the answer to `srvr`. While it has no quorum, it answers otherwise.
pub(super) fn is_serving(srvr: &str) -> bool {
    mode(srvr).is_some()
}

/// Returns the number of packets that the server has received, from the answer to `srvr`.
pub(super) fn packets_received(srvr: &str) -> io::Result<u64> {
    number(after(srvr, "Received: "), srvr)
}

/// Returns the number of watches of all connections, from the answer to `mntr`. `wchs` has a count too, but leaves
/// out watches on children.
pub(super) fn watch_count(mntr: &str) -> io::Result<u64> {
    number(after(mntr, "zk_watch_count\t"), mntr)
}

/// Returns the number of packets received on the connection of this session, from the answer to `cons`.
pub(super) fn session_packets(cons: &str, session: i64) -> io::Result<u64> {
    let id = format!("0x{session:x}");
    for line in cons.lines() {
        // /127.0.0.1:41404[1](queued=0,recved=12,sent=12,sid=0x100003d6a0f0000,lop=PING,…)
        let Some((_, fields)) = line.trim().trim_end_matches(')').split_once('(') else { continue };
        let field =
            |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        if field("sid") == Some(&id) {
            return number(field("recved"), line);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no connection of session {id} on this server")))
}

fn after<'a>(answer: &'a str, label: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(label)).map(str::trim)
}

fn number(text: Option<&str>, answer: &str) -> io::Result<u64> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("unexpected answer of the server: {}", answer.trim()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONS: &str = " /127.0.0.1:41404[0](queued=0,recved=1,sent=0)\n \
        /127.0.0.1:41405[1](queued=0,recved=12,sent=11,sid=0x1000000000a,lop=PING,est=1,to=500)\n\n";

    #[test]
    fn finds_the_packets_of_one_session() {
        assert_eq!(session_packets(CONS, 0x1000000000a).unwrap(), 12);
        assert_eq!(session_packets(CONS, 0x1000000000).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_negative_session_id_is_its_bits_in_hexadecimal() {
        let cons = "/127.0.0.1:1[1](queued=0,recved=7,sent=7,sid=0xff00000000000001)";
        assert_eq!(session_packets(cons, 0xff00_0000_0000_0001_u64 as i64).unwrap(), 7);
    }

    #[test]
    fn an_answer_without_the_number_is_an_error_with_the_answer() {
        let error = watch_count("This ZooKeeper instance is not currently serving requests\n").unwrap_err();
        assert!(error.to_string().contains("not currently serving"), "{error}");
    }
}
