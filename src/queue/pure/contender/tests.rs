//! Single contenders, by hand. `tests/thorough/model` plays all orders of events.

use super::super::name::{MUTEX, READ_WRITE};
use super::*;

fn name(sequence: i32) -> String {
    format!("_c_id{sequence}-lock-{sequence:010}")
}

fn names(sequences: &[i32]) -> Vec<String> {
    sequences.iter().map(|sequence| name(*sequence)).collect()
}

/// The contenders of one session in one queue, with the current connection.
struct Scene {
    names: &'static Names,
    local: LocalQueue<()>,
    now: Connection,
}

impl Scene {
    fn new() -> Self {
        Self { names: &MUTEX, local: LocalQueue::default(), now: Connection(1) }
    }

    fn on(&mut self, contender: &mut Contender, event: Event) -> Action {
        contender.on(event, &mut self.local, self.now, |_| ())
    }

    /// Returns a contender with that node, and its action on the reply to the create.
    fn entered(&mut self, name: &str, children: Option<Vec<String>>) -> (Contender, Rank, Action) {
        let mut contender = Contender::new(self.names);
        assert_eq!(self.on(&mut contender, Event::Start), Action::Create);
        let (kind, sequence) = self.names.read(name).unwrap();
        let own = Queued { name: name.to_owned(), kind, sequence };
        let at = self.local.moment(self.now);
        let rank = self.local.arrive(&own, Some(at), self.now, ());
        let created = Event::Created { own, rank, children, at };
        let action = self.on(&mut contender, created);
        (contender, rank, action)
    }

    /// Returns a contender that waits according to the list.
    fn waiting(&mut self, own: i32, queue: &[i32]) -> Contender {
        let (contender, _, action) = self.entered(&name(own), Some(names(queue)));
        assert_eq!(action, Action::Report);
        assert_ne!(contender.standing(), Standing::Granted);
        contender
    }

    /// Returns the local queue of a known queue, with one contender that holds.
    fn known(own: i32) -> (Self, Rank) {
        let mut scene = Self::new();
        scene.local.parent_watched(scene.now);
        let (holder, rank, _) = scene.entered(&name(own), Some(names(&[own])));
        assert_eq!(holder.standing(), Standing::Granted);
        (scene, rank)
    }

    fn listed(&mut self, contender: &mut Contender, queue: &[i32]) -> Action {
        let at = self.local.moment(self.now);
        self.on(contender, Event::Listed { children: names(queue), at })
    }

    fn watched(&mut self, contender: &mut Contender, own: WatchState, blocker: WatchState) -> Action {
        let on = self.now;
        self.on(contender, Event::Watched { own, blocker, on })
    }

    fn woken(&mut self, contender: &mut Contender, own: WatchState, blocker: WatchState) -> Action {
        self.on(contender, Event::Woken { own, blocker })
    }
}

fn watch(own: bool, blocker: i32) -> Action {
    Action::Watch { own, blocker: Some(name(blocker)) }
}

#[test]
fn a_known_queue_needs_no_list() {
    let (mut scene, holder) = Scene::known(7);
    scene.local.leave(holder);
    let (next, rank, action) = scene.entered(&name(8), None);
    assert_eq!((next.standing(), action), (Standing::Granted, Action::Report));
    scene.local.leave(rank);
    // Another client has the number in between.
    let (_, _, action) = scene.entered(&name(10), None);
    assert_eq!(action, Action::List);
}

#[test]
fn the_next_in_the_local_queue_has_its_turn_without_a_look() {
    let (mut scene, holder) = Scene::known(7);
    let (mut next, _, action) = scene.entered(&name(8), None);
    assert_eq!((next.standing(), action), (Standing::Waiting { position: 1 }, Action::Report));
    assert_eq!(next.park(scene.now), Action::Watch { own: true, blocker: None });
    assert_eq!(scene.watched(&mut next, WatchState::There, WatchState::Unwatched), Action::Await);
    assert_eq!(scene.woken(&mut next, WatchState::There, WatchState::Unwatched), Action::Report);
    assert_eq!(next.standing(), Standing::Waiting { position: 1 });
    assert_eq!(next.park(scene.now), Action::Await);
    scene.local.leave(holder);
    scene.woken(&mut next, WatchState::There, WatchState::Unwatched);
    assert_eq!(next.standing(), Standing::Granted);
}

#[test]
fn its_turn_takes_a_look_if_its_own_node_is_not_watched_on_this_connection() {
    let (mut scene, holder) = Scene::known(7);
    let (mut next, _, _) = scene.entered(&name(8), None);
    assert_eq!(scene.watched(&mut next, WatchState::Unwatched, WatchState::Unwatched), Action::Await);
    scene.local.leave(holder);
    assert_eq!(scene.woken(&mut next, WatchState::Unwatched, WatchState::Unwatched), Action::List);
    assert_eq!(scene.watched(&mut next, WatchState::There, WatchState::Unwatched), Action::Await);
    scene.now = Connection(2);
    assert_eq!(scene.woken(&mut next, WatchState::There, WatchState::Unwatched), Action::List);
    assert_eq!(scene.woken(&mut next, WatchState::Gone, WatchState::Unwatched), Action::List);
    assert_eq!(scene.listed(&mut next, &[8]), Action::Report);
    assert_eq!(next.standing(), Standing::Granted);
}

#[test]
fn the_end_of_the_only_one_before_it_is_its_grant() {
    let mut scene = Scene::new();
    let mut contender = scene.waiting(3, &[4, 2, 3]);
    assert_eq!(contender.standing(), Standing::Waiting { position: 1 });
    assert_eq!(contender.park(scene.now), watch(true, 2));
    assert_eq!(scene.watched(&mut contender, WatchState::There, WatchState::There), Action::Await);
    assert_eq!(scene.woken(&mut contender, WatchState::There, WatchState::Gone), Action::Report);
    assert_eq!(contender.standing(), Standing::Granted);
}

#[test]
fn it_looks_again_where_the_end_of_its_blocker_does_not_tell_enough() {
    let gone_of = |own: WatchState, blocker: WatchState, now: Connection| {
        let mut scene = Scene::new();
        let mut contender = scene.waiting(3, &[2, 3]);
        assert_eq!(scene.watched(&mut contender, WatchState::There, WatchState::There), Action::Await);
        scene.now = now;
        scene.woken(&mut contender, own, blocker)
    };
    assert_eq!(gone_of(WatchState::There, WatchState::Gone, Connection(1)), Action::Report);
    assert_eq!(gone_of(WatchState::There, WatchState::Changed, Connection(1)), Action::List);
    assert_eq!(gone_of(WatchState::Gone, WatchState::Gone, Connection(1)), Action::List);
    assert_eq!(gone_of(WatchState::Changed, WatchState::Gone, Connection(1)), Action::List);
    assert_eq!(gone_of(WatchState::There, WatchState::Gone, Connection(2)), Action::List);
}

#[test]
fn on_a_new_connection_it_watches_again_without_a_look() {
    let mut scene = Scene::new();
    let mut contender = scene.waiting(4, &[1, 2, 3, 4]);
    scene.watched(&mut contender, WatchState::There, WatchState::There);
    scene.now = Connection(2);
    assert_eq!(scene.woken(&mut contender, WatchState::Unwatched, WatchState::Unwatched), Action::Report);
    assert_eq!(contender.standing(), Standing::Waiting { position: 3 });
    assert_eq!(contender.park(scene.now), watch(true, 2));
    // A list from another connection does not prove that no one else is ahead.
    assert_eq!(scene.watched(&mut contender, WatchState::There, WatchState::Gone), Action::List);
}

#[test]
fn with_two_before_it_it_looks_again_when_the_second_is_gone() {
    let mut scene = Scene::new();
    let mut contender = scene.waiting(4, &[1, 2, 3, 4]);
    assert_eq!(contender.standing(), Standing::Waiting { position: 3 });
    assert_eq!(contender.park(scene.now), watch(true, 2));
    scene.watched(&mut contender, WatchState::There, WatchState::There);
    let gone = scene.woken(&mut contender, WatchState::There, WatchState::Gone);
    assert_eq!(gone, Action::WatchAndList(name(3)));
    assert_eq!(scene.listed(&mut contender, &[3, 4, 5]), Action::Report);
    assert_eq!(contender.park(scene.now), watch(false, 3));
}

#[test]
fn whoever_follows_one_that_met_others_lists_at_once() {
    let (mut scene, holder) = Scene::known(7);
    scene.local.leave(holder);
    assert!(!scene.local.prefetch(scene.now, false).list);
    let (_, rank, action) = scene.entered(&name(9), None);
    assert_eq!(action, Action::List);
    assert!(scene.local.prefetch(scene.now, false).list, "another client has the number in between");
    scene.local.leave(rank);
    scene.entered(&name(11), Some(names(&[10, 11])));
    assert!(scene.local.prefetch(scene.now, false).list, "it waits for another client");
    let (mut scene, _) = Scene::known(7);
    let (next, rank, _) = scene.entered(&name(8), None);
    assert_eq!(next.standing(), Standing::Waiting { position: 1 });
    scene.local.leave(rank);
    assert!(!scene.local.prefetch(scene.now, false).list, "it has waited for its own client");
}

#[test]
fn whoever_waits_for_its_own_client_lists_when_that_is_gone() {
    let mut scene = Scene::new();
    let (_, first, _) = scene.entered(&name(3), Some(names(&[1, 3])));
    let (mut next, _, action) = scene.entered(&name(5), None);
    assert_eq!((action, next.standing()), (Action::Report, Standing::Waiting { position: 0 }));
    scene.local.leave(first);
    assert_eq!(scene.woken(&mut next, WatchState::There, WatchState::Unwatched), Action::List);
}

#[test]
fn a_blocker_that_is_gone_before_it_is_watched_is_gone() {
    let mut scene = Scene::new();
    let mut contender = scene.waiting(3, &[2, 3]);
    assert_eq!(scene.watched(&mut contender, WatchState::There, WatchState::Gone), Action::Report);
    assert_eq!(contender.standing(), Standing::Granted);
    let mut contender = scene.waiting(5, &[4, 5]);
    assert_eq!(scene.watched(&mut contender, WatchState::Gone, WatchState::Gone), Action::List);
}

#[test]
fn without_the_second_reply_it_lists_again() {
    let mut scene = Scene::new();
    let (contender, _, action) = scene.entered(&name(1), None);
    assert_eq!((contender.standing(), action), (Standing::Outside, Action::List));
}

#[test]
fn a_create_in_doubt_is_settled_before_anything_else() {
    let mut scene = Scene::new();
    let mut contender = Contender::new(&MUTEX);
    assert_eq!(scene.on(&mut contender, Event::CreateUnknown), Action::Settle);
    assert_eq!(scene.on(&mut contender, Event::Settled(None)), Action::Create);
    let own = Queued { name: name(5), kind: Kind::Exclusive, sequence: 5 };
    let rank = scene.local.arrive(&own, None, scene.now, ());
    assert_eq!(scene.on(&mut contender, Event::Settled(Some((own, rank)))), Action::List);
    assert_eq!(scene.listed(&mut contender, &[5]), Action::Report);
    assert_eq!(contender.standing(), Standing::Granted);
}

#[test]
fn a_lost_node_goes_back_to_the_end() {
    let mut scene = Scene::new();
    for rest in [&[1, 3][..], &[]] {
        let mut contender = scene.waiting(2, &[1, 2]);
        assert_eq!(scene.listed(&mut contender, rest), Action::Requeue);
        assert_eq!(contender.standing(), Standing::Outside);
    }
}

#[test]
fn the_node_of_an_old_session_is_never_granted() {
    let mut scene = Scene::new();
    let mut contender = scene.waiting(2, &[1, 2]);
    assert_eq!(scene.on(&mut contender, Event::SessionOver), Action::Create);
    assert_eq!(contender.standing(), Standing::Outside);
    // The server still shows the old node, which is first. The new session has a local queue of its own.
    let mut scene = Scene { now: Connection(2), ..Scene::new() };
    let contender = scene.waiting(3, &[2, 3]);
    assert_eq!(contender.park(scene.now), watch(true, 2));
}

#[test]
fn unrecognized_children_never_block() {
    let mut scene = Scene::new();
    let children = vec!["0-foreign".into(), name(1), "zebra".into()];
    let (contender, _, _) = scene.entered(&name(1), Some(children));
    assert_eq!(contender.standing(), Standing::Granted);
}

#[test]
fn it_is_refused_behind_another_recipe_and_waits_for_its_own_before_that() {
    let latch = |sequence: i32| format!("_c_id-latch-{sequence:010}");
    let refused = |sequence: i32| Action::Refuse { child: latch(sequence), found: "leader latch" };
    let mut scene = Scene::new();
    let (contender, _, action) = scene.entered(&name(2), Some(vec![latch(1), name(2)]));
    assert_eq!((contender.standing(), action), (Standing::Outside, refused(1)));
    // A contender of another recipe that comes later does no harm.
    let mut scene = Scene::new();
    let (contender, _, _) = scene.entered(&name(3), Some(vec![name(3), latch(4)]));
    assert_eq!(contender.standing(), Standing::Granted);
    let mut scene = Scene::new();
    let children = vec![name(1), latch(2), name(3)];
    let (mut contender, _, action) = scene.entered(&name(3), Some(children));
    assert_eq!((contender.standing(), action), (Standing::Waiting { position: 1 }, Action::Report));
    assert_eq!(contender.park(scene.now), watch(true, 1));
    scene.watched(&mut contender, WatchState::There, WatchState::There);
    assert_eq!(scene.woken(&mut contender, WatchState::There, WatchState::Gone), Action::List);
    let at = scene.local.moment(scene.now);
    let listed = Event::Listed { children: vec![latch(2), name(3)], at };
    assert_eq!(scene.on(&mut contender, listed), refused(2));
}

#[test]
fn the_local_queue_knows_nothing_behind_another_recipe() {
    let mut scene = Scene::new();
    scene.local.parent_watched(scene.now);
    let latch = "_c_id-latch-0000000002".to_owned();
    let (_, holder, _) = scene.entered(&name(1), Some(vec![name(1), latch.clone()]));
    let (mut next, _, _) = scene.entered(&name(3), Some(vec![name(1), latch, name(3)]));
    assert_eq!(next.standing(), Standing::Waiting { position: 1 });
    scene.watched(&mut next, WatchState::There, WatchState::Unwatched);
    scene.local.leave(holder);
    assert_eq!(scene.woken(&mut next, WatchState::There, WatchState::Unwatched), Action::List);
}

#[test]
fn a_reader_waits_for_writers_and_a_writer_for_the_one_before_it() {
    let queue: Vec<String> = ["WRIT__0000000001", "READ__0000000002", "WRIT__0000000003", "READ__0000000004"]
        .map(|end| format!("_c_id-__{end}"))
        .into();
    // For a contender in that place of a queue: whom it watches, and whether the end of that one is its grant.
    let watches_in = |own: &String, queue: &[String]| {
        let mut scene = Scene { names: &READ_WRITE, ..Scene::new() };
        let (mut contender, _, _) = scene.entered(own, Some(queue.to_vec()));
        let Action::Watch { own: true, blocker } = contender.park(scene.now) else { return None };
        scene.watched(&mut contender, WatchState::There, WatchState::There);
        scene.woken(&mut contender, WatchState::There, WatchState::Gone);
        let blocker = queue.iter().position(|name| Some(name) == blocker.as_ref())?;
        Some((blocker, contender.standing() == Standing::Granted))
    };
    let watches = |own: usize, first: usize| {
        let (blocker, is_last) = watches_in(&queue[own], &queue[first..])?;
        Some((blocker + first, is_last))
    };
    assert_eq!(watches(3, 0), Some((2, false)));
    assert_eq!(watches(3, 1), Some((2, true)));
    assert_eq!(watches(2, 0), Some((0, false)));
    assert_eq!(watches(2, 1), Some((1, true)));
    // The writer ahead of it may downgrade to a reader.
    assert_eq!(watches(2, 2), None);
    let writers = [queue[0].clone(), queue[2].clone()];
    assert_eq!(watches_in(&writers[1], &writers), Some((0, false)));
    assert_eq!(watches(1, 0), Some((0, true)));
    assert_eq!(watches(1, 1), None);
}

#[test]
fn repeated_numbers_at_the_wrap_grant_one_only() {
    let children: Vec<String> = ["a", "b", "c"].map(|id| format!("_c_{id}-lock-2147483647")).into();
    let queued = |name: &String| Queued { name: name.clone(), kind: Kind::Exclusive, sequence: i32::MAX };
    let undated: Vec<Queued> = children.iter().map(queued).collect();
    let dates: Vec<(Queued, i64)> = undated.iter().cloned().zip([30, 10, 20]).collect();
    let mut scene = Scene::new();
    let mut park = |own: &String| {
        let (mut contender, _, action) = scene.entered(own, Some(children.clone()));
        assert_eq!(action, Action::Date(undated.clone()));
        let dated = Event::Dated { created: dates.clone(), asked: dates.len() };
        assert_eq!(scene.on(&mut contender, dated), Action::Report);
        (contender.standing(), contender.park(scene.now))
    };
    let [a, b, c] = [park(&children[0]), park(&children[1]), park(&children[2])];
    let waiting = |position, blocker: usize| {
        let blocker = Some(children[blocker].clone());
        (Standing::Waiting { position }, Action::Watch { own: true, blocker })
    };
    assert_eq!(b, (Standing::Granted, Action::Report));
    assert_eq!(c, waiting(1, 1));
    assert_eq!(a, waiting(2, 2));
}

#[test]
fn own_node_gone_while_dates_were_fetched() {
    let mut scene = Scene::new();
    let children = vec!["_c_a-lock-2147483647".to_owned(), "_c_b-lock-2147483647".to_owned()];
    let (mut contender, _, _) = scene.entered(&children[0], Some(children.clone()));
    let other = Queued { name: children[1].clone(), kind: Kind::Exclusive, sequence: i32::MAX };
    let dated = Event::Dated { created: vec![(other, 4)], asked: 2 };
    assert_eq!(scene.on(&mut contender, dated), Action::Requeue);
}
