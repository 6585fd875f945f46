//! The defects.

use self::ShownBy::{History, Play};

pub(crate) struct Defect {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    /// A text that stands once in the file, with what is to be broken between `[[` and `]]`.
    pub(crate) place: &'static str,
    /// What takes the place of that.
    pub(crate) broken: &'static str,
    pub(crate) shown_by: ShownBy,
}

pub(crate) enum ShownBy {
    /// Random plays with these arguments.
    Play(&'static str),
    /// A history of `tests/timely`.
    History(&'static str),
}

const SIGNS: &str = "src/client/signs.rs";
const COMBINED: &str = "src/client/session/combined.rs";
const CONTENDER: &str = "src/queue/pure/contender/mod.rs";
const KNOWLEDGE: &str = "src/queue/pure/local_queue/knowledge.rs";
const LOCAL_QUEUE: &str = "src/queue/pure/local_queue/mod.rs";
const PERMITS: &str = "src/queue/pure/permits.rs";
const QUORUM: &str = "src/queue/pure/quorum.rs";
const ALL_OR_NONE: &str = "src/queue/pure/all_or_none.rs";
const PERMIT_WAITER: &str = "src/queue/permit_waiter.rs";
const LEASES: &str = "src/queue/leases.rs";
const PLAN: &str = "src/job/plan.rs";
const CACHE: &str = "src/cache/pure/core.rs";
const VALUES: &str = "src/shared/node.rs";
const KEPT: &str = "src/nodes/keeping/decision.rs";
const BARRIERS: &str = "src/barriers/decision.rs";

const LOCKS: ShownBy = Play("--recipe locks");
const LOCKS_OF_THREE: ShownBy = Play("--recipe locks --servers 3");

pub(crate) const DEFECTS: &[Defect] = &[
    Defect {
        name: "another-session-continues",
        file: SIGNS,
        place: "[[given == asked]]",
        broken: "given == asked || true",
        shown_by: Play("--recipe locks --with forget"),
    },
    Defect {
        name: "validity-without-margin",
        file: SIGNS,
        place: "self.until = self.until.max([[by_answer.min(by_report)]]);",
        broken: "by_answer.max(by_report) + self.margin",
        shown_by: LOCKS,
    },
    Defect {
        name: "reports-of-followers-do-not-count",
        file: SIGNS,
        place: "self.counted = self.counted.max([[take_due(&mut self.asked_for, sent)]]);",
        broken: "Some(sent)",
        shown_by: LOCKS_OF_THREE,
    },
    Defect {
        name: "granted-however-little-validity-is-left",
        file: SIGNS,
        place: "if [[now + self.worth() <= self.until]] {",
        broken: "true || now + self.worth() <= self.until",
        shown_by: Play(
            "--recipe locks --without silence --without pause --without slow --without late --without standstill",
        ),
    },
    Defect {
        name: "create-grants-in-unknown-queue",
        file: CONTENDER,
        place: "None if [[local.is_clear(rank, now)]] => self.stand(true, local, now)",
        broken: "self.granted(); return Action::Report",
        shown_by: LOCKS,
    },
    Defect {
        name: "nearest-blocker-is-the-last",
        file: CONTENDER,
        place: "let is_last = [[second.is_none()]] && !may_be_followed",
        broken: "second.is_none() || true",
        shown_by: LOCKS,
    },
    Defect {
        name: "queue-is-known-without-watch",
        file: KNOWLEDGE,
        place: "[[is_watched]] && known.on == now",
        broken: "is_watched || true",
        shown_by: LOCKS,
    },
    Defect {
        name: "queue-is-known-though-parent-changed",
        file: KNOWLEDGE,
        place: "self.parent_watched = None;\n        [[self.known = None;]]",
        broken: "",
        shown_by: LOCKS,
    },
    Defect {
        name: "whoever-leaves-wakes-no-one",
        file: LOCAL_QUEUE,
        place: "[[woken.push(member.wake.clone());]]",
        broken: "",
        shown_by: LOCKS,
    },
    Defect {
        name: "local-queue-blocks-no-one",
        file: LOCAL_QUEUE,
        place: ".any(|(before, _)| [[exclude_each_other(before.kind, rank.kind)]])",
        broken: "exclude_each_other(before.kind, rank.kind) && false",
        shown_by: LOCKS,
    },
    Defect {
        name: "passes-on-before-transactions-are-done",
        file: "src/queue/pure/passing.rs",
        place: "if [[self.open > 0]] {",
        broken: "self.open > 0 && false",
        shown_by: LOCKS,
    },
    Defect {
        name: "lingers-though-others-wait",
        file: "src/queue/pure/linger.rs",
        place: "[[self.seen = Seen::Others;]]",
        broken: "",
        shown_by: LOCKS,
    },
    Defect {
        name: "lost-creates-are-not-swept",
        file: "src/client/sweeper.rs",
        place: "if [[session.is_over()]] {\n            return;",
        broken: "session.is_over() || true",
        shown_by: LOCKS,
    },
    Defect {
        name: "one-permit-too-many",
        file: PERMITS,
        place: "if [[count.free() >= i64::from(self.wanted)]] {",
        broken: "count.free() + 1 >= i64::from(self.wanted)",
        shown_by: LOCKS,
    },
    Defect {
        name: "leases-beyond-the-limit-are-kept",
        file: PERMITS,
        place: "Some(count) if [[count.free() >= 0]] => Action::Keep(count)",
        broken: "count.free() >= 0 || true",
        shown_by: LOCKS,
    },
    Defect {
        name: "writer-ahead-does-not-become-a-reader",
        file: CONTENDER,
        place: "[[!may_be_followed]] && foreign == 0",
        broken: "true",
        shown_by: LOCKS,
    },
    Defect {
        name: "local-wake-up-is-not-kept",
        file: "src/queue/shared_local_queue.rs",
        place: "let woken = self.state.lock().local.leave(rank);\n        for wake in woken {\n            [[wake.notify_one();]]",
        broken: "wake.notify_waiters();",
        shown_by: LOCKS,
    },
    Defect {
        name: "combined-replies-are-mixed-up",
        file: COMBINED,
        place: ".zip([[replies]])",
        broken: "{ let mut mixed = replies; mixed.reverse(); mixed }",
        shown_by: LOCKS,
    },
    Defect {
        name: "combined-creates-share-a-token",
        file: "src/client/session/combining.rs",
        place: "(bytes > MOST_BYTES || [[taken.iter().any(has_queue)]])",
        broken: "false",
        shown_by: LOCKS,
    },
    Defect {
        name: "combined-writes-are-all-refused",
        file: COMBINED,
        place: "let is_refused = [[Failure::of(&error) == Failure::Refused]];",
        broken: "false",
        shown_by: LOCKS,
    },
    Defect {
        name: "stands-though-not-eligible",
        file: "src/leader/candidate.rs",
        place: "if [[!self.eligibility.get() && !self.is_closing()]] {",
        broken: "false",
        shown_by: Play("--recipe leaders"),
    },
    Defect {
        name: "ineligible-candidate-waits-on",
        file: "src/leader/candidate.rs",
        place: "[[tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => None,
            () = self.eligibility.becomes(false) => None,
            guard = granted(&mut turn, None) => Some(guard?),
        }]]",
        broken: "tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => None,
            guard = granted(&mut turn, None) => Some(guard?),
        }",
        shown_by: Play("--recipe leaders"),
    },
    Defect {
        name: "same-time-is-run-again",
        file: PLAN,
        place: "schedule.at_or_before(now).filter(|latest| [[*latest > done_until]])",
        broken: "*latest >= done_until",
        shown_by: Play("--recipe jobs"),
    },
    Defect {
        name: "unfinished-run-is-repeated-once-more",
        file: PLAN,
        place: "&& [[last.attempt <= times]]",
        broken: "last.attempt <= times + 1",
        shown_by: Play("--recipe jobs"),
    },
    Defect {
        name: "any-clock-runs-jobs",
        file: "src/job/book.rs",
        place: "self.sighting.as_ref().and_then(|(sighting, _)| [[sighting.difference(self.tolerance)]])",
        broken: "let _ = sighting; None",
        shown_by: Play("--recipe jobs"),
    },
    Defect {
        name: "cache-misses-children-of-the-time-without-connection",
        file: CACHE,
        place: "} else if [[self.listed.get(path) != Some(&state)]]",
        broken: "!self.listed.contains_key(path)",
        shown_by: Play("--recipe caches"),
    },
    Defect {
        name: "cache-believes-reads-that-events-overtook",
        file: CACHE,
        place: "want.node |= [[reading.is_overtaken]];",
        broken: "reading.is_overtaken && false",
        shown_by: Play("--recipe caches"),
    },
    Defect {
        name: "cache-forgets-a-child-of-what-is-read",
        file: CACHE,
        place: "[[parent.has_children = true;]]\n                    parent.may_be_readable();",
        broken: "",
        shown_by: Play("--recipe caches"),
    },
    Defect {
        name: "write-in-doubt-is-a-new-one",
        file: VALUES,
        place: "let doubted = expected.filter(|_| [[is_in_doubt]]);",
        broken: "is_in_doubt && false",
        shown_by: Play("--recipe numbers"),
    },
    Defect {
        name: "write-in-doubt-is-not-done-once-others-wrote",
        file: "src/shared/version.rs",
        place: "[[self.number == before.number.wrapping_add(1)]]",
        broken: "self.written > before.written",
        shown_by: Play("--recipe numbers"),
    },
    Defect {
        name: "barrier-opens-one-early",
        file: BARRIERS,
        place: "if [[counted.len() == wanted]] { Admission::Enough",
        broken: "counted.len() + 1 >= wanted",
        shown_by: Play("--recipe barriers"),
    },
    Defect {
        name: "open-barrier-lets-everybody-in",
        file: BARRIERS,
        place: "[[came < opened]]",
        broken: "came < opened || true",
        shown_by: Play("--recipe barriers"),
    },
    Defect {
        name: "barrier-opens-for-those-who-left",
        file: "src/barriers/opening.rs",
        place: "let checks = [[counted.iter()]].map(",
        broken: "counted[..counted.len().min(1)].iter()",
        shown_by: Play("--recipe barriers"),
    },
    Defect {
        name: "kept-node-stays-after-its-end",
        file: KEPT,
        place: "Lifetime::Session => [[seen.owner == session]],",
        broken: "seen.owner == session && false",
        shown_by: Play("--recipe nodes"),
    },
    Defect {
        name: "kept-node-is-not-looked-at-again",
        file: KEPT,
        place: "Some(Data::Of(generation)) if [[generation == wanted]] => Step::Rest",
        broken: "generation <= wanted",
        shown_by: Play("--recipe nodes"),
    },
    Defect {
        name: "kept-node-in-doubt-stays",
        file: "src/nodes/keeping/removal.rs",
        place: "self.known.is_some() || [[self.doubt.lasts(Instant::now())]]",
        broken: "false",
        shown_by: Play("--recipe nodes"),
    },
    Defect {
        name: "instance-of-no-session-stays-after-its-end",
        file: KEPT,
        place: "Lifetime::Value => [[seen.owner == 0 && known.is_some_and(|known| known.czxid == seen.czxid)]],",
        broken: "false",
        shown_by: Play("--recipe discovery"),
    },
    Defect {
        name: "minority-holds",
        file: QUORUM,
        place: "valid >= [[self.majority()]]",
        broken: "self.majority() - 1",
        shown_by: Play("--recipe quorum"),
    },
    Defect {
        name: "majority-is-valid-as-long-as-any",
        file: QUORUM,
        place: "[[members.into_iter().nth(self.majority() - 1)]]",
        broken: "members.into_iter().rev().nth(self.members - self.majority())",
        shown_by: Play("--recipe quorum"),
    },
    // Of decisions that the model does not play.
    Defect {
        name: "half-is-a-majority",
        file: QUORUM,
        place: "[[self.members / 2 + 1]]",
        broken: "self.members / 2",
        shown_by: History("quorum::a_holder_knows_of_its_loss_before_another_holds"),
    },
    Defect {
        name: "granted-members-are-not-asked-again",
        file: QUORUM,
        place: "filter(|member| [[is_valid(*member)]])",
        broken: "{ let _ = is_valid(*member); true }",
        shown_by: History("quorum::closed::a_member_that_is_out_of_reach_in_the_end_does_not_count"),
    },
    Defect {
        name: "majority-is-valid-until-the-last-member-ends",
        file: QUORUM,
        place: "[[members.into_iter().nth(self.majority() - 1)]]",
        broken: "members.into_iter().next()",
        shown_by: History("quorum::a_holder_knows_of_its_loss_before_another_holds"),
    },
    Defect {
        name: "majority-waits-for-the-rest",
        file: QUORUM,
        place: "is_needed: [[!self.quorum.is_held(self.taken().count())]]",
        broken: "true",
        shown_by: History("quorum::a_straggler_does_not_keep_a_majority_waiting"),
    },
    Defect {
        name: "ensembles-are-taken-as-given",
        file: "src/lock/quorum/mod.rs",
        place: "[[ensembles.sort_unstable_by_key(|(name, _)| *name);]]",
        broken: "",
        shown_by: History("quorum::closed::waiters_are_let_in_as_they_came"),
    },
    Defect {
        name: "granted-place-hides-losses-before-it",
        file: ALL_OR_NONE,
        place: "[[self.is_up_to_date = false;]]\n                self.stands",
        broken: "",
        shown_by: History("multi_locks::a_caller_that_is_polled_late_has_all_or_none"),
    },
    Defect {
        name: "entered-rest-hides-losses-before-it",
        file: ALL_OR_NONE,
        place: "self.is_up_to_date = [[self.places.is_empty()]];",
        broken: "true",
        shown_by: History("multi_locks::whoever_must_wait_again_for_an_earlier_path_leaves_the_later_ones"),
    },
    Defect {
        name: "waiter-stays-in-the-rest",
        file: ALL_OR_NONE,
        place: "self.places.len() > place + 1 || [[self.is_in_rest]]",
        broken: "false",
        shown_by: History(
            "multi_locks::whoever_waits_for_one_has_those_before_it_and_has_left_the_later_ones",
        ),
    },
    Defect {
        name: "waiter-keeps-places-behind",
        file: ALL_OR_NONE,
        place: "[[self.places.len() > place + 1]] || self.is_in_rest",
        broken: "false",
        shown_by: History("multi_locks::whoever_must_wait_again_for_an_earlier_path_leaves_the_later_ones"),
    },
    Defect {
        name: "waits-in-the-last-place",
        file: ALL_OR_NONE,
        place: "pub(crate) fn waits_in(&self) -> Option<usize> {\n        [[self.places.iter().position(|place| *place != Standing::Granted)]]",
        broken: "self.places.iter().any(|place| *place != Standing::Granted).then(|| self.places.len() - 1)",
        shown_by: History("multi_locks::whoever_must_wait_again_for_an_earlier_path_leaves_the_later_ones"),
    },
    Defect {
        name: "goes-on-without-a-lost-place",
        file: ALL_OR_NONE,
        place: "if [[self.places.contains(&Standing::Outside)]] {",
        broken: "false",
        shown_by: History(
            "multi_locks::a_member_that_is_lost_while_waiting_for_a_later_one_is_acquired_again",
        ),
    },
    Defect {
        name: "waiter-does-not-hear-of-other-losses",
        file: "src/queue/multi_waiter.rs",
        place: "any_gone([[held]])",
        broken: "&mut held[..0]",
        shown_by: History(
            "multi_locks::a_member_that_is_lost_while_waiting_for_a_later_one_is_acquired_again",
        ),
    },
    Defect {
        name: "some-places-are-all",
        file: ALL_OR_NONE,
        place: "[[self.places.len() == self.queues]] && self.waits_in().is_none()",
        broken: "true",
        shown_by: History(
            "multi_locks::whoever_waits_for_one_has_those_before_it_and_has_left_the_later_ones",
        ),
    },
    Defect {
        name: "place-that-waits-is-granted",
        file: ALL_OR_NONE,
        place: "self.places.len() == self.queues && [[self.waits_in().is_none()]]",
        broken: "true",
        shown_by: History("deadlocks::multi_locks_hold_what_they_have_while_they_wait"),
    },
    Defect {
        name: "places-outlive-their-session",
        file: ALL_OR_NONE,
        place: "Event::SessionOver => return [[self.leave_all(Loss::Session)]],",
        broken: "self.go_on()",
        shown_by: History("multi_locks::the_end_of_the_session_while_the_rest_is_entered_costs_all_places"),
    },
    Defect {
        name: "paths-are-taken-as-given",
        file: "src/lock/multi.rs",
        place: "[[members.sort_by_cached_key(paths);]]",
        broken: "",
        shown_by: History(
            "multi_locks::whoever_waits_for_one_has_those_before_it_and_has_left_the_later_ones",
        ),
    },
    Defect {
        name: "count-with-any-granted-create-is-believed",
        file: PERMITS,
        place: "listed || [[vacancy.is_some_and(|vacancy| vacancy.was_filled_by(sequence, now))]]",
        broken: "true",
        shown_by: History("gates::a_count_from_before_the_turn_at_the_gate_is_not_believed"),
    },
    Defect {
        name: "count-is-believed-beyond-other-numbers",
        file: KNOWLEDGE,
        place: "self.at == now && [[self.up_to.checked_add(1) == Some(sequence)]]",
        broken: "true",
        shown_by: History("gates::a_count_from_before_the_turn_at_the_gate_is_not_believed"),
    },
    Defect {
        name: "queue-of-own-contenders-is-empty",
        file: LOCAL_QUEUE,
        place: "self.knowledge.vacancy(now).filter(|_| [[self.members.is_empty()]])",
        broken: "true",
        shown_by: History("gates::a_count_from_before_the_turn_at_the_gate_is_not_believed"),
    },
    Defect {
        name: "count-of-first-create-serves-the-next",
        file: PERMITS,
        place: "Self::Sent(_) | Self::Repeated => [[Self::Repeated]],",
        broken: "Self::Sent(vacancy)",
        shown_by: History("gates::a_count_from_before_there_was_a_gate_is_not_believed"),
    },
    Defect {
        name: "count-with-create-is-believed-once-granted",
        file: PERMITS,
        place: "[[passage.is_some_and(|passage| passage.since_entry)]]",
        broken: "passage.is_some()",
        shown_by: History("gates::past_the_last_number_the_count_is_not_exceeded_either"),
    },
    Defect {
        name: "count-on-another-connection-needs-no-sync",
        file: PERMITS,
        place: "fn is_up_to_date(self, on: Connection) -> bool {\n        [[self.on == on]]",
        broken: "{ let _ = on; true }",
        shown_by: History(
            "gates::a_count_on_another_connection_than_the_grant_is_preceded_by_a_confirmation",
        ),
    },
    Defect {
        name: "count-behind-a-sync-is-not-believed",
        file: PERMITS,
        place: "([[count.synced]] || passage.is_up_to_date(now))",
        broken: "false",
        shown_by: History(
            "gates::a_count_on_another_connection_than_the_grant_is_preceded_by_a_confirmation",
        ),
    },
    Defect {
        name: "takes-more-than-is-free",
        file: PERMITS,
        place: "if [[count.free() >= i64::from(self.wanted)]] {",
        broken: "count.free() > 0",
        shown_by: History("gates::first_come_first_served_whoever_wants_how_many"),
    },
    Defect {
        name: "lease-of-a-waiting-peer-is-too-many",
        file: PERMITS,
        place: "leases > [[limit.saturating_add(1)]]",
        broken: "limit",
        shown_by: History("gates::more_permits_out_than_there_can_be_is_an_error_with_both_numbers"),
    },
    Defect {
        name: "waiter-for-leases-does-not-watch-the-gate",
        file: PERMIT_WAITER,
        place: "self.seat.place_mut().filter(|_| [[watch]]);",
        broken: "watch && false",
        shown_by: History("gates::the_loss_of_the_place_at_the_gate_lets_the_next_one_of_its_client_on"),
    },
    Defect {
        name: "goes-on-without-place-at-the-gate",
        file: PERMITS,
        place: "[[self.passage = None;]]\n                Action::LookAtGate",
        broken: "return self.go_on(now);",
        shown_by: History("gates::without_a_place_at_the_gate_no_permit_is_taken"),
    },
    Defect {
        name: "leases-in-doubt-are-not-undone",
        file: PERMITS,
        place: "Event::TakeUnknown => [[Action::Undo]]",
        broken: "self.go_on(now)",
        shown_by: History("permits::none_is_said_only_if_others_have_it"),
    },
    Defect {
        name: "leases-are-created-without-node-at-the-gate",
        file: PERMIT_WAITER,
        place: "let guard = [[Some(Guard::Exists(gate))]];",
        broken: "{ let _ = gate; None }",
        shown_by: History("gates::without_a_place_at_the_gate_no_permit_is_taken"),
    },
    Defect {
        name: "try-succeeds-with-any-number",
        file: LEASES,
        place: "let guard = [[Some(Guard::LastHas(guess.number))]];",
        broken: "None",
        shown_by: History("gates::a_client_that_is_not_alone_stops_to_try_for_a_while"),
    },
    Defect {
        name: "tries-for-permits-that-are-not-free",
        file: "src/queue/pure/stock.rs",
        place: "if [[known.limit.free(known.others + own) < i64::from(wanted)]] {",
        broken: "false",
        shown_by: History("gates::a_failed_try_makes_no_lease_and_sets_no_watch"),
    },
    Defect {
        name: "leases-are-counted-by-any-number",
        file: LOCAL_QUEUE,
        place: "[[next == Some(number)]]",
        broken: "next.is_some()",
        shown_by: History("gates::a_lease_that_did_not_pass_the_gate_is_noticed"),
    },
    Defect {
        name: "parents-made-again-go-unnoticed",
        file: "src/queue/shared_local_queue.rs",
        place: "*parent_watch = None;\n            [[local.parent_changed();]]",
        broken: "",
        shown_by: History("gates::a_lease_that_did_not_pass_the_gate_is_noticed"),
    },
    Defect {
        name: "leases-not-kept-are-not-given-back",
        file: PERMITS,
        place: "Some(_) | None => [[Action::Undo]]",
        broken: "self.go_on(now)",
        shown_by: History("gates::leases_whose_release_was_refused_are_counted"),
    },
    Defect {
        name: "lost-try-is-not-undone",
        file: LEASES,
        place: "match [[undo(&self.leases, &session, &mut nodes).await]] {",
        broken: "{ std::mem::forget(std::mem::take(&mut nodes)); Ok(()) }",
        shown_by: History("permits::none_is_said_only_if_others_have_it"),
    },
    Defect {
        name: "waiter-for-leases-watches-nothing",
        file: PERMITS,
        place: "sync: !passage.is_up_to_date(now), watch: [[self.is_patient]]",
        broken: "false",
        shown_by: History("gates::the_loss_of_the_place_at_the_gate_lets_the_next_one_of_its_client_on"),
    },
];
