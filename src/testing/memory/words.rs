//! Four-letter words: what operators ask a server.

use std::fmt::Write as _;

use super::database::Database;

/// Those that are answered.
const WORDS: [&str; 7] = ["ruok", "srvr", "stat", "mntr", "cons", "wchs", "isro"];
const VERSION: &str = concat!("3.9.0-zk-recipes-", env!("CARGO_PKG_VERSION"), ", in memory, for tests only");

/// Returns the word that a connection begins with, if it is one. As a length, it would be far too large.
pub(super) fn known(first: [u8; 4]) -> Option<&'static str> {
    WORDS.into_iter().find(|word| word.as_bytes() == first)
}

impl Database {
    /// Answers a word. `None` if it is not known.
    pub(super) fn answer(&mut self, word: &str) -> Option<String> {
        let word = WORDS.into_iter().find(|known| *known == word)?;
        self.received += 1;
        Some(match word {
            "ruok" => "imok".into(),
            "isro" => "rw".into(),
            "srvr" => self.summary(),
            "stat" => format!("{}{}", self.clients(), self.summary()),
            "cons" => self.clients(),
            "wchs" => format!("Total watches:{}\n", self.watches.len()),
            _ => self.metrics(),
        })
    }

    fn summary(&self) -> String {
        let Self { received, sent, zxid, mode, .. } = self;
        format!(
            "Zookeeper version: {VERSION}\nLatency min/avg/max: 0/0.0/0\nReceived: {received}\nSent: {sent}\n\
             Connections: {}\nOutstanding: 0\nZxid: {zxid:#x}\nMode: {mode}\nNode count: {}\n",
            self.connections.all().len(),
            self.nodes(),
        )
    }

    fn metrics(&self) -> String {
        let numbers = [
            ("packets_received", self.received),
            ("packets_sent", self.sent),
            ("num_alive_connections", self.connections.all().len() as u64),
            ("outstanding_requests", 0),
            ("znode_count", self.nodes() as u64),
            ("watch_count", self.watches.len() as u64),
            ("ephemerals_count", self.tree.ephemerals() as u64),
        ];
        let mut text = format!("zk_version\t{VERSION}\nzk_server_state\t{}\n", self.mode);
        for (name, number) in numbers {
            let _ = writeln!(text, "zk_{name}\t{number}");
        }
        text
    }

    fn clients(&self) -> String {
        let mut text = String::new();
        for connection in self.connections.all() {
            let (peer, received, sent) = (connection.peer, connection.received, connection.sent);
            let _ = write!(text, " /{peer}[1](queued=0,recved={received},sent={sent}");
            if let Some(session) = connection.session {
                let _ = write!(text, ",sid={session:#x}");
            }
            text.push_str(")\n");
        }
        text.push('\n');
        text
    }

    /// A real server counts the root twice.
    fn nodes(&self) -> usize {
        self.tree.len() + 1
    }
}
