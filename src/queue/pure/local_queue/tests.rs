use super::super::name::READ_WRITE;
use super::*;

const NOW: Connection = Connection(1);
const LATER: Connection = Connection(2);

fn node(end: &str) -> Queued {
    let name = format!("_c_id-__{end}");
    let (kind, sequence) = READ_WRITE.read(&name).unwrap();
    Queued { name, kind, sequence }
}

/// Adds contenders by the ends of their names. Each is woken by its index.
fn local_queue(ends: &[&str]) -> (LocalQueue<usize>, Vec<Rank>) {
    let mut local = LocalQueue::default();
    local.parent_watched(NOW);
    let ranks = ends
        .iter()
        .enumerate()
        .map(|(i, end)| {
            let at = local.moment(NOW);
            local.arrive(&node(end), Some(at), NOW, i)
        })
        .collect();
    (local, ranks)
}

const QUEUE: [&str; 5] =
    ["WRIT__0000000001", "READ__0000000002", "READ__0000000003", "WRIT__0000000004", "READ__0000000005"];

#[test]
fn a_member_that_leaves_wakes_those_who_may_have_waited_for_it() {
    let (mut local, ranks) = local_queue(&QUEUE);
    assert_eq!(
        ranks.iter().map(|rank| local.is_blocked(*rank)).collect::<Vec<_>>(),
        [false, true, true, true, true]
    );
    assert_eq!(local.leave(ranks[0]), [1, 2, 3]);
    assert_eq!(
        ranks[1..].iter().map(|rank| local.is_blocked(*rank)).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    assert_eq!(local.leave(ranks[3]), [4]);
    assert!(!local.is_blocked(ranks[4]));
    assert_eq!(local.before(ranks[4]), 2);
    // No one waits any more.
    assert!(local.leave(ranks[1]).is_empty());
}

#[test]
fn at_the_front_are_those_that_are_waited_for_and_do_not_wait() {
    let front = |ends: &[&str]| {
        let (local, ranks) = local_queue(ends);
        let front = local.front();
        assert!(front.iter().all(|(rank, _)| local.is_waited_for(*rank) && !local.is_blocked(*rank)));
        front
            .iter()
            .map(|(rank, _)| ranks.iter().position(|known| known == rank).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(front(&QUEUE), [0]);
    assert_eq!(front(&QUEUE[1..]), [0, 1]);
    assert_eq!(front(&QUEUE[2..4]), [0]);
    // No one waits.
    assert_eq!(front(&QUEUE[1..3]), [0_usize; 0]);
    assert_eq!(front(&QUEUE[..1]), [0_usize; 0]);
    assert_eq!(front(&["WRIT__2147483647", "WRIT__-2147483648"]), [0_usize; 0]);
}

#[test]
fn a_writer_that_has_become_a_reader_keeps_the_next_one_waiting() {
    let (mut local, ranks) = local_queue(&[QUEUE[0], QUEUE[3]]);
    let reader = local.follow(&node("READ__0000000001"), &node(QUEUE[0]), NOW, 2).unwrap();
    local.leave(ranks[0]);
    assert!(local.is_blocked(ranks[1]));
    assert_eq!(local.leave(reader), [1]);
    assert!(!local.is_blocked(ranks[1]));
}

#[test]
fn a_reader_does_not_follow_a_writer_that_has_left() {
    let (mut local, ranks) = local_queue(&[QUEUE[0], QUEUE[3]]);
    let (reader, writer) = (node("READ__0000000001"), node(QUEUE[0]));
    local.leave(ranks[0]);
    assert_eq!(local.follow(&reader, &writer, NOW, 2), None);
    assert!(!local.is_blocked(ranks[1]));
}

#[test]
fn what_is_known_grows_with_each_number_of_ours_in_whatever_order_they_come() {
    let (mut local, ranks) = local_queue(&QUEUE[..1]);
    let at = local.moment(NOW);
    local.look(&[node(QUEUE[0])], 0, at);
    let third = local.arrive(&node(QUEUE[2]), Some(at), NOW, 2);
    assert!(local.is_clear(ranks[0], NOW) && !local.is_clear(third, NOW));
    let second = local.arrive(&node(QUEUE[1]), Some(at), NOW, 1);
    assert!(local.is_clear(second, NOW) && local.is_clear(third, NOW));
    assert!(!local.is_clear(third, LATER));
    drop([ranks[0], second, third].map(|rank| local.leave(rank)));
    assert_eq!(local.prefetch(NOW, false), Prefetch { parent_watch: false, list: false });
    assert_eq!(local.prefetch(LATER, false), Prefetch { parent_watch: true, list: true });
}

#[test]
fn whoever_will_wait_for_its_own_client_does_not_list() {
    let lists = |names: &[&str], is_being_listed| local_queue(names).0.prefetch(NOW, is_being_listed).list;
    assert!(lists(&[], false) && !lists(&[], true));
    assert!(lists(&QUEUE[..1], false), "it may be gone before the next one comes");
    assert!(!lists(&[QUEUE[0], QUEUE[3]], false));
    assert!(lists(&["READ__0000000001", "READ__0000000002"], false), "the next one may be a reader");
}

#[test]
fn nothing_is_known_after_the_parent_has_changed() {
    let known = || {
        let (mut local, ranks) = local_queue(&QUEUE[2..3]);
        let at = local.moment(NOW);
        local.look(&[node(QUEUE[2])], 0, at);
        assert!(local.is_clear(ranks[0], NOW));
        (local, ranks[0])
    };
    let (mut local, rank) = known();
    local.parent_changed();
    assert!(!local.is_clear(rank, NOW));
    let (mut local, rank) = known();
    let before = local.moment(NOW);
    local.parent_watched(NOW);
    assert!(!local.is_clear(rank, NOW));
    // Nor by what was requested before it.
    local.look(&[node(QUEUE[2])], 0, before);
    assert!(!local.is_clear(rank, NOW));
}

#[test]
fn a_member_of_an_earlier_parent_vouches_for_no_number() {
    let (mut local, left) = local_queue(&[QUEUE[1], QUEUE[2]]);
    // Under the current parent.
    let at = local.parent_watched(NOW);
    let first = local.arrive(&node(QUEUE[0]), Some(at), NOW, 2);
    local.look(&[node(QUEUE[0])], 0, at);
    let next = local.arrive(&node(QUEUE[3]), Some(at), NOW, 3);
    assert!(local.is_clear(first, NOW) && !local.is_clear(left[0], NOW) && !local.is_clear(next, NOW));
    assert_eq!(local.before(next), 1);
    // That does not show whether it is gone, only that its number proves nothing.
    assert!(local.is_blocked(next));
    // Once it has been listed, it counts.
    local.look(&QUEUE[..4].iter().map(|end| node(end)).collect::<Vec<_>>(), 3, at);
    assert!(local.is_clear(left[0], NOW) && local.is_clear(next, NOW));
    assert_eq!(local.before(next), 3);
}

#[test]
fn what_was_listed_under_an_earlier_parent_is_of_that_one() {
    let (mut local, ranks) = local_queue(&[QUEUE[0], QUEUE[1]]);
    let before = local.moment(NOW);
    let at = local.parent_watched(NOW);
    local.look(&[node(QUEUE[0]), node(QUEUE[1])], 0, before);
    local.clear_up_to(5, at);
    assert!(!local.is_clear(ranks[0], NOW) && !local.is_clear(ranks[1], NOW));
}

#[test]
fn a_contender_of_others_ends_what_is_known() {
    let (mut local, ranks) = local_queue(&[QUEUE[1], QUEUE[3]]);
    let (queue, at) = (QUEUE.map(node), local.moment(NOW));
    assert_eq!(local.look(&queue[1..], 0, at), 2);
    assert!(local.is_clear(ranks[0], NOW) && !local.is_clear(ranks[1], NOW));
    let lists_next = |local: &LocalQueue<usize>| {
        let mut local = local.clone();
        local.leave(ranks[0]);
        local.prefetch(NOW, false).list
    };
    assert!(!lists_next(&local));
    assert_eq!(local.look(&queue[1..], 2, at), 4);
    assert!(lists_next(&local));
}

#[test]
fn where_numbers_end_nobody_goes_by_the_local_queue() {
    let (mut local, ranks) = local_queue(&["WRIT__2147483646", "WRIT__2147483647", "WRIT__-2147483648"]);
    local.clear_up_to(i32::MAX, local.moment(NOW));
    assert!(local.is_clear(ranks[0], NOW));
    for rank in &ranks[1..] {
        assert!(!local.is_clear(*rank, NOW) && !local.is_blocked(*rank));
    }
}
