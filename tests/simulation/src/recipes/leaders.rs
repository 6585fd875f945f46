//! Elections: in each process, several latches at one path and several selectors at another.
//!
//! Promised are: no two valid leaderships at a time; each is valid when it is handed out; tokens that grow; first come,
//! first served; no node of a valid leadership is deleted; no work beside itself, under a leadership that is lost, or
//! more often than it is told to; each candidate leads in its turn; nothing is left.

mod latch;
mod selector;

use std::mem;
use std::ops::Range;
use std::sync::Weak;

use tokio::sync::watch;

use self::latch::Latch;
use self::selector::Selector;
use super::peers::{self, Held, Library, Peer};
use super::prelude::*;

pub(super) const RECIPE: Recipe =
    Recipe::new("leaders", |world| Box::pin(play(world)), &[LATCHES, SELECTORS], "terms");

const LATCHES: &str = "/l1";
const SELECTORS: &str = "/l2";

/// A leadership that a candidate was given.
struct Term {
    path: &'static str,
    who: String,
    token: i64,
    is_valid: Box<dyn Fn() -> bool>,
}

#[derive(Default)]
struct Terms {
    present: Vec<Term>,
    tokens: BTreeMap<&'static str, i64>,
}

thread_local! {
    static TERMS: RefCell<Terms> = RefCell::default();
}

/// Whether a leadership excludes others: by what it says, and while no operator has interfered.
fn is_valid(leadership: &Weak<Leadership>) -> bool {
    let is_excused = |leadership: &Leadership| judge::is_excused(leadership.node_path());
    leadership.upgrade().is_some_and(|leadership| leadership.is_valid() && !is_excused(&leadership))
}

/// No one has a valid leadership but that of this token.
fn expect_alone(who: &str, path: &str, token: i64) {
    TERMS.with_borrow_mut(|terms| {
        terms.present.retain(|term| (term.is_valid)());
        let others = terms.present.iter().filter(|term| term.path == path && term.token != token);
        let others: Vec<_> = others.map(|term| (&*term.who, term.token)).collect();
        if !others.is_empty() {
            violation(format!("{who} leads {path} with {token} beside {others:?}"));
        }
    });
}

fn begins(term: Term) {
    if (term.is_valid)() {
        expect_alone(&term.who, term.path, term.token);
    }
    TERMS.with_borrow_mut(|terms| terms.present.push(term));
}

fn millis(range: Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

async fn play(world: World) {
    TERMS.take();
    let clients = world.processes(process).await;
    TERMS.take();
    sleep(Duration::from_secs(3)).await;
    for path in RECIPE.paths {
        expect_nothing(&world, path, |_| true);
    }
    world.ends(clients).await;
}

async fn process(world: World, machine: Machine) -> Client {
    let client = machine.client().await;
    let tasks = (0..4).map(|task| {
        let (kind, path) = if task < 2 { ("latch", LATCHES) } else { ("selector", SELECTORS) };
        let who = format!("machine {} {kind} {task}", machine.number());
        let (servers, plan) = (world.servers().clone(), world.plan());
        let is_punctual = plan.is_punctual();
        let candidate = Candidate { who, path, servers, is_punctual };
        match kind {
            "latch" => machine.spawn(Latch::new(&world, &client, candidate).stands()),
            _ => machine.spawn(Selector::new(&world, &client, candidate).stands()),
        }
    });
    let who = format!("machine {} peer", machine.number());
    let peer = chance(60).then(|| machine.spawn(peer_stands(world.clone(), machine.clone(), who)));
    all_done(tasks.chain(peer).collect::<Vec<_>>()).await;
    client
}

/// One who has a latch of Curator.
async fn peer_stands(world: World, machine: Machine, who: String) {
    let leads = async |peer: &Peer, until| peer.leads(LATCHES, until).await;
    let name = who.clone();
    let holds = async |held: &Held| {
        count("terms of peers", 1);
        let is_valid = Box::new(held.validity());
        begins(Term { path: LATCHES, who: name.clone(), token: held.czxid, is_valid });
        sleep(millis(0..500)).await;
    };
    peers::competes(world, machine, Library::Curator, who, leads, holds).await;
}

#[derive(Clone)]
struct Candidate {
    who: String,
    path: &'static str,
    servers: MemoryEnsemble,
    is_punctual: bool,
}

impl Candidate {
    /// Judges a leadership that was just handed out. While the result lives, the candidate acts as the leader.
    #[must_use]
    fn leads(&self, leadership: &Leadership) -> Arc<Leadership> {
        let Self { who, path, .. } = self;
        let token = leadership.fencing_token();
        if !leadership.is_valid() {
            violation(format!("{who} is given a leadership that is lost: {:?}", leadership.loss()));
        }
        let is_excused = judge::is_excused(leadership.node_path());
        let term = Arc::new(leadership.clone());
        let known = Arc::downgrade(&term);
        let is_valid = move || is_valid(&known);
        judge::keep(leadership.node_path(), who.clone(), is_valid.clone());
        let is_valid = Box::new(is_valid);
        begins(Term { path, who: who.clone(), token, is_valid });
        let last = TERMS.with_borrow_mut(|terms| {
            let last = terms.tokens.entry(path).or_default();
            mem::replace(last, token.max(*last))
        });
        if token < last && !is_excused {
            violation(format!("{who} leads {path} with {token} after {last}"));
        }
        if token > last {
            self.is_elected(leadership);
        }
        term
    }

    /// No one else has a valid leadership.
    fn expect_alone(&self, leadership: &Leadership) {
        if !judge::is_excused(leadership.node_path()) {
            expect_alone(&self.who, self.path, leadership.fencing_token());
        }
    }

    /// Judges a term at the first sight of it.
    fn is_elected(&self, leadership: &Leadership) {
        let Self { who, path, .. } = self;
        let (token, node) = (leadership.fencing_token(), leadership.node_path());
        count("terms", 1);
        note(|| format!("{who} leads {path} by {node} with {token}"));
        let found = self.servers.node(node);
        // Asked last: to look at a node may bring its end.
        if judge::is_excused(node) {
            return;
        }
        if found.as_ref().map(|node| node.czxid) != Some(token) {
            violation(format!("{who} leads by {node} with {token}, servers have {found:?}"));
        }
        first_come_first_served(&self.servers, who, node, |_| true);
    }

    fn options(&self) -> (LeaderOptions, Option<watch::Sender<bool>>) {
        let mut options = LeaderOptions::new().id(&*self.who).grace(millis(1..2000));
        if chance(60) {
            options = options.suspect_policy(SuspectPolicy::GiveUp);
        }
        if !chance(60) {
            return (options, None);
        }
        let (eligible, is_eligible) = watch::channel(true);
        (options.eligible_while(is_eligible), Some(eligible))
    }

    /// In calm weather, one that is not eligible is not in the queue. It is eligible then.
    async fn stands_aside(&self, eligible: &watch::Sender<bool>) {
        eligible.send_replace(false);
        // Longer than any session timeout with its tick: the nodes of a crashed machine are gone by then.
        sleep(Duration::from_secs(15)).await;
        for _ in 0..20 {
            let nodes = self.servers.nodes_below(self.path);
            let of_own = |node: &NodeInfo| String::from_utf8_lossy(&node.data).contains(&self.who);
            if let Some((path, _)) = nodes.iter().find(|(_, node)| of_own(node)) {
                violation(format!("{} is not eligible, and stands by {path}", self.who));
                break;
            }
            sleep(millis(1..50)).await;
        }
        eligible.send_replace(true);
    }

    /// In the storm, a close may take its time, but not any time.
    async fn closes(&self, world: &World, close: impl Future) {
        const LONGEST: Duration = Duration::from_secs(90);
        let closed = world.chancy(close, LONGEST).await;
        if closed.is_none() && !world.plan().has(Fault::Drop) {
            violation(format!("{}: a close takes more than {LONGEST:?}", self.who));
        }
    }
}
