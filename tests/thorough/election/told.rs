//! Shows that the judge knows right from wrong, by stories that are told to it.

use std::sync::Arc;

use crate::history::{Deed, Event, History, Library};
use crate::report::Report;
use crate::verdict::{Case, Downtime, Verdict};
use crate::witness::{Life, Node, Seen};
use crate::{LONGEST_GAP, SESSION_TIMEOUT};

/// One of ours and then another one lead, all in seconds.
#[derive(Clone, Copy)]
struct Told {
    /// From when until when, and with which token.
    terms: [(f64, f64, i64); 2],
    /// When their nodes were gone.
    gone: [f64; 2],
    /// When the session of the first one was killed.
    killed: Option<f64>,
    /// Whether its node was there when the second one led.
    is_beside: bool,
    /// What is known of the node of the first one if it is Curator's, and nobody could look at it.
    unseen: Option<Life>,
    down: Option<(f64, f64)>,
}

pub(crate) fn judge_knows_right_from_wrong() {
    const TIMEOUT: f64 = SESSION_TIMEOUT.as_secs_f64();
    const GAP: f64 = LONGEST_GAP.as_secs_f64();
    let well = Told {
        terms: [(1.0, 2.0, 1), (2.1, 9.0, 2)],
        gone: [2.05, 9.1],
        killed: None,
        is_beside: false,
        unseen: None,
        down: None,
    };
    let late = Told { terms: [(1.0, 2.0, 1), (2.1 + GAP, 9.0, 2)], ..well };
    let beside = Told { terms: [(1.0, 2.2, 1), (2.1, 9.0, 2)], ..well };
    let unseen = |born, ended, ended_at: Option<f64>| Told {
        unseen: Some(Life { born, ended, ended_at: ended_at.map(nanos) }),
        // The transaction that created the node of the second one.
        terms: [(1.0, 2.2, 3), (2.1, 9.0, 7)],
        ..well
    };
    let wrong = [
        ("Curator's leads by a node that was deleted later", unseen(Some(3), Some(8), Some(2.3))),
        ("Curator's leads, and nothing is known of the end of its node", unseen(Some(3), None, None)),
        ("Curator's leads, and nothing is known of its node", unseen(None, None, None)),
        ("two lead", Told { gone: [2.3, 9.1], ..beside }),
        ("one leads without a node", Told { gone: [1.9, 9.1], ..well }),
        ("an older one follows", Told { terms: [(1.0, 2.0, 2), (2.1, 9.0, 1)], ..well }),
        ("one leads although an older node is there", Told { is_beside: true, ..well }),
        ("nobody leads", late),
        (
            "nobody leads for long, whatever it believes",
            Told { terms: beside.terms, gone: [2.05 - GAP, 9.1], ..well },
        ),
        ("one should know that its session was killed", {
            Told { terms: [(1.0, 2.1 + TIMEOUT, 1), (2.1, 9.0, 2)], killed: Some(2.0), ..well }
        }),
    ];
    for (what, told) in wrong {
        assert!(!told.judge().faults.is_empty(), "{what}, and nobody sees it");
    }
    let right = [
        ("all is well", well),
        ("nobody can lead without a server", Told { down: Some((2.5, 3.0)), ..late }),
        ("Curator's believes to lead, but its node was gone before", unseen(Some(3), Some(6), Some(2.3))),
        ("Curator's believes to lead, but the end of its node was told", unseen(None, None, Some(2.15))),
        ("one cannot know that its session was killed", Told { killed: Some(2.0), ..beside }),
    ];
    for (what, told) in right {
        told.judge().assert_no_fault(what);
    }
}

impl Told {
    fn judge(&self) -> Verdict {
        let (history, mut seen) = (History::default(), Seen::default());
        for (index, (from, until, token)) in self.terms.into_iter().enumerate() {
            let node = name(index);
            let candidate: Arc<str> = node.clone().into();
            let gone_at = Some(nanos(self.gone[index]));
            let unseen = self.unseen.filter(|_| index == 0);
            match unseen {
                Some(life) => drop(seen.lives.insert(node.clone(), life)),
                None => drop(seen.nodes.insert(node.clone(), Node { token, session: token, gone_at })),
            }
            let (library, token) =
                if unseen.is_some() { (Library::Curator, 0) } else { (Library::Ours, token) };
            let leads = Report::Leads { term: 1, at: nanos(from), node, token };
            history.record(&candidate, library, leads);
            history.record(&candidate, library, Report::Looks { term: 1, at: nanos(until) });
        }
        if self.is_beside {
            seen.beside.insert(name(1), [name(0)].into());
        }
        let mut story = history.take();
        let kill = |at| Event { deed: Deed::KillSession, at: nanos(at), node: name(0) };
        story.events.extend(self.killed.map(kill));
        let down = self.down.map(|(from, until)| Downtime { from: nanos(from), until: nanos(until) });
        let downtimes = down.as_slice();
        Case { story: &story, seen: &seen, downtimes, longest_gap: LONGEST_GAP }.judge()
    }
}

fn name(index: usize) -> String {
    format!("/told/{index:010}")
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
