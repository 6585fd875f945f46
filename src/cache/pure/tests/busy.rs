//! Nodes that change all the time, and what comes while a cache catches up.

use super::*;

impl World {
    /// Sends all pending reads.
    fn send(&mut self) {
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
        for _ in 0..100 {
            self.send();
            self.write(path, 1);
            self.end_requests();
            if is_right(&self.core) {
                return;
            }
        }
        panic!("{:?} after 100 round trips", self.core.progress());
    }
}

#[test]
fn a_node_that_changes_all_the_time_does_not_keep_a_cache_from_loading() {
    let mut world = World::new(9, true, true);
    world.write("/r", 1);
    world.write("/r/a", 1);
    world.step(&Step::Connect);
    world.write_until("/r/a", |core| core.progress() == Progress::Loaded);
}

#[test]
fn more_changes_than_reads_do_not_keep_a_cache_from_loading() {
    const NODES: usize = 100;
    let mut world = World::new(9, true, true);
    world.core = Core::new(Rules { most_nodes: 1000, ..rules(9, true) });
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
        if world.core.progress() == Progress::Loaded {
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
    while world.core.progress() != Progress::Loaded {
        world.send();
        // One reply at a time.
        world.answer();
        world.take(1, 0);
        world.replay();
    }
    assert!(world.core.nodes().get("/r/a/d").is_some());
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
    assert!(world.core.nodes().get("/r/a/c").unwrap().is_unknown());
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
