//! Four-letter words: what operators ask a server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::database::Database;

/// Those that are answered.
const WORDS: [&str; 10] = ["ruok", "srvr", "stat", "mntr", "cons", "dump", "wchs", "wchc", "wchp", "isro"];
const VERSION: &str = concat!("3.9.1-zk-recipes-", env!("CARGO_PKG_VERSION"), ", in memory, for tests only");

/// Returns the word that a connection begins with, if it is one. As a length, it would be far too large.
pub(super) fn known(first: [u8; 4]) -> Option<&'static str> {
    WORDS.into_iter().find(|word| word.as_bytes() == first)
}

/// Returns headings, with what belongs to each below it.
fn listed(pairs: impl Iterator<Item = (String, String)>) -> String {
    let mut below: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (heading, line) in pairs {
        below.entry(heading).or_default().push(line);
    }
    let lines = below.into_iter().map(|(heading, lines)| format!("{heading}\n\t{}\n", lines.join("\n\t")));
    lines.collect()
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
            "dump" => self.sessions_and_ephemerals(),
            "wchs" => self.watches_in_short(),
            "wchc" => listed(self.watched().map(|(session, path)| (session, path.to_owned()))),
            "wchp" => listed(self.watched().map(|(session, path)| (path.to_owned(), session))),
            _ => self.metrics(),
        })
    }

    fn summary(&self) -> String {
        let Self { received, sent, zxid, mode, .. } = self;
        format!(
            "Zookeeper version: {VERSION}\nLatency min/avg/max: 0/0.0/0\nReceived: {received}\nSent: {sent}\n\
             Connections: {}\nOutstanding: 0\nZxid: {zxid:#x}\nMode: {mode}\nNode count: {}\n",
            self.connections.len(),
            self.nodes(),
        )
    }

    fn metrics(&self) -> String {
        let numbers = [
            ("packets_received", self.received),
            ("packets_sent", self.sent),
            ("num_alive_connections", self.connections.len() as u64),
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
        for connection in self.connections.values() {
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

    fn sessions_and_ephemerals(&self) -> String {
        let ids: Vec<_> = self.sessions.ids().collect();
        let mut text = format!("SessionTracker dump:\nSession Sets (1)/({}):\n", ids.len());
        for id in &ids {
            let _ = writeln!(text, "\t{id:#x}");
        }
        let owned = |id: &i64| self.tree.ephemerals_of(*id, "").len();
        let owners = ids.iter().filter(|id| owned(id) > 0);
        let _ =
            writeln!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", owners.clone().count());
        for id in owners {
            let _ = writeln!(text, "{id:#x}:");
            for path in self.tree.ephemerals_of(*id, "") {
                let _ = writeln!(text, "\t{path}");
            }
        }
        text
    }

    /// Like those of a real server, these words leave out the watches on children.
    fn watched(&self) -> impl Iterator<Item = (String, &str)> {
        let watched = self.watches.on_nodes();
        watched.filter_map(|(path, id)| Some((format!("{:#x}", self.connections.get(&id)?.session?), path)))
    }

    fn watches_in_short(&self) -> String {
        let paths: BTreeSet<_> = self.watches.on_nodes().map(|(path, _)| path).collect();
        let watchers: BTreeSet<_> = self.watches.on_nodes().map(|(_, id)| id).collect();
        let (all, paths, watchers) = (self.watches.on_nodes().count(), paths.len(), watchers.len());
        format!("{watchers} connections watching {paths} paths\nTotal watches:{all}\n")
    }

    /// A real server counts the root twice.
    fn nodes(&self) -> usize {
        self.tree.len() + 1
    }
}
