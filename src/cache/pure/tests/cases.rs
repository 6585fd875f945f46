//! Single cases.

use super::*;

proptest! {
    #[test]
    fn a_cache_at_its_limits_goes_on(steps in prop::collection::vec(exchange(), 0..100)) {
        let nodes = PATHS.iter().enumerate().map(|(at, path)| ((*path).to_owned(), if at < 3 { 4 } else { 5 }));
        let mut world = full(nodes);
        for step in &steps {
            world.step(step);
        }
        world.settle();
        world.assert_is_right(9, true, true);
    }
}

/// A world in which the data of the root could not be read, and could be since.
fn permitted_late() -> World {
    let mut world = World::new(1, true, false);
    world.write("/r", 0);
    world.nodes.get_mut("/r").unwrap().is_forbidden = true;
    for step in [Step::Connect, Step::Send, Step::Answer, Step::Take(1, 0)] {
        world.step(&step);
    }
    world.nodes.get_mut("/r").unwrap().is_forbidden = false;
    world
}

#[test]
fn what_the_servers_tell_of_below_an_unreadable_node_has_that_read_again() {
    let mut world = permitted_late();
    world.step(&Step::Send);
    world.write("/r/a", 0);
    world.settle();
    world.assert_is_right(1, true, true);
}

#[test]
fn what_could_not_be_read_is_tried_again_after_a_reconnect() {
    let mut world = permitted_late();
    world.step(&Step::Cut);
    world.settle();
    world.assert_is_right(1, true, true);
}

#[test]
fn a_node_that_is_created_again_unseen_is_deleted_and_created() {
    let mut world = World::new(9, true, false);
    loaded(&mut world);
    world.step(&Step::Cut);
    create_again(&mut world);
    world.step(&Step::Connect);
    let mut told = Vec::new();
    for _ in 0..20 {
        let ops = world.core.next();
        if ops.is_empty() {
            break;
        }
        world.requests.push_back(ops);
        world.answer();
        world.take(1, 0);
        told.extend(world.core.take_changes());
    }
    let told: Vec<_> = told
        .iter()
        .map(|change| match change {
            Change::Created(node) => format!("+{}", node.path()),
            Change::Changed { new, .. } => format!("={}", new.path()),
            Change::Deleted(node) => format!("-{}", node.path()),
        })
        .collect();
    assert_eq!(told, ["-/r/a/c", "-/r/a", "+/r/a", "+/r/a/c"]);
}

#[test]
fn a_node_that_becomes_readable_is_told_as_changed() {
    for (with_data, hides_stats) in [(true, true), (true, false), (false, true)] {
        let mut world = World { hides_stats, ..World::new(9, with_data, true) };
        for path in ["/r", "/r/a", "/r/a/c"] {
            world.write(path, 1);
        }
        world.nodes.get_mut("/r/a").unwrap().is_forbidden = true;
        world.settle();
        let node = world.core.held().get("/r/a").unwrap();
        assert_eq!((node.is_readable(), node.is_unknown()), (false, hides_stats));
        world.nodes.get_mut("/r/a").unwrap().is_forbidden = false;
        world.write("/r/a", 1);
        // A node that is told of again would fail this world.
        let created = world.replayed.len();
        world.created.insert("/r/a".to_owned(), i64::MAX);
        world.settle();
        assert_eq!(world.replayed.len(), created + 1, "its child is found");
        world.assert_is_right(9, with_data, true);
    }
}

#[test]
fn a_node_that_was_to_be_read_comes_below_the_new_parent() {
    let mut world = World::new(9, true, true);
    loaded(&mut world);
    world.write("/r/a/c", 1);
    for step in [Step::Take(1, 0), Step::Send, Step::Cut] {
        world.step(&step);
    }
    create_again(&mut world);
    world.settle();
    world.assert_is_right(9, true, true);
}

#[test]
fn a_node_that_was_unreadable_when_it_was_read_has_its_data_once_its_children_are_listed() {
    let mut world = World::new(9, true, false);
    world.write("/r", 0);
    for step in [Step::Connect, Step::Send, Step::CreateAgain, Step::Answer, Step::Take(3, 0)] {
        world.step(&step);
    }
    // Its children are about to be listed when the connection is lost.
    world.step(&Step::Cut);
    for step in [Step::Permit(0, true), Step::Connect, Step::Send, Step::Answer, Step::Permit(0, false)] {
        world.step(&step);
    }
    world.settle();
    world.assert_is_right(9, true, false);
}

#[test]
fn a_node_of_which_the_servers_tell_first_comes_below_the_new_parent() {
    let mut world = World::new(9, false, true);
    loaded(&mut world);
    world.step(&Step::Cut);
    create_again(&mut world);
    world.write("/r/a/c", 0);
    world.step(&Step::Connect);
    world.write("/r/a/c", 1);
    // The first read is of the root, the second one of what was told of.
    for step in [Step::Take(1, 0), Step::Send, Step::Send, Step::Answer, Step::Answer, Step::Take(2, 0)] {
        world.step(&step);
    }
    world.settle();
    world.assert_is_right(9, false, true);
}

#[test]
fn what_has_not_changed_is_not_listed_again() {
    let mut world = World::new(9, true, false);
    loaded(&mut world);
    world.step(&Step::Cut);
    world.step(&Step::Connect);
    let mut ops = Vec::new();
    while let batch @ [_, ..] = &world.core.next()[..] {
        ops.extend_from_slice(batch);
        world.requests.push_back(batch.to_vec());
        world.answer();
        world.take(1, 0);
    }
    assert!(ops.iter().all(|op| matches!(op, Op::Data(_))), "{ops:?}");
    assert_eq!(ops.len(), 3);
}

#[test]
fn an_event_that_was_read_already_costs_no_read() {
    let mut world = World::new(9, true, true);
    world.step(&Step::Connect);
    loaded(&mut world);
    let node = world.core.held().get("/r/a").unwrap().clone();
    for (kind, zxid) in
        [(EventType::NodeCreated, node.created_by()), (EventType::NodeDataChanged, node.modified_by())]
    {
        world.core.event(kind, "/r/a", Some(zxid)).unwrap();
        assert!(world.core.next().is_empty());
    }
}

#[test]
fn there_is_an_end_to_what_is_held() {
    let most = |most_nodes, most_bytes| {
        let mut world = World::new(9, true, true);
        world.core = Core::new(limited(9, true, most_nodes, most_bytes));
        for path in ["/r", "/r/a", "/r/b", "/r/a/c"] {
            world.write(path, 4);
        }
        world.core.resume();
        loop {
            let ops = world.core.next();
            if ops.is_empty() {
                return Ok(world.core.held().len());
            }
            let reply = ops.iter().map(|op| (op.clone(), world.find(op))).collect();
            world.core.apply(reply)?;
        }
    };
    assert_eq!(most(4, 100), Ok(4));
    assert_eq!(most(3, 100), Err(too_large(3, 100)));
    assert_eq!(most(4, 30), Err(too_large(4, 30)));
}

fn too_large(max_nodes: usize, max_bytes: usize) -> Error {
    Error::CacheTooLarge { path: "/r".into(), max_nodes, max_bytes }
}

/// A world with a cache that has as much as it may have.
fn full(writes: impl IntoIterator<Item = (String, u8)>) -> World {
    let mut world = World::new(9, true, true);
    for (path, what) in writes {
        world.write(&path, what);
    }
    let (most_nodes, most_bytes) = world.held(9);
    world.core = Core::new(limited(9, true, most_nodes, most_bytes));
    world.settle();
    world
}

#[test]
fn a_node_that_grows_while_another_one_shrinks_is_within_the_limits() {
    let mut world = full([("/r", 0), ("/r/a", 0), ("/r/b", 4)].map(|(path, what)| (path.to_owned(), what)));
    for (path, what) in [("/r/a", 4), ("/r/b", 10)] {
        world.write(path, what);
    }
    world.settle();
    world.assert_is_right(9, true, true);
}

#[test]
fn nodes_that_come_while_others_go_are_within_the_limits() {
    let folders = ["/r", "/r/a", "/r/b", "/r/c", "/r/c/x"].map(String::from).into_iter();
    let others = (0..30).map(|at| format!("/r/b/{at}"));
    let going = || (0..10).map(|at| format!("/r/c/x/{at}"));
    let mut world = full(folders.chain(others).chain(going()).map(|path| (path, 0)));
    world.step(&Step::Cut);
    for (at, path) in going().enumerate() {
        world.write(&path, 0);
        world.write(&format!("/r/a/{at}"), 0);
    }
    world.settle();
    world.assert_is_right(9, true, true);
}

/// Each time before any of them is read, all nodes are replaced by others.
#[test]
fn nodes_that_were_gone_before_they_were_read_are_within_the_limits() {
    let path = |round: usize, at: usize| format!("/r/{round}-{at}");
    let mut world = World::new(9, true, true);
    world.core = Core::new(limited(9, true, 11, 10_000));
    world.write("/r", 1);
    for round in 0..5 {
        for at in 0..10 {
            world.write(&path(round, at), 1);
        }
        world.step(&Step::Connect);
        // The root, and its children.
        for _ in 0..9 {
            let ops = world.core.next();
            world.requests.push_back(ops.into_iter().filter(|op| &**op.path() == "/r").collect());
            world.answer();
            world.take(1, 0);
        }
        world.step(&Step::Cut);
        for at in 0..10 {
            world.write(&path(round, at), 0);
        }
    }
    world.settle();
    world.assert_is_right(9, true, true);
}

#[test]
fn while_something_is_to_be_read_there_is_an_end_to_what_is_held() {
    let mut world = full(["/r", "/r/a"].map(|path| (path.to_owned(), 0)));
    let mut create = |at: i64| {
        let path = format!("/r/{at}");
        world.core.event(EventType::NodeCreated, &path, Some(100 + at))
    };
    assert!((0..4).all(|at| create(at).is_ok()));
    assert!(matches!(create(4), Err(Error::CacheTooLarge { .. })), "there are more than twice as many");
}

#[test]
fn a_refused_request_is_made_in_parts() {
    let mut world = World::new(9, true, true);
    loaded(&mut world);
    world.step(&Step::Cut);
    world.step(&Step::Connect);
    world.requests.clear();
    for node in ["/r/a", "/r/a/c"] {
        world.core.event(EventType::NodeDataChanged, node, None).unwrap();
    }
    let ops = world.core.next();
    assert!(ops.len() > 1, "{ops:?}");
    world.core.refused(&ops);
    assert_eq!(world.core.next().len(), 1);
}
