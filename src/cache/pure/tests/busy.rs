//! Nodes that change all the time, and what comes while a cache catches up.

use super::*;

impl World {
    /// Sends all pending reads.
    pub(super) fn send(&mut self) {
        loop {
            let ops = self.core.next();
            if ops.is_empty() {
                return;
            }
            self.requests.push_back(ops);
        }
    }

    /// Ends all requests, after events that came in between.
    fn end_requests(&mut self) {
        while !self.requests.is_empty() {
            self.answer();
        }
        self.take(u8::MAX.into(), 0);
        self.replay();
    }

    /// Writes to a node in each round trip, until the cache is as it should be.
    fn write_until(&mut self, path: &str, is_right: impl Fn(&Core) -> bool) {
        self.do_until(|world| world.write(path, 1), is_right);
    }

    /// Does something in each round trip, until the cache is as it should be.
    fn do_until(&mut self, act: impl Fn(&mut Self), is_right: impl Fn(&Core) -> bool) {
        for _ in 0..100 {
            self.send();
            act(self);
            self.end_requests();
            if is_right(&self.core) {
                return;
            }
        }
        panic!("after 100 round trips, has loaded: {}", self.core.has_loaded());
    }
}

#[test]
fn the_children_of_a_node_that_changes_all_the_time_are_found() {
    let mut world = World::new(9, true, true);
    world.write("/r", 1);
    world.write("/r/a", 1);
    world.step(&Step::Connect);
    let has_child = |core: &Core| core.held().get("/r/a").is_some();
    world.write_until("/r", |core| core.has_loaded() && has_child(core));
    // Also of one that is created, with a child in the same transaction, when the cache is current.
    world.write("/r/b", 1);
    world.write("/r/b/x", 1);
    world.take(100, 0);
    world.write_until("/r/b", |core| core.held().get("/r/b/x").is_some());
}

/// That a list comes before the next read of the node makes no list for each of its changes.
#[test]
fn the_children_of_a_node_that_changes_all_the_time_are_listed_once() {
    let mut world = World::new(9, true, true);
    world.write("/r", 1);
    world.write("/r/a", 1);
    world.step(&Step::Connect);
    let mut lists = 0;
    for _ in 0..100 {
        world.send();
        let is_list = |op: &&Op| matches!(op, Op::Children(path) if &**path == "/r");
        lists += world.requests.iter().flatten().filter(is_list).count();
        world.write("/r", 1);
        world.write("/r/a/c", 0);
        world.end_requests();
    }
    assert_eq!(lists, 1);
    assert!(world.core.has_loaded());
}

/// The servers tell nothing of it but what comes and goes below it.
#[test]
fn a_hidden_node_whose_children_come_and_go_does_not_keep_a_cache_from_loading() {
    let mut world = World { hides_stats: true, ..World::new(9, true, true) };
    world.write("/r", 1);
    world.write("/r/a", 1);
    world.nodes.get_mut("/r/a").unwrap().is_forbidden = true;
    world.step(&Step::Connect);
    let come_and_go = |world: &mut World| {
        world.write("/r/a/c", 0);
        world.write("/r/a/c", 0);
    };
    world.do_until(come_and_go, |core| core.has_loaded());
    assert!(world.core.held().get("/r/a").is_some());
}

/// Whenever it is read, it is not there.
#[test]
fn a_node_that_comes_and_goes_all_the_time_does_not_keep_a_cache_from_loading() {
    let mut world = World::new(9, true, true);
    loaded(&mut world);
    world.step(&Step::Cut);
    world.write("/r/a/c", 0);
    world.step(&Step::Connect);
    let come_and_go = |world: &mut World| {
        world.write("/r/a/c", 0);
        world.write("/r/a/c", 0);
    };
    world.do_until(come_and_go, |core| core.has_loaded());
}

#[test]
fn more_changes_than_reads_do_not_keep_a_cache_from_loading() {
    const NODES: usize = 100;
    let mut world = World::new(9, true, true);
    world.core = Core::new(limited(9, true, 1000, 10_000));
    let busy: Vec<_> = (0..NODES).map(|at| format!("/r/{at}")).collect();
    for path in ["/r", "/r/quiet"].into_iter().chain(busy.iter().map(String::as_str)) {
        world.write(path, 1);
    }
    world.settle();
    world.step(&Step::Cut);
    world.step(&Step::Connect);
    for _ in 0..10 * NODES {
        for path in &busy {
            world.write(path, 1);
        }
        world.take(NODES, 0);
        // No more than one request in each round trip.
        let ops = world.core.next();
        world.requests.push_back(ops);
        world.end_requests();
        if world.core.has_loaded() {
            return;
        }
    }
    panic!("not loaded after {} round trips", 10 * NODES);
}

/// An unreadable node is not listed, so that nothing else has what comes below it belong to the load.
#[test]
fn what_has_come_during_a_load_is_there_when_it_is_loaded() {
    let mut world = World::new(9, true, true);
    loaded(&mut world);
    world.nodes.get_mut("/r/a").unwrap().is_forbidden = true;
    world.step(&Step::Cut);
    world.step(&Step::Connect);
    world.write("/r/a/d", 1);
    world.step(&Step::Take(1, 0));
    while !world.core.has_loaded() {
        world.send();
        // One reply at a time.
        world.answer();
        world.take(1, 0);
        world.replay();
    }
    assert!(world.core.held().get("/r/a/d").is_some());
}

/// Its parent is another one by the time that the watch is set, and it comes after that.
#[test]
fn a_hidden_node_that_is_readable_now_comes_below_its_parent() {
    let mut world = World { hides_stats: true, ..World::new(9, true, true) };
    for path in ["/r", "/r/a", "/r/a/c"] {
        world.write(path, 1);
    }
    world.nodes.get_mut("/r/a/c").unwrap().is_forbidden = true;
    world.settle();
    assert!(world.core.held().get("/r/a/c").unwrap().is_unknown());
    world.step(&Step::Cut);
    for (path, what) in [("/r/a/c", 0), ("/r/a", 0), ("/r/a", 1)] {
        world.write(path, what);
    }
    world.step(&Step::Connect);
    world.write("/r/a/c", 1);
    world.step(&Step::Take(1, 0));
    world.settle();
    world.assert_is_right(9, true, true);
}

proptest! {
    /// The same is written again and again, between any two replies.
    #[test]
    fn nothing_that_happens_again_and_again_keeps_a_cache_from_loading(
        steps in prop::collection::vec(step(), 0..60),
        writes in prop::collection::vec((0..4_usize, any::<u8>(), any::<u8>()), 0..8),
        depth in prop_oneof![Just(1), Just(2), Just(usize::MAX - 1)],
        with_data in any::<bool>(),
        tells_zxids in any::<bool>(),
        hides_stats in any::<bool>(),
        sees_events_first in any::<bool>(),
    ) {
        let mut world = World { hides_stats, ..World::new(depth, with_data, tells_zxids) };
        for step in &steps {
            world.step(step);
        }
        world.step(&Step::Cut);
        world.step(&Step::Connect);
        let mut rounds = 0;
        while !world.core.has_loaded() {
            rounds += 1;
            prop_assert!(rounds < 200, "it does not load");
            world.send();
            for at in 0..4 {
                for (_, path, what) in writes.iter().filter(|write| write.0 == at) {
                    world.step(&Step::Write(*path, *what));
                }
                world.answer();
            }
            if sees_events_first {
                world.step(&Step::Take(0, u8::MAX));
            }
            while !world.messages.is_empty() {
                world.step(&Step::Take(1, 0));
            }
        }
        world.step(&Step::Cut);
        world.settle();
        world.assert_is_right(depth, with_data, true);
    }
}
