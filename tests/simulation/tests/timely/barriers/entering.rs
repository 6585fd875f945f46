//! Who is let in, and who counts.

use super::*;

#[history]
async fn who_is_polled_late_is_let_in_after_another_connection(stage: Stage) {
    make_path(&stage);
    for cuts in [0, 1, 2] {
        let (proxy, late, [other]) = far_and_near(&stage).await;
        let barrier = double_barrier(&late, 2);
        let mut entering = Box::pin(barrier.enter());
        let replies = proxy.replies_seen();
        assert!(poll_once(&mut entering).is_pending());
        queue_of(&stage, 1).await;
        assert!(proxy.replies_seen() >= replies + 3, "the replies are there");
        for _ in 0..cuts {
            proxy.cut();
            sleep(BRIEF).await;
            connected(&late).await;
        }
        let entered = within(double_barrier(&other, 2).enter()).await.unwrap();
        let in_late = soon("both are there", entering).await.unwrap();
        let leaving = leave_in_task(entered);
        soon("both leave", in_late.leave()).await.unwrap();
        outcome("both leave", leaving).await;
        queue_of(&stage, 0).await;
        late.close().await;
        other.close().await;
    }
}

// The event of the first one's watch arrives when the second one has already looked.
#[history]
async fn nobody_is_let_in_by_an_event_of_before_it_came(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let (shared, others) = (proxy.client(usual).await, near::<2>(&stage).await);
    let first = enter_in_task(&shared, 3);
    queue_of(&stage, 1).await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    for opening in others.each_ref().map(|client| enter_in_task(client, 3)) {
        drop(within(opening).await.unwrap().unwrap());
    }
    queue_of(&stage, 2).await;
    stage.servers().delete(READY);
    let second = enter_in_task(&shared, 3);
    queue_of(&stage, 2).await;
    proxy.set_traffic(Traffic::pass());
    let _first = outcome("it was let in", first).await;
    sleep(2 * SESSION).await;
    assert!(!second.is_finished(), "there are two of three");
    second.abort();
}

#[history]
async fn many_that_give_up_at_once_do_not_count_and_leave_nothing(stage: Stage) {
    const MANY: usize = 300;
    for cuts in [false, true] {
        let (proxy, client) = stage.far(usual).await;
        let all: Vec<_> = (0..MANY).map(|_| enter_in_task(&client, 2 * MANY)).collect();
        queue_of(&stage, MANY).await;
        proxy.set_traffic(Traffic::black_hole());
        all.iter().for_each(JoinHandle::abort);
        for entering in all {
            assert!(entering.await.unwrap_err().is_cancelled());
        }
        let alone = enter_in_task(&client, 2);
        sleep(BRIEF).await;
        if cuts {
            proxy.cut();
        }
        proxy.take_requests();
        proxy.set_traffic(Traffic::pass());
        sleep(SOON).await;
        queue_of(&stage, 1).await;
        let requests = proxy.take_requests().len();
        assert!(requests < 5 * MANY, "{requests} requests");
        assert!(!alone.is_finished(), "let in alone");
        alone.abort();
        queue_of(&stage, 0).await;
        client.close().await;
    }
}

// All come at once, and find a `ready` that was left behind.
#[history]
async fn many_that_find_a_stale_ready_are_let_in_at_a_bounded_cost(stage: Stage) {
    for (clients, each) in [(1, 60), (10, 6)] {
        let proxy = stage.proxy(0).await;
        make_path(&stage);
        assert!(stage.servers().create(READY, b"", false));
        let members = join_all((0..clients).map(|_| proxy.client(usual))).await;
        proxy.take_requests();
        let all = clients * each;
        let entering: Vec<_> = (0..all).map(|member| enter_in_task(&members[member / each], all)).collect();
        let entered = join_all(entering.into_iter().map(|it| outcome("all are there", it))).await;
        sleep(BRIEF).await;
        let requests = proxy.take_requests();
        let writes = requests.iter().filter(|request| **request == Request::Multi).count();
        // Each looks at all that are there.
        assert!(
            requests.len() < all * (all + 20) && writes < all / 2,
            "{} requests, {writes} writes",
            requests.len()
        );
        let leaving: Vec<_> = entered.into_iter().map(leave_in_task).collect();
        join_all(leaving.into_iter().map(|it| outcome("all leave", it))).await;
        sleep(BRIEF).await;
        assert!(proxy.requests_seen() < 20 * all, "{} requests to leave", proxy.requests_seen());
        queue_of(&stage, 0).await;
        join_all(members.iter().map(Client::close)).await;
    }
}

// Nothing but the watches is needed while nothing happens.
#[history]
async fn waiting_takes_no_requests(stage: Stage) {
    let (proxy, client, [other]) = far_and_near(&stage).await;
    let waiting = enter_in_task(&client, 2);
    queue_of(&stage, 1).await;
    proxy.take_requests();
    sleep(2 * SESSION).await;
    let enters = proxy.take_requests();
    let others = outcome("both are there", enter_in_task(&other, 2)).await;
    let leaving = leave_in_task(outcome("both are there", waiting).await);
    queue_of(&stage, 2).await;
    proxy.take_requests();
    sleep(2 * SESSION).await;
    let leaves = proxy.take_requests();
    let is_idle = |requests: &[Request]| requests.iter().all(|request| *request == Request::Confirm);
    assert!(is_idle(&enters) && is_idle(&leaves), "{enters:?}, {leaves:?}");
    drop(others);
    outcome("both leave", leaving).await;
}

#[history]
async fn what_is_deleted_as_a_whole_leaves_nobody_stuck(stage: Stage) {
    let [one, other, third] = near(&stage).await;
    let [first, second, last] = entered([&one, &other, &third]).await;
    let leaving = [leave_in_task(first), leave_in_task(second)];
    queue_of(&stage, 2).await;
    stage.servers().delete(PATH);
    for leaving in leaving {
        outcome("nobody is in", leaving).await;
    }
    soon("it is lost", last.lost()).await;
    drop(last);
    // The same for those that wait.
    let first = enter_in_task(&one, 2);
    for _ in 0..3 {
        queue_of(&stage, 1).await;
        stage.servers().delete(PATH);
    }
    let second = soon("both come", double_barrier(&other, 2).enter()).await.unwrap();
    let leaving = leave_in_task(outcome("both come", first).await);
    soon("both leave", second.leave()).await.unwrap();
    outcome("both leave", leaving).await;
    queue_of(&stage, 0).await;
}

#[history]
async fn who_enters_as_a_reply_is_lost_has_one_node(stage: Stage) {
    let (proxy, client, [other]) = far_and_near(&stage).await;
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        for lost in 0..6 {
            let waiting = enter_in_task(&other, 2);
            queue_of(&stage, 1).await;
            let lost = proxy.intercept_after(lost, fate);
            let entered = within(double_barrier(&client, 2).enter()).await.unwrap();
            let leaving = leave_in_task(outcome("both are there", waiting).await);
            lost.release();
            queue_of(&stage, 2).await;
            within(entered.leave()).await.unwrap();
            outcome("both leave", leaving).await;
            queue_of(&stage, 0).await;
        }
    }
}

// The names of members are random: each of both orders comes soon.
#[history]
async fn who_has_not_heard_is_let_in_beside_one_that_may_not_be_read(stage: Stage) {
    let hidden = stage.connect(1, |builder| private(builder, "hidden")).await;
    let [other] = near(&stage).await;
    let mut orders = [false; 2];
    for number in 1..100 {
        let proxy = stage.proxy_of(0, number).await;
        let slow = proxy.client(usual).await;
        let slow_enters = enter_in_task(&slow, 3);
        let slow_node = format!("{PATH}/{}", queue_of(&stage, 1).await[0]);
        proxy.set_traffic(Traffic::black_hole_to_client());
        let hidden_enters = enter_in_task(&hidden, 3);
        queue_of(&stage, 2).await;
        let last = outcome("all are there", enter_in_task(&other, 3)).await;
        let hidden_entered = outcome("all are there", hidden_enters).await;
        orders[usize::from(*hidden_entered.node_path() < *slow_node)] = true;
        let leaving = leave_in_task(last);
        queue_of(&stage, 3).await;
        stage.servers().delete(READY);
        proxy.cut();
        proxy.set_traffic(Traffic::pass());
        drop((outcome("it was let in", slow_enters).await, hidden_entered));
        outcome("all leave", leaving).await;
        queue_of(&stage, 0).await;
        slow.close().await;
        if orders == [true; 2] {
            return;
        }
    }
    panic!("one order only");
}

// --- Who counts ---

#[history]
async fn who_gives_up_does_not_count_beside_one_that_may_not_be_read(stage: Stage) {
    let (proxy, last, [open]) = far_and_near(&stage).await;
    let hidden = stage.connect(1, |builder| private(builder, "hidden")).await;
    let hidden_enters = enter_in_task(&hidden, 3);
    queue_of(&stage, 1).await;
    let open_enters = enter_in_task(&open, 3);
    queue_of(&stage, 2).await;
    // The check of the hidden one is refused, and the others are still to be checked.
    let checked = proxy.intercept(Request::Multi, Fate::HoldReply);
    let last_enters = enter_in_task(&last, 3);
    within(checked.happened()).await;
    open_enters.abort();
    queue_of(&stage, 2).await;
    checked.release();
    sleep(SOON).await;
    assert!(!hidden_enters.is_finished() && !last_enters.is_finished(), "two are let in as three");
    let _third = soon("all are there", double_barrier(&open, 3).enter()).await.unwrap();
    for entering in [hidden_enters, last_enters] {
        drop(outcome("all are there", entering).await);
    }
}

#[history]
async fn who_tries_again_at_once_is_not_two(stage: Stage) {
    let [client] = near(&stage).await;
    for polls in 1..4 {
        let barrier = DoubleBarrier::new(&client, &format!("{PATH}/{polls}"), 2).unwrap();
        // The path exists.
        assert_not_let_in(&barrier, "it is the first").await;
        let mut dropped = Box::pin(barrier.enter());
        for _ in 0..polls {
            assert!(poll_once(&mut dropped).is_pending());
            tokio::task::yield_now().await;
        }
        drop(dropped);
        assert_not_let_in(&barrier, &format!("after an attempt that was dropped after {polls} polls")).await;
    }
}

// A try that is too short for the server, and another one.
#[history]
async fn who_tries_again_at_a_slow_server_is_not_two(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let barrier = double_barrier(&client, 2);
    assert_not_let_in(&barrier, "it is the first").await;
    proxy.set_traffic(Traffic::pass().delay(BRIEF / 3));
    assert!(barrier.enter_within(BRIEF / 2).await.unwrap().is_none());
    assert!(barrier.enter_within(5 * BRIEF).await.unwrap().is_none(), "let in alone");
    proxy.set_traffic(Traffic::pass());
    sleep(SOON).await;
}

/// Loses what ends the sessions that clients have given up: it comes later than the requests of the next ones.
fn lose_ends_of_sessions(proxy: &Proxy) -> Vec<impl Sized> {
    (0..10).map(|_| proxy.intercept(CLOSE_SESSION, Fate::LoseRequest)).collect()
}

// A session that the client has given up, since the servers were down, may still be alive there.
#[history]
async fn a_member_that_comes_again_is_not_two(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let waiting = enter_in_task(&client, 2);
    let before = queue_of(&stage, 1).await.remove(0);
    stage.servers().stop(0);
    state_is(&client, ConnectionState::Lost).await;
    let late = lose_ends_of_sessions(&proxy);
    stage.servers().start(0);
    connected(&client).await;
    // It comes again, without its old node.
    let back = Instant::now();
    let mut children = children(&stage);
    while back.elapsed() < 2 * SESSION {
        assert!(!children.iter().any(|name| name == "ready"), "let in alone: {children:?}");
        sleep(ms(1)).await;
        children = self::children(&stage);
    }
    assert!(children.len() == 1 && children[0] != before, "{children:?}");
    assert!(!waiting.is_finished());
    drop(late);
    waiting.abort();
}

// The same for one that was in, and whose value is still kept.
#[history]
async fn a_member_that_is_lost_and_comes_again_is_not_two(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let entered = within(double_barrier(&client, 1).enter()).await.unwrap();
    stage.servers().stop(0);
    within(entered.lost()).await;
    let late = lose_ends_of_sessions(&proxy);
    stage.servers().start(0);
    connected(&client).await;
    assert_not_let_in(&double_barrier(&client, 2), "by the node of its earlier session").await;
    assert!(entered.loss().is_some());
    drop((late, entered));
    sleep(2 * SESSION).await;
}

#[history]
async fn members_that_are_gone_are_forgotten(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let barrier = double_barrier(&client, 2);
    for _ in 0..2 {
        assert_not_let_in(&barrier, "there is no one else").await;
        queue_of(&stage, 0).await;
        sleep(BRIEF).await;
        proxy.take_requests();
    }
    assert_not_let_in(&barrier, "there is no one else").await;
    assert_eq!(proxy.take_requests().first(), Some(&Request::Create), "nothing is deleted any more");
}

// The list of members is old by the time that it is used.
#[history]
async fn who_has_given_up_does_not_count_for_one_that_is_polled_late(stage: Stage) {
    let (proxy, late, [one]) = far_and_near(&stage).await;
    let given_up = enter_in_task(&one, 2);
    queue_of(&stage, 1).await;
    let barrier = double_barrier(&late, 2);
    let mut entering = Box::pin(barrier.enter());
    let replies = proxy.replies_seen();
    // Its requests are sent, and answered.
    assert!(poll_once(&mut entering).is_pending());
    queue_of(&stage, 2).await;
    assert!(proxy.replies_seen() >= replies + 3, "the replies are there");
    // The task is busy with something else. Meanwhile, the other one gives up: nobody has let it in.
    given_up.abort();
    queue_of(&stage, 1).await;
    let alone = timeout(2 * SESSION, &mut entering).await;
    assert!(alone.is_err(), "let in alone: {alone:?}");
    let other = enter_in_task(&one, 2);
    let _entered = soon("both are there", entering).await.unwrap();
    let _other = outcome("both are there", other).await;
}

// It cannot be known.
#[history]
async fn who_gives_up_without_a_connection_counts_until_its_session_ends(stage: Stage) {
    let (proxy, away, [other]) = far_and_near(&stage).await;
    let barrier_of_away = double_barrier(&away, 2);
    let entering =
        tokio::spawn(
            async move { barrier_of_away.enter_within(secs(1)).await.map(|entered| entered.is_some()) },
        );
    queue_of(&stage, 1).await;
    proxy.set_traffic(Traffic::black_hole());
    assert_eq!(within(entering).await.unwrap(), Ok(false), "it has given up");
    let counted = double_barrier(&other, 2).enter_within(BRIEF).await.unwrap();
    // The leave waits for the end of that session.
    let start = Instant::now();
    within(counted.expect("counted").leave()).await.unwrap();
    assert!(start.elapsed() > SESSION / 2, "{:?}", start.elapsed());
    assert_not_let_in(&double_barrier(&other, 2), "that session is over").await;
    proxy.set_traffic(Traffic::pass());
}

/// Something deletes its node, but not again and again: at any time, while there is no connection, or after it has written to it.
#[history((false, false), (true, false), (false, true))]
async fn a_member_that_waits_for_long_outlasts_some_deletions(stage: Stage, is_cut_off: bool, writes: bool) {
    let (proxy, client) = stage.far(usual).await;
    let operator = stage.client(1).await;
    let zookeeper = operator.zookeeper().await.unwrap();
    let entering = spawn_local(async move { double_barrier(&client, 2).enter().await });
    for deletion in 1..=6 {
        sleep(secs(100)).await;
        assert!(
            !entering.is_finished(),
            "after {} deletions: {:?}",
            deletion - 1,
            entering.await.unwrap().err()
        );
        let own = format!("{PATH}/{}", children(&stage).pop().unwrap());
        if is_cut_off {
            proxy.cut_off();
        }
        if writes {
            zookeeper.set_data(&own, b"x", None).await.unwrap();
            sleep(ms(100)).await;
        }
        assert!(stage.servers().delete(&own));
        proxy.refuse_connections(false);
    }
    entering.abort();
    let _ = entering.await;
    sleep(secs(1)).await;
}

// Who leaves as the last one deletes `ready` so late that the next round has replaced it.
#[history]
async fn a_late_delete_of_ready_keeps_no_one_out_who_was_let_in(stage: Stage) {
    let (leavers, slow) = (stage.proxy_of(0, 1).await, stage.proxy_of(0, 2).await);
    let (leaver, late) = (leavers.client(usual).await, slow.client(usual).await);
    let [dies, other] = near(&stage).await;
    let [last, _dead] = entered([&leaver, &dies]).await;
    stage.servers().end_session(session_id(&dies).await);
    queue_of(&stage, 2).await;
    // The list after which it deletes `ready`.
    let listed = leavers.intercept_after(6, Fate::HoldReply);
    let leaving = leave_in_task(last);
    within(listed.happened()).await;
    leavers.set_traffic(Traffic::black_hole_to_server());
    listed.release();
    let entering = enter_in_task(&late, 2);
    assert_eq!(queue_of(&stage, 2).await[1], "ready");
    slow.set_traffic(Traffic::black_hole_to_client());
    drop(outcome("both are there", enter_in_task(&other, 2)).await);
    queue_of(&stage, 2).await;
    leavers.set_traffic(Traffic::pass());
    outcome("it is the last one", leaving).await;
    slow.set_traffic(Traffic::pass());
    let _entered = outcome("it was let in with the other one", entering).await;
}
