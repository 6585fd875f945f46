//! What a contender makes of a list of children, and of its turn in the local queue.

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};

use crate::pure::connection::Connection;
use crate::pure::contender::{Action, Contender, Event, Standing, WatchState};
use crate::pure::local_queue::{LocalQueue, Rank};
use crate::pure::name::MUTEX;
use crate::pure::order::{Contenders, Queued};
use crate::pure::rule::verdict;

/// The only connection.
const NOW: Connection = Connection(1);

pub(crate) fn bench(criterion: &mut Criterion) {
    list(criterion);
    turn(criterion);
}

/// Looking at a queue from its end, which has the most to look at.
fn list(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("list");
    for len in [10, 1_000, 10_000] {
        let own = contender_node(len);
        let children = children_in_no_order(len);
        group.throughput(Throughput::Elements(len.unsigned_abs().into()));

        group.bench_function(BenchmarkId::new("read, order, judge", len), |bencher| {
            bencher.iter_batched(
                || children.clone(),
                |children| {
                    let queue =
                        Contenders::among(children, &MUTEX, |_| ()).in_order().expect("small numbers");
                    let verdict = verdict(&queue, queue.len() - 1);
                    (queue, verdict)
                },
                BatchSize::LargeInput,
            );
        });

        // With all that the local queue learns from it, and the end of the list.
        group.bench_function(BenchmarkId::new("a contender hears of it", len), |bencher| {
            let mut local = LocalQueue::default();
            let mut contender = Contender::new(&MUTEX);
            let at = local.moment(NOW);
            let rank = local.arrive(&own, Some(at), NOW, ());
            let created = Event::Created { own: own.clone(), rank, children: None, at };
            assert_eq!(contender.on(created, &mut local, NOW, |_| ()), Action::List);
            bencher.iter_batched(
                || children.clone(),
                |children| contender.on(Event::Listed { children, at }, &mut local, NOW, |_| ()),
                BatchSize::LargeInput,
            );
            let position = usize::try_from(len).expect("a small number") - 1;
            assert_eq!(contender.standing(), Standing::Waiting { position });
        });
    }
    group.finish();
}

/// One round of a local queue that never gets shorter: its first leaves, the next is granted, and another enters at the end.
fn turn(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("turn");
    for len in [1, 10, 1_000] {
        group.bench_function(BenchmarkId::new("leave, grant, enter", len), |bencher| {
            let mut queue = OneSession::known();
            let mut number = 0;
            let mut next_node = || {
                number += 1;
                contender_node(number)
            };
            for _ in 0..len {
                queue.enter(next_node());
            }
            bencher.iter_batched(next_node, |node| queue.turn(node), BatchSize::SmallInput);
        });
    }
    group.finish();
}

/// A queue all of whose contenders live in one session.
struct OneSession {
    /// A contender is woken by its number.
    local: LocalQueue<i32>,
    contenders: VecDeque<(i32, Rank, Contender)>,
}

impl OneSession {
    /// Empty, and known to be.
    fn known() -> Self {
        let mut local = LocalQueue::default();
        local.parent_watched(NOW);
        local.clear_up_to(0, local.moment(NOW));
        Self { local, contenders: VecDeque::new() }
    }

    fn enter(&mut self, own: Queued) {
        let number = own.sequence;
        let at = self.local.moment(NOW);
        let rank = self.local.arrive(&own, Some(at), NOW, number);
        let mut contender = Contender::new(&MUTEX);
        let created = Event::Created { own, rank, children: None, at };
        contender.on(created, &mut self.local, NOW, |_| ());
        if contender.standing() != Standing::Granted {
            assert_eq!(contender.park(NOW), Action::Watch { own: true, blocker: None });
            let watched = Event::Watched { own: WatchState::There, blocker: WatchState::Unwatched, on: NOW };
            assert_eq!(contender.on(watched, &mut self.local, NOW, |_| ()), Action::Await);
        }
        self.contenders.push_back((number, rank, contender));
    }

    fn turn(&mut self, newcomer: Queued) {
        if let Some((_, holder, _)) = self.contenders.pop_front() {
            for woken in self.local.leave(holder) {
                let (number, _, contender) = self.contenders.front_mut().expect("somebody was woken");
                assert_eq!(*number, woken);
                let event = Event::Woken { own: WatchState::There, blocker: WatchState::Unwatched };
                contender.on(event, &mut self.local, NOW, |_| ());
                assert_eq!(contender.standing(), Standing::Granted);
            }
        }
        self.enter(newcomer);
        black_box(&self.contenders);
    }
}

fn contender_node(number: i32) -> Queued {
    let name = format!("_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock-{number:010}");
    let (kind, sequence) = MUTEX.read(&name).expect("it is one of ours");
    Queued { name, kind, sequence }
}

/// As a server lists them, always the same.
fn children_in_no_order(len: i32) -> Vec<String> {
    let mut children: Vec<String> = (1..=len).map(|number| contender_node(number).name).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut children);
    children
}
