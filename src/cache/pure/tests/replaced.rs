//! Nodes that others replace while they are read, or between two connections.

use super::*;

/// The read of a new node has found it, and it was deleted and created again before that is known. Then something comes
/// below it.
#[test]
fn what_comes_below_a_node_that_was_replaced_during_its_read_is_not_told_as_deleted() {
    let mut world = World::new(9, true, true);
    world.write("/r", 1);
    world.settle();
    world.write("/r/a", 1);
    for step in [Step::Take(1, 0), Step::Send, Step::Answer] {
        world.step(&step);
    }
    // It may be read no more.
    world.write("/r/a", 0);
    world.write("/r/a", 1);
    world.nodes.get_mut("/r/a").unwrap().is_forbidden = true;
    // The events are seen before the reply.
    world.step(&Step::Take(0, 3));
    world.step(&Step::Take(1, 0));
    world.write("/r/a/c", 1);
    world.step(&Step::Take(1, 0));
    world.settle();
    world.assert_is_right(9, true, true);
}

/// The next read would be of the stat alone.
#[test]
fn a_node_that_becomes_readable_and_changes_before_its_stat_is_read_is_read() {
    let mut world = World::new(9, true, true);
    world.write("/r", 1);
    world.nodes.get_mut("/r").unwrap().is_forbidden = true;
    for step in [Step::Connect, Step::Send, Step::Answer, Step::Take(1, 0)] {
        world.step(&step);
    }
    world.nodes.get_mut("/r").unwrap().is_forbidden = false;
    world.write("/r", 2);
    world.step(&Step::Take(1, 0));
    world.settle();
    world.assert_is_right(9, true, true);
}

/// The servers have refused its data, and tell of the change before that.
#[test]
fn a_node_that_becomes_readable_and_changes_during_its_read_is_read() {
    let mut world = World::new(9, true, false);
    world.write("/r", 1);
    world.nodes.get_mut("/r").unwrap().is_forbidden = true;
    for step in [Step::Connect, Step::Send, Step::Answer] {
        world.step(&step);
    }
    world.nodes.get_mut("/r").unwrap().is_forbidden = false;
    world.write("/r", 2);
    for step in [Step::Take(0, 2), Step::Take(1, 0)] {
        world.step(&step);
    }
    world.settle();
    world.assert_is_right(9, true, true);
}

/// As `/` and `/zookeeper` are.
#[test]
fn a_node_that_no_transaction_has_created_is_held() {
    let mut world = World::new(9, true, true);
    world.write("/r", 1);
    world.nodes.get_mut("/r").unwrap().stat.czxid = 0;
    world.settle();
    world.assert_is_right(9, true, true);
}

/// The servers have lost their data, or had them restored from a backup: what is there now has lower numbers.
#[test]
fn a_cache_shows_what_the_servers_have_after_their_numbers_began_anew() {
    for tells_zxids in [true, false] {
        let mut world = World::new(9, true, tells_zxids);
        for path in ["/r", "/r/b", "/r/a", "/r/a/c"] {
            world.write(path, 1);
        }
        for _ in 0..10 {
            world.write("/r/a/c", 2);
        }
        world.settle();
        world.step(&Step::Cut);
        world.deleted.extend(world.nodes.keys().cloned());
        world.nodes.clear();
        world.created.clear();
        world.zxid = 0;
        for path in ["/r", "/r/a", "/r/a/c", "/r/a/d"] {
            world.write(path, 4);
        }
        world.step(&Step::Connect);
        world.step(&Step::Send);
        world.write("/r/a/c", 7);
        world.settle();
        world.assert_is_right(9, true, true);
        world.write("/r/a", 1);
        world.settle();
        world.assert_is_right(9, true, true);
    }
}

/// As much is restored as there was, with other data.
#[test]
fn a_cache_shows_what_was_restored_from_a_backup() {
    let mut world = World::new(9, true, true);
    loaded(&mut world);
    let (backup, zxid) = (world.nodes.clone(), world.zxid);
    for what in [2, 4] {
        world.write("/r/a/c", what);
    }
    world.settle();
    world.step(&Step::Cut);
    (world.nodes, world.zxid) = (backup, zxid);
    world.settle();
    world.assert_is_right(9, true, true);
    world.write("/r/a/c", 7);
    world.settle();
    world.assert_is_right(9, true, true);
}
