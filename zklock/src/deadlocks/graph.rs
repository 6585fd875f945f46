//! The wait-for graph over several queues. No I/O, no clock.
//!
//! An edge leads from each node to those that must be gone, or get on, before it can: from a waiter to those that its
//! queue puts before it, and from a holder to what its session waits for elsewhere, since it is released by a program
//! that may be blocked there.

use std::collections::{HashMap, HashSet};

/// What a participant's node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Excludes all others of its queue.
    Exclusive,
    /// Excludes those that are exclusive.
    Shared,
    /// One permit of a semaphore.
    Lease,
    /// Waits at the gate of a semaphore: the first one there for a permit, others for the one before.
    Gate,
}

/// One participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The full path of its node.
    pub(crate) node: String,
    /// The transaction that created it. Together with the path it names one node, which never comes again.
    pub(crate) czxid: i64,
    pub(crate) session: i64,
    /// Those of the runs below which it runs, and which do not go on before it does.
    pub(crate) outer: Vec<i64>,
    pub(crate) part: Part,
    pub(crate) is_holder: bool,
}

impl Entry {
    /// Those that wait by it. A node without a session is nobody's.
    fn sessions(&self) -> impl Iterator<Item = i64> {
        self.outer.iter().chain([&self.session]).copied().filter(|session| *session != 0)
    }
}

/// The participants of one queue: the holders, and the waiters in order.
pub(crate) type Line = Vec<Entry>;

/// What a node waits for: for all of these, or for any one of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) nodes: Vec<usize>,
    pub(crate) is_one_enough: bool,
}

/// The graph.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    entries: Vec<&'a Entry>,
    waits: Vec<Waits>,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(lines: &'a [Line]) -> Self {
        let mut graph = Self { entries: Vec::new(), waits: Vec::new() };
        let mut queues = Vec::new();
        for (queue, line) in lines.iter().enumerate() {
            let first = graph.entries.len();
            for place in 0..line.len() {
                graph.entries.push(&line[place]);
                graph.waits.push(in_queue(line, place, first));
                queues.push(queue);
            }
        }
        graph.add_sessions(&queues);
        graph
    }

    /// What remains of this graph if only those nodes count that were in the same state in an earlier one. All of them
    /// were there at every moment in between; so a cycle of them is one that existed, and was not put together from
    /// queues that were read one after the other.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        let before: HashMap<_, _> =
            earlier.entries.iter().zip(&earlier.waits).map(|(e, w)| (key(e), (e, w))).collect();
        let keys = |graph: &Self, nodes: &[usize]| -> HashSet<_> {
            nodes
                .iter()
                .map(|node| key(graph.entries[*node]))
                .map(|(node, czxid)| (node.to_owned(), czxid))
                .collect()
        };
        let is_same: Vec<bool> = (0..self.entries.len())
            .map(|node| {
                let entry = self.entries[node];
                let Some((was, waited)) = before.get(&key(entry)) else { return false };
                let waits = &self.waits[node];
                was.is_holder == entry.is_holder
                    && waits.is_one_enough == waited.is_one_enough
                    // Otherwise one of them is gone, so a permit was free.
                    && (!waits.is_one_enough || keys(&self, &waits.nodes) == keys(earlier, &waited.nodes))
            })
            .collect();
        for (waits, is_same_itself) in self.waits.iter_mut().zip(&is_same) {
            let has_new = waits.nodes.iter().any(|node| !is_same[*node]);
            // Where one is enough, the new one may leave at once.
            if !is_same_itself || waits.is_one_enough && has_new {
                waits.nodes.clear();
            }
            waits.nodes.retain(|node| is_same[*node]);
        }
        self
    }

    pub(crate) fn entry(&self, node: usize) -> &'a Entry {
        self.entries[node]
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn waits(&self, node: usize) -> &Waits {
        &self.waits[node]
    }

    /// In how many places a session waits, or those below it.
    pub(crate) fn waiting_places(&self, session: i64) -> usize {
        let waits = |entry: &&&Entry| !entry.is_holder && entry.sessions().any(|one| one == session);
        self.entries.iter().filter(waits).count()
    }

    /// Leads from each holder to what its session waits for, and those below it.
    fn add_sessions(&mut self, queues: &[usize]) {
        let mut waiting: HashMap<i64, Vec<usize>> = HashMap::new();
        for (node, entry) in self.entries.iter().enumerate() {
            if !entry.is_holder {
                entry.sessions().for_each(|session| waiting.entry(session).or_default().push(node));
            }
        }
        for (node, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.is_holder) {
            let Some(waiting) = waiting.get(&entry.session) else { continue };
            let is_only_wait = waiting.len() == 1;
            let elsewhere = waiting.iter().copied().filter(|other| {
                queues[*other] != queues[node]
                    || is_only_wait && may_wait_again(entry.part, self.entries[*other].part)
            });
            self.waits[node].nodes = elsewhere.collect();
        }
    }
}

fn key(entry: &Entry) -> (&str, i64) {
    (&entry.node, entry.czxid)
}

/// What a participant waits for in its queue, which is only the nearest of those that wait for one another.
fn in_queue(line: &Line, place: usize, first: usize) -> Waits {
    let entry = &line[place];
    if entry.is_holder {
        return Waits::default();
    }
    let before = |part| line[..place].iter().rposition(move |other| other.part == part);
    let mut is_one_enough = false;
    let places: Vec<_> = match entry.part {
        Part::Shared => before(Part::Exclusive).into_iter().collect(),
        Part::Exclusive => (before(Part::Exclusive).unwrap_or(0)..place).collect(),
        Part::Gate => match before(Part::Gate) {
            Some(nearest) => vec![nearest],
            None => {
                is_one_enough = true;
                (0..line.len()).filter(|place| line[*place].part == Part::Lease).collect()
            }
        },
        Part::Lease => Vec::new(),
    };
    Waits { nodes: places.into_iter().map(|place| first + place).collect(), is_one_enough }
}

/// Whether the program that holds one node may itself have created another one in the same queue, and wait by it.
///
/// Re-entrant locks do not let it: then the other one is of an independent task. A reader that wants to write does, and
/// who wants another permit.
fn may_wait_again(held: Part, wanted: Part) -> bool {
    matches!((held, wanted), (Part::Shared, Part::Exclusive) | (Part::Lease, Part::Gate))
}
