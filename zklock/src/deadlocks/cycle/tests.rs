use proptest::prelude::*;

use super::super::graph::{Entry, Line, Part};
use super::*;

fn entry(queue: &str, number: usize, session: i64, part: Part, is_holder: bool) -> Entry {
    Entry {
        node: format!("{queue}/{session}-{number}"),
        czxid: number as i64,
        session,
        outer: Vec::new(),
        part,
        is_holder,
    }
}

/// The sessions of a mutex in order.
fn mutex(queue: &str, sessions: &[i64]) -> Line {
    let entries = sessions.iter().enumerate();
    entries.map(|(i, session)| entry(queue, i, *session, Part::Exclusive, i == 0)).collect()
}

/// The readers that hold a read/write lock, and those that wait for it.
fn read_write(queue: &str, readers: &[i64], waiters: &[(Part, i64)]) -> Line {
    let readers = readers.iter().map(|session| (Part::Shared, *session, true));
    let all = readers.chain(waiters.iter().map(|(part, session)| (*part, *session, false)));
    all.enumerate().map(|(i, (part, session, holds))| entry(queue, i, session, part, holds)).collect()
}

fn semaphore(queue: &str, leases: &[i64], gate: &[i64]) -> Line {
    let leases = leases.iter().map(|session| (Part::Lease, *session));
    let all = leases.chain(gate.iter().map(|session| (Part::Gate, *session)));
    all.enumerate().map(|(i, (part, session))| entry(queue, i, session, part, part == Part::Lease)).collect()
}

/// Each deadlock as the nodes of its cycle, from the first by name on.
fn found(lines: &[Line]) -> Vec<Vec<String>> {
    names(&Graph::new(lines))
}

fn names(graph: &Graph<'_>) -> Vec<Vec<String>> {
    let cycles = deadlocks(graph).into_iter().map(|deadlock| {
        let mut cycle: Vec<_> = deadlock.cycle.iter().map(|node| graph.entry(*node).node.clone()).collect();
        let first = (0..cycle.len()).min_by_key(|i| cycle[*i].clone()).unwrap();
        cycle.rotate_left(first);
        cycle
    });
    cycles.collect()
}

fn cycle(nodes: &[&str]) -> Vec<Vec<String>> {
    vec![nodes.iter().map(|node| (*node).to_owned()).collect()]
}

/// Whose inner runs wait by sessions of their own.
#[test]
fn outer_runs_wait_for_what_inner_ones_wait_for() {
    let mut crossing = [mutex("a", &[1, 20]), mutex("b", &[2, 10])];
    assert!(found(&crossing).is_empty());
    crossing[0][1].outer = vec![2];
    assert!(found(&crossing).is_empty(), "one of them goes on");
    crossing[1][1].outer = vec![9, 1];
    assert_eq!(found(&crossing), cycle(&["a/1-0", "b/10-1", "b/2-0", "a/20-1"]));
    // Inner runs side by side wait for each other as any others do.
    let mut beside = [mutex("a", &[10, 11]), mutex("b", &[11, 10])];
    beside.iter_mut().flatten().for_each(|entry| entry.outer = vec![1]);
    assert_eq!(found(&beside), cycle(&["a/10-0", "b/10-1", "b/11-0", "a/11-1"]));
}

#[test]
fn crossing_mutexes_are_a_deadlock() {
    let crossing = [mutex("a", &[1, 2]), mutex("b", &[2, 1])];
    assert_eq!(found(&crossing), cycle(&["a/1-0", "b/1-1", "b/2-0", "a/2-1"]));
    // Of three, and with others in between and behind.
    let three = [mutex("a", &[1, 9, 3, 7]), mutex("b", &[2, 8, 1]), mutex("c", &[3, 2])];
    let found = found(&three);
    assert_eq!((found.len(), found[0].len()), (1, 8), "{found:?}");
    let graph = Graph::new(&three);
    assert_eq!(deadlocks(&graph)[0].stuck, 9);
}

#[test]
fn each_deadlock_is_found() {
    let two = [mutex("a", &[1, 2]), mutex("b", &[2, 1]), mutex("c", &[3, 4]), mutex("d", &[4, 3])];
    assert_eq!(found(&two).len(), 2);
}

#[test]
fn a_queue_that_just_waits_is_none() {
    assert!(found(&[mutex("a", &(1..500).collect::<Vec<_>>())]).is_empty());
    // A chain: the last one goes on.
    assert!(found(&[mutex("a", &[1, 2]), mutex("b", &[2, 3]), mutex("c", &[3, 4])]).is_empty());
    // Tasks of two processes take turns at one lock.
    assert!(found(&[mutex("a", &[1, 2, 1, 2, 1])]).is_empty());
    // The same with readers.
    let line = read_write("a", &[1], &[(Part::Exclusive, 2), (Part::Shared, 1), (Part::Shared, 3)]);
    assert!(found(&[line]).is_empty());
    // A process whose task waits for another of its tasks.
    assert!(found(&[mutex("a", &[1, 1]), mutex("b", &[1, 1])]).is_empty());
    // The same with somebody in between, who holds nothing.
    assert!(found(&[mutex("a", &[1, 2, 1]), mutex("b", &[1, 2, 1])]).is_empty());
    // Nodes without a session.
    assert!(found(&[mutex("a", &[0, 2]), mutex("b", &[2, 0])]).is_empty());
}

#[test]
fn readers_that_want_to_write_wait_for_each_other() {
    let upgrade =
        |sessions: [i64; 2]| read_write("a", &[1, 2], &sessions.map(|session| (Part::Exclusive, session)));
    for sessions in [[1, 2], [2, 1]] {
        let found = found(&[upgrade(sessions)]);
        assert_eq!(found.len(), 1, "{found:?}");
    }
    // One that wants to write waits for a reader that goes on.
    assert!(found(&[read_write("a", &[1, 2], &[(Part::Exclusive, 1)])]).is_empty());
    // A reader does not wait for readers.
    let crossing = [read_write("a", &[1, 2], &[]), mutex("b", &[2, 1])];
    assert!(found(&crossing).is_empty());
    // A reader waits for the writer before it.
    let crossing = [read_write("a", &[1], &[(Part::Exclusive, 2), (Part::Shared, 3)]), mutex("b", &[3, 1])];
    assert_eq!(found(&crossing), cycle(&["a/1-0", "b/1-1", "b/3-0", "a/3-2", "a/2-1"]));
}

#[test]
fn permits_that_waiters_hold_are_a_deadlock() {
    // Each of two holds one permit, and wants another.
    let found_in_one = found(&[semaphore("a", &[1, 2], &[1, 2])]);
    assert_eq!(found_in_one.len(), 1, "{found_in_one:?}");
    // One permit is of somebody who goes on.
    assert!(found(&[semaphore("a", &[1, 2, 3], &[1, 2])]).is_empty());
    assert!(found(&[semaphore("a", &[1, 3], &[2]), mutex("b", &[2, 1])]).is_empty());
    assert_eq!(found(&[semaphore("a", &[1], &[2]), mutex("b", &[2, 1])]).len(), 1);
    // No permit is taken: the first one just passes.
    assert!(found(&[semaphore("a", &[], &[2, 1]), mutex("b", &[1, 2])]).is_empty());
    // Programs with many tasks, which say so by waiting in many places.
    assert!(found(&[semaphore("a", &[1, 2], &[1, 2, 1, 2, 1, 2])]).is_empty());
}

#[test]
fn a_session_that_waits_for_itself_holds_nobody_up_in_a_cycle() {
    // Either permit is enough for 2; the first is held by 1, one of whose tasks waits for another.
    let lines =
        [semaphore("a", &[1, 3], &[2]), mutex("b", &[2, 3]), read_write("c", &[1], &[(Part::Exclusive, 1)])];
    assert!(found(&lines).is_empty());
}

#[test]
fn only_what_stays_is_reported() {
    let before = [mutex("a", &[1, 2]), mutex("b", &[2, 1])];
    let since = |now: &[Line], before: &[Line]| names(&Graph::new(now).since(&Graph::new(before)));
    assert_eq!(since(&before, &before).len(), 1);
    // The same sessions by other nodes: they went on.
    let mut after = before.clone();
    for entry in after.iter_mut().flatten().filter(|entry| entry.node == "b/1-1") {
        entry.czxid += 100;
    }
    assert!(since(&after, &before).is_empty());
    // It was let in meanwhile.
    let mut earlier = before.clone();
    earlier[0][0].is_holder = false;
    assert!(since(&before, &earlier).is_empty());
    // One that waited in between has left, and others have come.
    let earlier = [
        mutex("a", &[1, 2]),
        vec![before[1][0].clone(), entry("b", 7, 5, Part::Exclusive, false), before[1][1].clone()],
    ];
    let mut later = before.clone();
    later[0].push(entry("a", 9, 6, Part::Exclusive, false));
    assert_eq!(since(&later, &earlier).len(), 1);
}

#[test]
fn a_permit_that_changes_hands_is_progress() {
    let at = |leases: &[i64]| [semaphore("a", leases, &[8, 9]), mutex("b", &[8, 1]), mutex("c", &[8, 2])];
    let since = |now: &[Line], before: &[Line]| names(&Graph::new(now).since(&Graph::new(before)));
    assert_eq!(since(&at(&[1, 2]), &at(&[1, 2])).len(), 1);
    assert!(since(&at(&[1, 2]), &at(&[1, 2, 3])).is_empty());
    assert!(since(&at(&[1, 2, 3]), &at(&[1, 2])).is_empty());
}

/// Plays the queues to the end, every session as one task that holds what it holds until it no longer waits: returns the
/// sessions that never end. Slow and obvious.
fn stuck_for_ever(queues: usize, orders: &[Vec<usize>], steps: &[usize]) -> (Vec<Vec<i64>>, Vec<i64>) {
    let mut lines: Vec<Vec<i64>> = vec![Vec::new(); queues];
    let mut at = vec![0; orders.len()];
    let waits = |lines: &[Vec<i64>], at: &[usize], session: usize| {
        at[session] > 0 && lines[orders[session][at[session] - 1]][0] != session as i64 + 1
    };
    for session in steps.iter().copied().filter(|session| *session < orders.len()) {
        if !waits(&lines, &at, session) && at[session] < orders[session].len() {
            lines[orders[session][at[session]]].push(session as i64 + 1);
            at[session] += 1;
        }
    }
    let snapshot = lines.clone();
    loop {
        let mut is_moving = false;
        for session in 0..orders.len() {
            let is_there = lines.iter().any(|line| line.contains(&(session as i64 + 1)));
            if is_there && !waits(&lines, &at, session) {
                // It needs nothing else, and ends.
                lines.iter_mut().for_each(|line| line.retain(|other| *other != session as i64 + 1));
                at[session] = 0;
                is_moving = true;
            }
        }
        if !is_moving {
            break;
        }
    }
    let left = (1..=orders.len() as i64).filter(|session| lines.iter().any(|line| line.contains(session)));
    (snapshot, left.collect())
}

proptest! {
    /// Sessions of one task each, which take mutexes one after the other.
    #[test]
    fn deadlocks_of_mutexes_are_found_and_no_others(
        orders in proptest::collection::vec(Just((0..4_usize).collect::<Vec<_>>()).prop_shuffle(), 2..6),
        steps in proptest::collection::vec(0..6_usize, 0..24),
    ) {
        let (snapshot, stuck) = stuck_for_ever(4, &orders, &steps);
        let lines: Vec<Line> =
            snapshot.iter().enumerate().map(|(i, sessions)| mutex(&i.to_string(), sessions)).collect();
        let graph = Graph::new(&lines);
        let found = deadlocks(&graph);
        prop_assert_eq!(found.is_empty(), stuck.is_empty(), "{:?}", snapshot);
        for deadlock in &found {
            let sessions: HashSet<i64> = deadlock.cycle.iter().map(|node| graph.entry(*node).session).collect();
            prop_assert!(sessions.iter().all(|session| stuck.contains(session)));
            let holders = deadlock.cycle.iter().filter(|node| graph.entry(**node).is_holder);
            prop_assert!(sessions.len() > 1 && holders.count() > 1);
            for (i, node) in deadlock.cycle.iter().enumerate() {
                let next = deadlock.cycle[(i + 1) % deadlock.cycle.len()];
                prop_assert!(graph.waits(*node).nodes.contains(&next), "{:?}", deadlock);
            }
        }
    }
}
