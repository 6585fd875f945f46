//! Creates whose replies were lost. No I/O, no clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::decision::Seen;

/// Longer than a server that the client has left goes on with its requests, in session timeouts.
const LATE: u32 = 2;

/// The creates with an unknown outcome: one of them may have made what is at the path, or be carried out late.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt {
    /// What they were to write.
    data: Vec<Arc<[u8]>>,
    /// None of them is carried out later than this.
    until: Option<Instant>,
    /// Whether it was found out since the last of them what is at the path.
    is_settled: bool,
}

impl Doubt {
    /// Notes that the reply to a create was lost.
    pub(super) fn begins(&mut self, data: &Arc<[u8]>, now: Instant, session_timeout: Duration) {
        if !self.lasts(now) {
            self.data.clear();
        }
        if !self.data.contains(data) {
            self.data.push(data.clone());
        }
        self.until = Some(now + session_timeout * LATE);
        self.is_settled = false;
    }

    /// Notes that it is known what is at the path. A create may still be carried out late.
    pub(super) fn settles(&mut self) {
        self.is_settled = true;
    }

    /// Returns until when a create may be carried out, if that may still be.
    pub(super) fn may_be_late(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// Whether a node that is not known may be one that such a create has made.
    pub(super) fn lasts(&self, now: Instant) -> bool {
        self.may_be_late(now).is_some() || (self.until.is_some() && !self.is_settled)
    }

    /// Whether this counts as a persistent node that such a create has made: no one has written to it, and it has the data.
    pub(super) fn has_made(&self, seen: &Seen, has: impl Fn(&[u8]) -> bool) -> bool {
        seen.owner == 0 && seen.version == 0 && self.data.iter().any(|data| has(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3);

    #[test]
    fn it_lasts_until_the_path_is_known_and_no_create_is_late() {
        let now = Instant::now();
        let late = now + TIMEOUT * LATE;
        let mut doubt = Doubt::default();
        assert!(!doubt.lasts(now));
        doubt.begins(&[1].into(), now, TIMEOUT);
        assert!(doubt.lasts(now) && doubt.lasts(late), "nothing is known yet");
        doubt.settles();
        assert!(doubt.lasts(now) && !doubt.lasts(late));
        assert_eq!((doubt.may_be_late(now), doubt.may_be_late(late)), (Some(late), None));
        doubt.begins(&[1].into(), late, TIMEOUT);
        assert!(doubt.lasts(late + TIMEOUT * LATE), "another create");
    }

    #[test]
    fn what_it_has_made_has_its_data_and_no_owner() {
        let now = Instant::now();
        let seen = |owner, version| Seen { owner, czxid: 100, version };
        let mut doubt = Doubt::default();
        let has_made = |doubt: &Doubt, seen: Seen, there: u8| doubt.has_made(&seen, |data| data == [there]);
        assert!(!has_made(&doubt, seen(0, 0), 1));
        doubt.begins(&[1].into(), now, TIMEOUT);
        doubt.begins(&[2].into(), now, TIMEOUT);
        assert!(has_made(&doubt, seen(0, 0), 1) && has_made(&doubt, seen(0, 0), 2));
        assert!(!has_made(&doubt, seen(0, 0), 3), "other data");
        assert!(!has_made(&doubt, seen(0, 1), 1), "someone has written to it");
        assert!(!has_made(&doubt, seen(7, 0), 1), "an ephemeral node");
        doubt.settles();
        doubt.begins(&[3].into(), now + TIMEOUT * LATE, TIMEOUT);
        assert!(!has_made(&doubt, seen(0, 0), 1), "that is long ago");
    }
}
