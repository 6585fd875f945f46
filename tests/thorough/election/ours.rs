//! A candidate of ours, in whatever process.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use zk_recipes::{Client, CloseMode, Error, LeaderLatch, LeaderOptions, LeaderSelector, Leadership};

use crate::report::{Command, Report};
use crate::stage::Recipe;
use crate::support::builder;
use crate::{SESSION_TIMEOUT, clock};

/// So long the work of a leader does not await.
const STEP: Duration = Duration::from_millis(3);

/// The role of a process that is a candidate.
pub(crate) const CHILD: &str = "candidate";

pub(crate) async fn connect(connect_string: &str, name: &str) -> Client {
    let builder = builder().session_timeout(SESSION_TIMEOUT).identity(name);
    builder.connect(connect_string).await.unwrap()
}

/// A process that is a candidate, until its input ends.
pub(crate) async fn live_in_process(recipe: Recipe, connect_string: &str, path: &str, name: &str) {
    let client = connect(connect_string, name).await;
    println!("{}", Report::Ready { at: clock::now() });
    let (tell, commands) = mpsc::unbounded_channel();
    let obeying = async {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            tell.send(Command::parse(&line)).unwrap();
        }
        drop(tell);
    };
    tokio::join!(obeying, live(&client, recipe, path, commands, |report| println!("{report}")));
    client.close().await;
}

/// Stands, does what it is told and says how it stands, until there are no more commands.
pub(crate) async fn live(
    client: &Client,
    recipe: Recipe,
    path: &str,
    mut commands: UnboundedReceiver<Command>,
    report: impl FnMut(Report),
) {
    let standing = Mutex::new(Standing::start(client, recipe, path));
    let present = || standing.lock().unwrap().clone();
    let obeying = async {
        while let Some(command) = commands.recv().await {
            match command {
                Command::Resign => present().resign().await,
                Command::Renew => {
                    present().close().await;
                    *standing.lock().unwrap() = Standing::start(client, recipe, path);
                }
            }
        }
        present().close().await;
    };
    tokio::select! {
        () = obeying => {}
        () = look(present, report) => {}
    }
}

#[derive(Clone)]
struct Standing {
    candidate: Candidate,
    works: Works,
}

/// By which token it works; zero while it does not.
type Works = Arc<AtomicI64>;

#[derive(Clone)]
enum Candidate {
    Latch(LeaderLatch),
    Selector(LeaderSelector),
}

/// What a leader does. It cannot be dropped between two awaits, so whoever ends a term in order must wait for it.
async fn work(leadership: Leadership, works: Works) {
    struct Working(Works);
    impl Drop for Working {
        fn drop(&mut self) {
            self.0.store(0, SeqCst);
        }
    }
    assert_eq!(works.swap(leadership.fencing_token(), SeqCst), 0, "it works already");
    let _working = Working(works);
    while !leadership.is_resigning() {
        tokio::task::block_in_place(|| std::thread::sleep(STEP));
        tokio::task::yield_now().await;
    }
}

impl Standing {
    fn start(client: &Client, recipe: Recipe, path: &str) -> Self {
        let options = LeaderOptions::new();
        let works = Works::default();
        let candidate = match recipe {
            Recipe::Latch => Candidate::Latch(LeaderLatch::start(client, path, options).unwrap()),
            Recipe::Selector => {
                let works = works.clone();
                let work = move |leadership| work(leadership, works.clone()).map(Ok::<(), Error>);
                Candidate::Selector(LeaderSelector::start(client, path, options, work).unwrap())
            }
        };
        Self { candidate, works }
    }

    /// A selector works by itself.
    fn begin_to_work(&self, leadership: &Leadership) {
        if let Candidate::Latch(_) = &self.candidate {
            let (leadership, works) = (leadership.clone(), self.works.clone());
            tokio::spawn(async move { leadership.run(work(leadership.clone(), works)).await });
        }
    }

    fn leadership(&self) -> Option<Leadership> {
        match &self.candidate {
            Candidate::Latch(latch) => latch.leadership(),
            Candidate::Selector(selector) => selector.leadership(),
        }
    }

    async fn resign(&self) {
        match &self.candidate {
            Candidate::Latch(latch) => {
                if let Some(leadership) = latch.leadership() {
                    expect_resigned(leadership.resign().await);
                }
            }
            Candidate::Selector(selector) => selector.interrupt_leadership(),
        }
    }

    async fn close(&self) {
        expect_resigned(match &self.candidate {
            Candidate::Latch(latch) => latch.close(CloseMode::Silent).await,
            Candidate::Selector(selector) => selector.close().await,
        });
    }
}

/// The leadership may be lost before.
fn expect_resigned(outcome: zk_recipes::Result<()>) {
    assert!(matches!(outcome, Ok(()) | Err(Error::LockLost { .. })), "{outcome:?}");
}

/// A term that is seen, by its token.
struct Term {
    token: i64,
    /// `None` if only its work was seen.
    leadership: Option<Leadership>,
}

/// Looks each millisecond whether it believes to lead, by what it says and by what it does, without end.
async fn look(present: impl Fn() -> Standing, mut report: impl FnMut(Report)) {
    let mut number = 0;
    let mut term: Option<Term> = None;
    loop {
        let before = clock::now();
        let standing = present();
        // First, so that a term that both are of is seen by what it says.
        let works = standing.works.load(SeqCst);
        let leadership = standing.leadership();
        let said = leadership.as_ref().map(Leadership::fencing_token);
        // Also a term that is being resigned is valid, and must be over before that of another.
        let goes_on = |term: &Term| {
            let is_valid = term.leadership.as_ref().is_some_and(Leadership::is_valid);
            said.is_none_or(|said| said == term.token) && (is_valid || works == term.token)
        };
        match &term {
            Some(term) if goes_on(term) => report(Report::Looks { term: number, at: before }),
            _ => {
                if term.take().is_some() {
                    report(Report::Ends { term: number });
                }
                // Its work may have ended in between.
                let seen = said.or((works != 0 && works == standing.works.load(SeqCst)).then_some(works));
                if let Some(token) = seen {
                    number += 1;
                    let at = clock::now();
                    let node = leadership.as_ref().map_or("-", Leadership::node_path).to_owned();
                    report(Report::Leads { term: number, at, node, token });
                    if let Some(leadership) = &leadership {
                        standing.begin_to_work(leadership);
                    }
                    term = Some(Term { token, leadership });
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
