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
