//! Whether the last view is still what the servers show.

use std::time::Duration;

use tokio::time::Instant;
use zk_recipes::{Client, ConnectionState, Watch};

/// From how long on a look is told to have no answer yet.
const SLOW: Duration = Duration::from_secs(3);

/// What is known of the looks and the connection.
#[derive(Debug)]
pub(super) struct Sight {
    connection: Watch<ConnectionState>,
    /// When the last view was complete.
    seen: Option<Instant>,
    /// Since when a look is under way, or one has failed.
    looking: Option<Instant>,
}

impl Sight {
    pub(super) fn new(client: &Client) -> Self {
        Self { connection: client.watch_connection(), seen: None, looking: None }
    }

    /// A look begins.
    pub(super) fn looks(&mut self) {
        self.looking.get_or_insert_with(Instant::now);
    }

    /// It has succeeded.
    pub(super) fn has_seen(&mut self) {
        (self.seen, self.looking) = (Some(Instant::now()), None);
    }

    /// Why the view may be old.
    pub(super) fn doubt(&self) -> Option<String> {
        let is_connected = self.connection.get().is_connected();
        let since = |start: Option<Instant>| start.map(|start| start.elapsed());
        doubt(is_connected, since(self.looking), since(self.seen))
    }
}

fn doubt(is_connected: bool, looking: Option<Duration>, seen: Option<Duration>) -> Option<String> {
    let reason = match looking {
        _ if !is_connected => "not connected to any server",
        Some(time) if time >= SLOW => "the servers have not answered yet",
        _ => return None,
    };
    Some(match seen {
        Some(age) => format!("as of {} ago; {reason}", crate::time::age(age)),
        None => reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_doubted_without_a_connection_or_an_answer() {
        let (short, long) = (Some(Duration::from_secs(2)), Some(Duration::from_secs(12)));
        for (is_connected, looking, seen, expected) in [
            (true, None, long, None),
            (true, short, long, None),
            (true, long, long, Some("as of 12s ago; the servers have not answered yet")),
            (false, None, long, Some("as of 12s ago; not connected to any server")),
            (false, short, None, Some("not connected to any server")),
        ] {
            assert_eq!(doubt(is_connected, looking, seen).as_deref(), expected);
        }
    }
}
