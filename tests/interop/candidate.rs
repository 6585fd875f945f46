//! Candidates of ours, of both recipes.

use std::convert::Infallible;

use crate::interop::prelude::*;

/// Where all of them stand.
pub(crate) const PATH: &str = "/leaders/a";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Latch,
    Selector,
}

/// One that leads until it is closed or asked to resign, and stands again then.
pub(crate) enum Candidate {
    Latch(LeaderLatch),
    Selector(LeaderSelector),
}

macro_rules! either {
    ($candidate:expr, $it:ident => $result:expr) => {
        match $candidate {
            Candidate::Latch($it) => $result,
            Candidate::Selector($it) => $result,
        }
    };
}

impl Recipe {
    /// What a peer opens.
    pub(crate) fn open(self, data: &str) -> String {
        let kind = match self {
            Self::Latch => "latch",
            Self::Selector => "selector",
        };
        format!("{kind} {PATH} {data}").trim_end().to_owned()
    }

    /// In the names of the nodes.
    pub(crate) fn marker(self) -> &'static str {
        match self {
            Self::Latch => "-latch-",
            Self::Selector => "-lock-",
        }
    }

    pub(crate) fn start(self, client: &Client, options: LeaderOptions) -> Candidate {
        match self {
            Self::Latch => Candidate::Latch(LeaderLatch::start(client, PATH, options).unwrap()),
            Self::Selector => {
                let work = |leadership: Leadership| async move {
                    leadership.resign_requested().await;
                    Ok::<(), Infallible>(())
                };
                Candidate::Selector(LeaderSelector::start(client, PATH, options, work).unwrap())
            }
        }
    }

    /// One of ours in a line, which leaves when it has led.
    pub(crate) fn ours(self, name: &'static str, client: &Client, options: LeaderOptions) -> Contender {
        let client = client.clone();
        Contender::acting(name, async move {
            let candidate = self.start(&client, options);
            candidate.elected().await;
            Release::by(async move { candidate.close().await.unwrap() })
        })
    }
}

impl Candidate {
    /// Waits, without a bound, until it leads.
    pub(crate) async fn elected(&self) -> Leadership {
        let mut state = either!(self, it => it.watch_state());
        match &state.wait_for(LeaderState::is_leading).await.expect("it is not closed") {
            LeaderState::Leading(leadership) => leadership.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn leads(&self) -> Leadership {
        within(self.elected()).await
    }

    pub(crate) fn has_leadership(&self) -> bool {
        either!(self, it => it.has_leadership())
    }

    pub(crate) async fn participants(&self) -> Vec<Participant> {
        either!(self, it => it.participants().await.unwrap())
    }

    pub(crate) async fn leader(&self) -> Option<Participant> {
        either!(self, it => it.leader().await.unwrap())
    }

    pub(crate) async fn transfer(&self) -> Option<Participant> {
        either!(self, it => it.transfer().await.unwrap())
    }

    pub(crate) async fn close(&self) -> Result<()> {
        match self {
            Self::Latch(latch) => latch.close(CloseMode::Silent).await,
            Self::Selector(selector) => selector.close().await,
        }
    }
}

/// Options with this id.
pub(crate) fn id(id: &str) -> LeaderOptions {
    LeaderOptions::new().id(id)
}

/// The ids of participants, as the peers tell them.
pub(crate) fn ids<'a>(participants: impl IntoIterator<Item = &'a Participant>) -> String {
    let ids = participants.into_iter().map(|it| match it.identity().unwrap() {
        [] => "-".into(),
        id => String::from_utf8_lossy(id),
    });
    ids.collect::<Vec<_>>().join(" ")
}
