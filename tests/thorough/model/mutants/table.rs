//! The mutants of queues, of lingering nodes, and of the clock.

use super::*;

const CONTENDER: &str = "src/queue/pure/contender/mod.rs";
const PASSING: &str = "src/queue/pure/passing.rs";
const LOCAL_QUEUE: &str = "src/queue/pure/local_queue/mod.rs";
const KNOWLEDGE: &str = "src/queue/pure/local_queue/knowledge.rs";
const LINGER: &str = "src/queue/pure/linger.rs";
const ORDER: &str = "src/queue/pure/order.rs";
const RULE: &str = "src/queue/pure/rule.rs";
const CLIENT: &str = "tests/thorough/model/client.rs";
const DRIVER: &str = "tests/thorough/model/driver.rs";
const ANSWERS: &str = "tests/thorough/model/answers.rs";
pub(super) const SIGNS: &str = "src/client/signs.rs";
const LAG: &str = "tests/thorough/model/lag.rs";
const ZOOKEEPER: &str = "tests/thorough/model/zookeeper.rs";
const FAULTS: &str = "tests/thorough/model/faults.rs";

pub(crate) const MUTANTS: &[Mutant] = &[
    mutant(
        "a grant by the local queue takes no watch on the own node",
        CONTENDER,
        "self.stand([[self.is_watched(now)]], local, now)",
        "true",
    ).shows_in(robs),
    mutant(
        "a grant by the blocker's end takes no watch on the own node",
        CONTENDER,
        "if !blocker.is_last || [[!self.is_watched(now)]] {",
        "false",
    ).shows_in(robs),
    mutant(
        "a watch on the own node that has told still counts",
        CONTENDER,
        "[[self.set_watched(None);]]",
        "",
    ),
    mutant(
        "only who may be granted by an event watches its own node",
        CONTENDER,
        "let own = [[!self.is_watched(now)]];",
        "!self.is_watched(now) && self.blocker.as_ref().is_none_or(|blocker| blocker.is_last)",
    )
    .shows_in(robs),
    // What is asked of the list and of the own watch: either is enough where there is but one connection.
    mutant(
        "the blocker's end counts though what is known is of an old connection",
        CONTENDER,
        "let Some(at) = [[blocker.at.filter(|at| at.on == now)]] else",
        "if blocker.is_last && own.watched.is_some() { return self.granted(); } blocker.at",
    )
    .shows_in(|game| game.faults.reconnect > 0 && game.faults.rob > 0),
    mutant(
        "the local queue does not block whoever goes by it",
        CONTENDER,
        "if [[local.is_blocked(own.rank)]] {\n            let position",
        "false",
    ).shows_in(robs),
    mutant(
        "the local queue does not block whoever is first of it in a list",
        CONTENDER,
        "if [[local.is_blocked(own.rank)]] {\n            return self.wait(position, None);",
        "false",
    ),
    mutant(
        "the local queue grants in a queue that is not known",
        CONTENDER,
        "} else if [[is_clear]] && own_is_there {",
        "true",
    ),
    mutant(
        "a node in a queue that existed is the first one of it",
        ZOOKEEPER,
        "if [[self.has_parent()]] {",
        "false",
    )
    .shows_in(|game| game.creates_parent),
    mutant(
        "what is learnt with a parent is of the present one",
        ANSWERS,
        "[[*ground = Ground::NewParent;]]",
        "*ground = Ground::NewParent; at = self.with(epoch, |local, now| local.moment(now));",
    )
    .shows_in(|game| game.creates_parent && game.faults.reap > 0 && game.faults.wipe > 0),
    mutant(
        "a create grants in a queue that is not known",
        CONTENDER,
        "None if [[local.is_clear(rank, now)]] => self.stand(true, local, now)",
        "{ self.granted(); return Action::Report }",
    ),
    mutant(
        "the nearest blocker's end is a grant though there is another",
        CONTENDER,
        "let is_last = [[second.is_none()]] && !may_be_followed && foreign == 0;",
        "true",
    )
    .shows_in(|game| game.faults.rob > 0 && game.faults.downgrade > 0),
    mutant(
        "the nearest blocker's end is a grant though another recipe is before it",
        CONTENDER,
        "!may_be_followed && [[foreign == 0]];",
        "true",
    )
    .shows_in(meets_another_recipe),
    mutant(
        "nobody looks for another recipe where numbers repeat",
        CONTENDER,
        "if let Some((child, found)) = [[intrusion(queue, place)]] {\n            return self.refuse(child, found);\n        }\n        match",
        "None::<(String, &'static str)>",
    )
    .shows_in(meets_another_recipe),
    mutant(
        "another recipe does not matter",
        RULE,
        "Some(first).filter(|first| [[first.foreign_recipe().is_some()]])",
        "false",
    )
    .shows_in(meets_another_recipe),
    mutant(
        "another recipe matters to those who wait for their own before it",
        RULE,
        "before.foreign_recipe().is_some() || [[waits_for(before)]])",
        "false",
    )
    .shows_in(meets_another_recipe),
    mutant(
        "a writer does not become a reader",
        CONTENDER,
        "let is_last = second.is_none() && [[!may_be_followed]] && foreign == 0;",
        "true",
    ),
    mutant(
        "a reader whose blocker is gone knows the queue before it",
        CONTENDER,
        "if [[own.node.kind == Kind::Exclusive]] {\n            local.clear_up_to",
        "true",
    )
    .shows_in(|game| game.faults.downgrade > 0 && game.faults.touch > 0),
    mutant(
        "the queue is known though the parent is not watched",
        KNOWLEDGE,
        "[[is_watched]] && known.on == now",
        "true",
    )
    .shows_in(reaps),
    mutant("a parent that has changed is not told from others", KNOWLEDGE, "[[self.parents += 1;]]", "")
        .shows_in(reaps_twice),
    mutant(
        "the queue is known though the parent has changed",
        KNOWLEDGE,
        "self.parent_watched = None;\n        [[self.known = None;]]",
        "",
    )
    .shows_in(reaps),
    mutant(
        "a queue that is known stays so under a parent that is watched anew",
        KNOWLEDGE,
        "[[self.parent_changed();]]\n        self.parent_watched = Some(on);",
        "",
    )
    .shows_in(reaps),
    mutant(
        "a queue that was seen under another parent is known",
        KNOWLEDGE,
        "if [[at.parent == self.parents]] &&",
        "true",
    )
    .shows_in(reaps_twice),
    mutant(
        "who was left over by an earlier parent vouches for its number",
        LOCAL_QUEUE,
        "behind.filter(|(_, member)| [[self.is_present(member)]])",
        "true",
    )
    .shows_in(gives_a_number_again_to_a_stranger),
    mutant(
        "who was left over by an earlier parent is clear",
        LOCAL_QUEUE,
        ".is_some_and(|member| [[self.is_present(member)]])",
        "true",
    )
    .shows_in(|game| game.is_known),
    mutant(
        "who was left over by an earlier parent counts as before the others",
        LOCAL_QUEUE,
        "[[self.is_present(member)]]).count()",
        "true",
    )
    .shows_in(gives_a_number_again),
    mutant(
        "a create under an earlier parent is of the present one",
        LOCAL_QUEUE,
        "[[created.map(|at| at.parent)]];",
        "created.map(|at| self.moment(at.on).parent)",
    )
    .shows_in(gives_a_number_again),
    mutant(
        "a list of an earlier parent is of the present one",
        LOCAL_QUEUE,
        "member.parent = member.parent.max([[Some(at.parent)]]);",
        "Some(self.knowledge.moment(at.on).parent)",
    )
    .shows_in(gives_a_number_again),
    mutant(
        "whoever has the number of one that was left over confirms it",
        LOCAL_QUEUE,
        "of_that_number.filter(|member| [[member.name == queued.name]])",
        "true",
    )
    .shows_in(gives_a_number_again_to_a_stranger),
    mutant(
        "nobody waits for a ticket that nobody awaits",
        LOCAL_QUEUE,
        "[[exclude_each_other(rank.kind, behind.kind)]]",
        "false",
    )
    .shows_in(|game| game.has_ticket),
    mutant(
        "a place that has left the local queue is granted",
        DRIVER,
        "Action::Report if [[self.is_granted_without_node(task)]] =>",
        "false",
    )
    .shows_in(|game| game.has_ticket),
    mutant(
        "a new connection is of use at once",
        LAG,
        "[[*caught_up == now]] &&",
        "true",
    )
    .shows_in(|game| game.faults.lag > 0),
    mutant("what is known extends over gaps", LOCAL_QUEUE, "|| [[rank.sequence > number + 1]] {", "false").shows_in(robs),
    mutant("whoever leaves wakes nobody", LOCAL_QUEUE, "[[woken.push(member.wake.clone());]]", ""),
    mutant("whoever leaves wakes the next only", LOCAL_QUEUE, "if [[behind.kind == Kind::Exclusive]] {", "true"),
    mutant(
        "nobody is blocked by the local queue",
        LOCAL_QUEUE,
        ".any(|(before, _)| [[exclude_each_other(before.kind, rank.kind)]])",
        "false",
    ),
    mutant(
        "the local queue blocks where numbers repeat",
        LOCAL_QUEUE,
        "[[!rank.is_past_the_last_number()]]\n            && self\n",
        "true",
    )
    .shows_in(ends_the_numbers),
    mutant(
        "a list makes the queue known though there are others before",
        LOCAL_QUEUE,
        "if queue[..place].iter().all(|before| [[self.has(before)]]) {",
        "true",
    ),
    mutant(
        "a list makes the queue known behind others",
        LOCAL_QUEUE,
        "take_while(|queued| [[self.has(queued)]])",
        "true",
    ).shows_in(robs),
    mutant("whoever is behind what is known is clear", LOCAL_QUEUE, "[[rank.sequence <= up_to]]", "true").shows_in(robs),
    mutant(
        "a reader goes on from a writer that has left",
        LOCAL_QUEUE,
        "if [[self.has(writer)]] { Some(",
        "true",
    )
    .shows_in(|game| game.faults.lose > 0),
    mutant(
        "the local queue passes on before what the holder has sent is done",
        PASSING,
        "if [[self.open > 0]] {",
        "false",
    )
    .shows_in(transacts),
    mutant(
        "a node whose delete was refused counts as gone",
        FAULTS,
        "[[client.refused.push(request);]]",
        "client.inbox.extend(crate::client::Client::message(&request)); client.refused.push(request);",
    )
    .shows_in(|game| game.faults.refuse > 0 && game.faults.late > 0),
    mutant("a transaction without an answer counts as done", PASSING, "if [[is_decided]] {", "true")
        .shows_in(transacts),
    mutant("a node lingers before its queue was listed", LINGER, "if [[self.seen == Seen::Nothing]] {", "false")
    .shows_in(lingers),
    mutant("a node lingers though others were listed", LINGER, "Event::Looked { is_alone } if [[is_alone]] &&", "true")
    .shows_in(lingers),
    mutant("a list counts though there was news before it", LINGER, "is_alone && [[self.seen == Seen::Nothing]] =>", "true")
    .shows_in(lingers),
    mutant("whoever lists another one alone is alone", LINGER, "[only] if [[only == node]])", "true")
    .shows_in(lingers),
    mutant("what the watch has told is forgotten", LINGER, "[[self.seen = Seen::Others;]]", "")
    .shows_in(lingers),
    mutant("a node goes on lingering though others have come", LINGER, "if [[self.state == State::Idle]] { Action::Delete }", "false")
    .shows_in(lingers),
    mutant("a node is deleted while somebody holds by it", LINGER, "if [[self.state == State::Idle]] { Action::Delete }", "true")
    .shows_in(lingers),
    mutant("a node that is asked for goes on lingering", LINGER, "self.seen = Seen::Asked;\n                if [[self.is_idle()]]", "false")
    .shows_in(lingers),
    mutant("a node lingers after a hold in which others have come", LINGER, "self.terms.lingers && [[matches!(self.seen, Seen::Nothing | Seen::Alone)]]", "true")
    .shows_in(lingers),
    mutant("a node stays while a transaction may yet be done", LINGER, "if [[release.pass_on == PassOn::WhenGone]] {", "false")
    .shows_in(lingers),
    mutant("a node that stays is granted while somebody holds by it", LINGER, "if [[self.state == State::Held]] {\n            return Action::Queue;", "false")
    .shows_in(lingers),
    mutant("a node that stays is granted without a valid session", LINGER, "if [[!now.is_sound]] ||", "false")
    .shows_in(lingers),
    mutant("a node that lingers is granted after its time", LINGER, "[[now.is_in_time]] && self.may_linger()", "true")
    .shows_in(lingers),
    mutant("a node that lingers is granted though its watch has told", LINGER, "if [[now.has_changed]] ||", "false")
    .shows_in(lingers),
    mutant("a node that lingers is granted though somebody asks for it", LINGER, "!now.is_sound || [[now.is_asked]] {", "false")
    .shows_in(lingers),
    mutant("a node that lingers is granted before those who queue", LINGER, "now.has_changed || [[now.others_queue]] {", "false")
    .shows_in(lingers),
    mutant("a cohort does not count how often it hands on", LINGER, "[[self.hand_ons = self.hand_ons.saturating_sub(1);]]", "")
    .shows_in(hands_on),
    mutant("a cohort hands on however often it has", LINGER, "let is_allowed = [[self.hand_ons > 0]] &&", "true")
    .shows_in(hands_on),
    mutant("a cohort hands on after its time", LINGER, "self.hand_ons > 0 && [[is_in_cohort_time]];", "true")
    .shows_in(hands_on),
    mutant("a cohort hands on what it does not watch, where others may have come", LINGER, "Seen::Others => [[is_allowed && is_watched]],", "is_allowed")
    .shows_in(hands_on),
    mutant("the next in line holds before there is an answer", LINGER, "if [[self.seen == Seen::Nothing]] {", "self.seen == Seen::Nothing && self.state == State::Idle")
    .shows_in(hands_on),
    mutant("a cohort hands on what is asked for", LINGER, "Seen::Asked => [[false]],", "true")
    .shows_in(hands_on),
    mutant("a request is forgotten when others come", LINGER, "if [[self.seen != Seen::Asked]] {", "true")
    .shows_in(hands_on),
    mutant("a cohort keeps others out after its time", LINGER, "Event::Deadline if [[self.is_idle()]] =>", "false")
    .shows_in(hands_on),
    mutant("a cohort whose line has left keeps the node", LINGER, "if [[self.may_linger()]] { Action::Keep } else { Action::Delete }\n    }\n\n    fn released", "true")
    .shows_in(hands_on),
    mutant("nobody notices that the line has left", LINGER, "if [[self.state != State::HandedOn]] {", "true")
    .shows_in(hands_on),
    mutant("the end of the line takes the node away from a holder", LINGER, "if [[self.state != State::HandedOn]] {", "false")
    .shows_in(hands_on),
    mutant("a node is handed on to nobody", LINGER, "if [[release.is_next_in_line]] &&", "true")
    .shows_in(hands_on),
    mutant("the next in line holds whatever has come meanwhile", LINGER, "State::HandedOn => [[self.may_be_handed_on(now.is_in_cohort_time, now.is_watched)]],", "true")
    .shows_in(hands_on),
    mutant("others of the client do not count as others", LINGER, "now.has_changed || [[now.others_queue]] {", "false")
    .shows_in(hands_on),
    mutant("a node that was handed on is granted without a valid session", LINGER, "if [[!now.is_sound]] ||", "false")
    .shows_in(hands_on),
    mutant("what comes while the node waits for the next in line does not count", LINGER, "if [[now.has_changed]] ||", "false")
    .shows_in(hands_on),
    mutant(
        "writers do not wait for readers",
        RULE,
        "one == Kind::Exclusive || [[other == Kind::Exclusive]]",
        "false",
    ),
    mutant(
        "names tell the order",
        ORDER,
        "[[(a.sequence, a.kind, &a.name).cmp(&(b.sequence, b.kind, &b.name))]]",
        "a.name.cmp(&b.name)",
    ),
    mutant("numbers that repeat tell the order", ORDER, "[[sequence == i32::MAX || sequence < 0]]", "false"),
    mutant(
        "the local queue does not hear of the parent",
        CLIENT,
        "[[shared.parent_watch.as_ref().is_some_and(|watch| watch.told.is_some())]]",
        "false",
    )
    .shows_in(reaps),
    mutant(
        "a task looks at its own watch first",
        DRIVER,
        "let event = [[self.woken(task, between, &mut shown)]];",
        "{
            let own = self.own_watch_state(task);
            self.deliver(between);
            match self.woken(task, 0, &mut shown) {
                Event::Woken { blocker, .. } => Event::Woken { own, blocker },
                event => event,
            }
        }",
    ),
    mutant(
        "a task that watches its blocker does not look at the earlier watch on its own node",
        ANSWERS,
        "None if [[self.own_watch_state(task) == WatchState::There]] => WatchState::Unwatched",
        "true",
    ).shows_in(robs),
    mutant(
        "a blocker's watch that has told is kept",
        ANSWERS,
        "[[tasks.blocker.take_if(|blocker| blocker.watch.told.is_some());]]",
        "",
    ),
    mutant(
        "a grant of an old session is reported",
        DRIVER,
        "Action::Report if [[self.is_over(task)]] =>",
        "false",
    ).shows_in(|game| game.faults.expire > 0),
    mutant(
        "an answer to `sync` confirms the session",
        SIGNS,
        "if [[self == Self::Check]] ||",
        "true",
    ),
    mutant("whatever is answered confirms the session", SIGNS, "if [[sign == Sign::Confirmed]] {", "true"),
    mutant(
        "the first answer after a silence counts in full",
        SIGNS,
        "[[by_answer.min(by_report)]]",
        "by_answer",
    ),
    mutant(
        "the leader asks for what was just heard",
        SIGNS,
        "self.heard.push_back((sent, [[now + self.report()]]));",
        "now",
    ),
    mutant(
        "the leader asks for what was sent half a tick ago, however late it was answered",
        SIGNS,
        "self.heard.push_back((sent, [[now + self.report()]]));",
        "sent + self.report()",
    ),
    mutant(
        "a leader that answers has asked for reports, though it has just gone on",
        SIGNS,
        "self.asked_for.push_back((heard, [[now + self.moment()]]));",
        "now",
    ).shows_in_sessions(|session| session.pauses > 0),
    mutant(
        "a leader has asked for reports some time after it was asked something, whether it answers or not",
        SIGNS,
        "self.asked_for.push_back((heard, [[now + self.moment()]]));",
        "sent + self.moment()",
    ).shows_in_sessions(|session| session.pauses > 0),
    mutant(
        "a timeout that is shortened does not end what was valid by the longer one",
        SIGNS,
        "[[self.until = self.until.min(since + timeout - margin);]]",
        "",
    ).shows_in_sessions(|session| session.reconnects == Some(Change::Shorten)),
    mutant(
        "a lock is handed out for whatever time is left",
        SIGNS,
        "if [[now + self.worth() <= self.until]] {",
        "now < self.until",
    ).shows_in_sessions(|session| session.grants),
    mutant(
        "a lock is handed out after a confirmation, whether the session is valid or not",
        SIGNS,
        "} else if [[now < self.until]] && is_enough {",
        "true",
    ).shows_in_sessions(|session| session.grants),
    mutant(
        "after a silence, a lock is handed out with a third of the timeout ahead",
        SIGNS,
        "if [[self.is_regular()]] { self.usual().min(self.timeout / 3) }",
        "true",
    ).shows_in_sessions(|session| session.grants),
    mutant(
        "after a silence, a lock is handed out after one confirmation",
        SIGNS,
        "let is_enough = [[confirmations > most || self.is_regular()]];",
        "true",
    ).shows_in_sessions(|session| session.grants),
    mutant(
        "a timeout that is lengthened counts",
        SIGNS,
        "if [[timeout < self.timeout]] {",
        "timeout != self.timeout",
    ).shows_in_sessions(|session| session.reconnects == Some(Change::Lengthen)),
    mutant(
        "a connection confirms the session that it continues",
        SIGNS,
        "[[self.asked_for.clear();]]",
        "self.confirmed(since); self.asked_for.clear();",
    ).shows_in_sessions(|session| session.reconnects == Some(Change::Nothing)),
    mutant(
        "a session is counted some time after its connection was begun",
        SIGNS,
        "self.asked_for.push_back(([[since]], since));",
        "since + 2",
    ).shows_in_sessions(|session| session.reconnects == Some(Change::Shorten)),
    mutant("a session continues on the connection of another one", SIGNS, "[[given == asked]]", "true").shows_in_sessions(|session| session.reconnects == Some(Change::Replace)),
    mutant("a report takes less than half a tick", SIGNS, "[[self.timeout.div_ceil(4)]]", "self.timeout / 8"),
];
