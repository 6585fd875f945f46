//! Takes a world through everything that can happen in it.
//!
//! States are told apart by hashes of 64 bits. Among ten million, two are taken for one with a probability of 1 in 300,000.

use std::collections::{HashSet, VecDeque};
use std::fmt::{Debug, Display};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::seen::Seen;

/// What must hold in every state, or in some.
pub(crate) type Property<W> = (&'static str, fn(&W) -> bool);

/// Everything that there is in a game, at one moment.
pub(crate) trait Checkable: Clone + Hash + Sized + 'static {
    type Game: Display + Sync + 'static;
    type Step: Debug;

    /// All games, the short ones first.
    const GAMES: &'static [Self::Game];
    /// What must always be true.
    const ALWAYS: &'static [Property<Self>];
    /// What must be true at some time in each game.
    const SOMETIMES: &'static [Property<Self>] = &[];
    /// What the games are for: each must be seen in one of them.
    const TO_BE_SEEN: &'static [&'static str];

    fn begin(game: &'static Self::Game) -> Vec<Self>;

    /// What can happen next.
    fn next(&self, steps: &mut Vec<Self::Step>);

    /// Takes a step, and notes what is to be seen of it.
    fn step(&mut self, step: Self::Step, seen: &Seen);
}

/// What has come of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// How many states were reached, counting each as often as it was.
    pub(crate) states: usize,
    pub(crate) unique: usize,
    /// What was wrong, and the steps to that.
    pub(crate) wrong: Option<(&'static str, Vec<String>)>,
}

/// In which order states are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Those near the beginning first: to find the shortest way to what is wrong, and anything where steps never end.
    Near,
    /// The latest first: it keeps few states at a time.
    Latest,
}

/// Takes all steps from all states, until something is wrong, or so many states were reached.
pub(crate) fn search<W: Checkable>(game: &'static W::Game, seen: &Seen, order: Order, most: usize) -> Found {
    let mut found = Found::default();
    let mut known = HashSet::<u64, BuildHasherDefault<AsItIs>>::default();
    // Of each state the one that it was reached from, and by which of the steps that can be taken there.
    let mut ways: Vec<(usize, usize)> = Vec::new();
    let mut pending = VecDeque::new();
    let mut sometimes = W::SOMETIMES.to_vec();
    let mut steps = Vec::new();
    for (index, world) in W::begin(game).into_iter().enumerate() {
        known.insert(fingerprint(&world));
        pending.push_back((ways.len(), world));
        ways.push((usize::MAX, index));
    }
    found.states = ways.len();
    while let Some((at, world)) = if order == Order::Near { pending.pop_front() } else { pending.pop_back() }
    {
        if let Some((property, _)) = W::ALWAYS.iter().find(|(_, holds)| !holds(&world)) {
            found.wrong = Some((property, way_to::<W>(game, at, &ways)));
            break;
        }
        sometimes.retain(|(_, holds)| !holds(&world));
        world.next(&mut steps);
        let mut world = Some(world);
        let last = steps.len().wrapping_sub(1);
        for (index, step) in steps.drain(..).enumerate() {
            let next = if index == last { world.take() } else { world.clone() };
            let mut next = next.expect("it is taken by the last");
            next.step(step, seen);
            found.states += 1;
            if known.insert(fingerprint(&next)) {
                pending.push_back((ways.len(), next));
                ways.push((at, index));
            }
        }
        if found.states > most {
            break;
        }
    }
    found.unique = ways.len();
    if let (true, None, Some((never, _))) = (pending.is_empty(), &found.wrong, sometimes.first()) {
        found.wrong = Some((never, vec!["never".to_owned()]));
    }
    found
}

/// The steps that lead to a state.
fn way_to<W: Checkable>(game: &'static W::Game, mut at: usize, ways: &[(usize, usize)]) -> Vec<String> {
    let mut choices = Vec::new();
    while let Some((from, choice)) = ways.get(at) {
        choices.push(*choice);
        at = *from;
    }
    let begin = choices.pop().expect("each way begins");
    let mut world = W::begin(game).swap_remove(begin);
    let unseen = Seen::none_of(W::TO_BE_SEEN);
    let step = |choice| {
        let mut steps = Vec::new();
        world.next(&mut steps);
        let step = steps.swap_remove(choice);
        let shown = format!("{step:?}");
        world.step(step, &unseen);
        shown
    };
    choices.into_iter().rev().map(step).collect()
}

pub(crate) fn fingerprint(world: &impl Hash) -> u64 {
    let mut hasher = Folding(0);
    world.hash(&mut hasher);
    hasher.finish()
}

/// Multiplies, and folds the high half into the low one: much faster than the standard library's hash, and as good where
/// nobody chooses what is hashed.
struct Folding(u64);

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.write_u64(u64::from_le_bytes(chunk.try_into().expect("it has eight bytes")));
        }
        let rest = chunks.remainder();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last) ^ (rest.len() as u64) << 56);
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let value = (self.0.rotate_left(23) ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let product = u128::from(value) * 0xa076_1d64_78bd_642f;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Of numbers that are hashes.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed")
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
