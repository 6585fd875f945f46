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
fn line(ends: &[&str]) -> (Line<usize>, Vec<Rank>) {
    let mut line = Line::default();
    line.parent_watched(NOW);
    let ranks = ends
        .iter()
        .enumerate()
        .map(|(i, end)| {
            let at = line.moment(NOW);
            line.arrive(&node(end), Some(at), NOW, i)
        })
        .collect();
    (line, ranks)
}

const QUEUE: [&str; 5] =
    ["WRIT__0000000001", "READ__0000000002", "READ__0000000003", "WRIT__0000000004", "READ__0000000005"];

#[test]
fn a_member_that_leaves_wakes_those_who_may_have_waited_for_it() {
    let (mut line, ranks) = line(&QUEUE);
    assert_eq!(
        ranks.iter().map(|rank| line.is_blocked(*rank)).collect::<Vec<_>>(),
        [false, true, true, true, true]
    );
    assert_eq!(line.leave(ranks[0]), [1, 2, 3]);
    assert_eq!(
        ranks[1..].iter().map(|rank| line.is_blocked(*rank)).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    assert_eq!(line.leave(ranks[3]), [4]);
    assert!(!line.is_blocked(ranks[4]));
    assert_eq!(line.before(ranks[4]), 2);
}

#[test]
fn at_the_front_are_those_that_are_waited_for_and_do_not_wait() {
    let front = |ends: &[&str]| {
        let (line, ranks) = line(ends);
        let front = line.front();
        assert!(front.iter().all(|(rank, _)| line.is_waited_for(*rank) && !line.is_blocked(*rank)));
        front
            .iter()
            .map(|(rank, _)| ranks.iter().position(|known| known == rank).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(front(&QUEUE), [0]);
    assert_eq!(front(&QUEUE[1..]), [0, 1]);
    assert_eq!(front(&QUEUE[2..4]), [0]);
    // No one waits.
    assert_eq!(front(&QUEUE[1..3]), []);
    assert_eq!(front(&QUEUE[..1]), []);
    assert_eq!(front(&["WRIT__2147483647", "WRIT__-2147483648"]), []);
}

#[test]
fn a_writer_that_has_become_a_reader_keeps_the_next_one_waiting() {
    let (mut line, ranks) = line(&[QUEUE[0], QUEUE[3]]);
    let reader = line.follow(&node("READ__0000000001"), &node(QUEUE[0]), NOW, 2).unwrap();
    line.leave(ranks[0]);
    assert!(line.is_blocked(ranks[1]));
    assert_eq!(line.leave(reader), [1]);
    assert!(!line.is_blocked(ranks[1]));
}

#[test]
fn a_reader_does_not_follow_a_writer_that_has_left() {
    let (mut line, ranks) = line(&[QUEUE[0], QUEUE[3]]);
    let (reader, writer) = (node("READ__0000000001"), node(QUEUE[0]));
    line.leave(ranks[0]);
    assert_eq!(line.follow(&reader, &writer, NOW, 2), None);
    assert!(!line.is_blocked(ranks[1]));
}

#[test]
fn what_is_known_grows_with_each_number_of_ours_in_whatever_order_they_come() {
    let (mut line, ranks) = line(&QUEUE[..1]);
    let at = line.moment(NOW);
    line.look(&[node(QUEUE[0])], 0, at);
    let third = line.arrive(&node(QUEUE[2]), Some(at), NOW, 2);
    assert!(line.is_clear(ranks[0], NOW) && !line.is_clear(third, NOW));
    let second = line.arrive(&node(QUEUE[1]), Some(at), NOW, 1);
    assert!(line.is_clear(second, NOW) && line.is_clear(third, NOW));
    assert!(!line.is_clear(third, LATER));
    assert_eq!(line.prefetch(NOW), Prefetch { parent_watch: false, list: false });
    assert_eq!(line.prefetch(LATER), Prefetch { parent_watch: true, list: true });
}

#[test]
fn nothing_is_known_after_the_parent_has_changed() {
    let known = || {
        let (mut line, ranks) = line(&QUEUE[2..3]);
        let at = line.moment(NOW);
        line.look(&[node(QUEUE[2])], 0, at);
        assert!(line.is_clear(ranks[0], NOW));
        (line, ranks[0])
    };
    let (mut line, rank) = known();
    line.parent_changed();
    assert!(!line.is_clear(rank, NOW));
    let (mut line, rank) = known();
    let before = line.moment(NOW);
    line.parent_watched(NOW);
    assert!(!line.is_clear(rank, NOW));
    // Nor by what was requested before it.
    line.look(&[node(QUEUE[2])], 0, before);
    assert!(!line.is_clear(rank, NOW));
}

#[test]
fn a_member_of_an_earlier_parent_vouches_for_no_number() {
    let (mut line, left) = line(&[QUEUE[1], QUEUE[2]]);
    // Under the current parent.
    let at = line.parent_watched(NOW);
    let first = line.arrive(&node(QUEUE[0]), Some(at), NOW, 2);
    line.look(&[node(QUEUE[0])], 0, at);
    let next = line.arrive(&node(QUEUE[3]), Some(at), NOW, 3);
    assert!(line.is_clear(first, NOW) && !line.is_clear(left[0], NOW) && !line.is_clear(next, NOW));
    assert_eq!(line.before(next), 1);
    // That does not show whether it is gone, only that its number proves nothing.
    assert!(line.is_blocked(next));
    // Once it has been listed, it counts.
    line.look(&QUEUE[..4].iter().map(|end| node(end)).collect::<Vec<_>>(), 3, at);
    assert!(line.is_clear(left[0], NOW) && line.is_clear(next, NOW));
    assert_eq!(line.before(next), 3);
}

#[test]
fn what_was_listed_under_an_earlier_parent_is_of_that_one() {
    let (mut line, ranks) = line(&[QUEUE[0], QUEUE[1]]);
    let before = line.moment(NOW);
    let at = line.parent_watched(NOW);
    line.look(&[node(QUEUE[0]), node(QUEUE[1])], 0, before);
    line.clear_up_to(5, at);
    assert!(!line.is_clear(ranks[0], NOW) && !line.is_clear(ranks[1], NOW));
}

#[test]
fn a_contender_of_others_ends_what_is_known() {
    let (mut line, ranks) = line(&[QUEUE[1], QUEUE[3]]);
    let (queue, at) = (QUEUE.map(node), line.moment(NOW));
    assert_eq!(line.look(&queue[1..], 0, at), 2);
    assert!(line.is_clear(ranks[0], NOW) && !line.is_clear(ranks[1], NOW));
    assert!(!line.prefetch(NOW).list);
    assert_eq!(line.look(&queue[1..], 2, at), 4);
    assert!(line.prefetch(NOW).list);
}

#[test]
fn where_numbers_end_nobody_goes_by_the_line() {
    let (mut line, ranks) = line(&["WRIT__2147483646", "WRIT__2147483647", "WRIT__-2147483648"]);
    line.clear_up_to(i32::MAX, line.moment(NOW));
    assert!(line.is_clear(ranks[0], NOW));
    for rank in &ranks[1..] {
        assert!(!line.is_clear(*rank, NOW) && !line.is_blocked(*rank));
    }
}
