//! Barriers with bad luck: what is lost, late, hidden, or of another size. Each member counts once, and only while
//! it is there.

mod entering;
mod giving_up;

use zk_recipes::barriers::{Barrier, DoubleBarrier, Entered};
use zk_recipes::nodes::Group;

use super::prelude::*;

const PATH: &str = "/barriers/d";
const READY: &str = "/barriers/d/ready";
const BRIEF: Duration = ms(300);
/// What must happen at once, happens within this time, in which a connection may have to be made.
const SOON: Duration = ms(500);
/// By which a session is ended.
const CLOSE_SESSION: Request = Request::Other(-11);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
}

async fn near<const N: usize>(stage: &Stage) -> [Client; N] {
    let connecting = (0..N).map(|number| stage.connect(number % stage.machines().len(), usual));
    join_all(connecting).await.try_into().unwrap()
}

async fn far_and_near<const N: usize>(stage: &Stage) -> (Proxy, Client, [Client; N]) {
    let (proxy, far) = stage.far(usual).await;
    (proxy, far, near(stage).await)
}

fn double_barrier(client: &Client, members: usize) -> DoubleBarrier {
    DoubleBarrier::new(client, PATH, members).unwrap()
}

fn enter_in_task(client: &Client, members: usize) -> JoinHandle<Result<Entered>> {
    let barrier = double_barrier(client, members);
    tokio::spawn(async move { barrier.enter().await })
}

fn leave_in_task(entered: Entered) -> JoinHandle<Result<()>> {
    tokio::spawn(entered.leave())
}

async fn outcome<T>(what: &str, task: JoinHandle<Result<T>>) -> T {
    soon(what, task).await.unwrap().unwrap()
}

/// Has all enter.
async fn entered<const N: usize>(clients: [&Client; N]) -> [Entered; N] {
    let entering = clients.map(|client| enter_in_task(client, N));
    let all = join_all(entering.map(async |entering| outcome("all are there", entering).await)).await;
    all.try_into().unwrap()
}

fn children(stage: &Stage) -> Vec<String> {
    stage.servers().children(PATH).unwrap_or_default()
}

/// After what is under way.
async fn queue_of(stage: &Stage, length: usize) -> Vec<String> {
    sleep(A_MOMENT).await;
    let children = children(stage);
    assert_eq!(children.len(), length, "{children:?}");
    children
}

fn make_path(stage: &Stage) {
    for path in ["/barriers", PATH] {
        assert!(stage.servers().create(path, b"", true));
    }
}

/// Nobody is let in alone.
async fn assert_not_let_in(barrier: &DoubleBarrier, why: &str) {
    let alone = barrier.enter_within(BRIEF).await.unwrap();
    assert!(alone.is_none(), "let in alone: {why}");
}

// --- Whose round is over ---

/// A member loses the connection from right after it was let in until it has left, or once then and once as it leaves. The
/// next round begins meanwhile.
#[history(false, true)]
async fn who_leaves_badly_connected_does_not_wait_for_the_next_round(stage: Stage, loses_it_twice: bool) {
    let (proxy, slow, [other, third, fourth]) = far_and_near(&stage).await;
    let slow_enters = enter_in_task(&slow, 2);
    queue_of(&stage, 1).await;
    let fate = if loses_it_twice { Fate::LoseRequest } else { Fate::HoldReply };
    let mut lost = proxy.intercept(Request::Exists, fate);
    let last = outcome("both are there", enter_in_task(&other, 2)).await;
    let first = outcome("both are there", slow_enters).await;
    within(lost.happened()).await;
    if loses_it_twice {
        connected(&slow).await;
        // It works for a while.
        sleep(2 * BRIEF).await;
        lost = proxy.intercept(Request::Exists, Fate::HoldReply);
    }
    let leaving = leave_in_task(first);
    within(lost.happened()).await;
    // The connection is given up as silent.
    sleep(SESSION / 2).await;
    queue_of(&stage, 2).await;
    within(last.leave()).await.unwrap();
    queue_of(&stage, 0).await;
    let _next = entered([&third, &fourth]).await;
    proxy.cut();
    outcome("its own round is over", leaving).await;
}

/// A leave first looks up the round. It gives that up when the session ends.
#[history]
async fn who_does_not_know_its_round_leaves_until_its_session_is_over(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let slow = proxy.client(|builder| usual(builder).retry_policy(RetryPolicy::forever(BRIEF)));
    let (slow, [other]) = (slow.await, near(&stage).await);
    let slow_enters = enter_in_task(&slow, 2);
    queue_of(&stage, 1).await;
    let lost = proxy.intercept(Request::Exists, Fate::LoseRequest);
    let last = outcome("both are there", enter_in_task(&other, 2)).await;
    let first = outcome("both are there", slow_enters).await;
    within(lost.happened()).await;
    proxy.cut_off();
    let error = timeout(2 * SESSION, first.leave()).await.expect("it ends").unwrap_err();
    assert!(matches!(error, Error::MemberLost { .. }), "{error}");
    proxy.refuse_connections(false);
    connected(&slow).await;
    within(last.leave()).await.unwrap();
}

/// Both enter and leave ten times; one of both is far away.
#[history(false, true)]
async fn members_that_are_far_have_one_round_after_the_other(stage: Stage, are_hidden: bool) {
    let proxy = stage.proxy(0).await;
    let with = |builder, who| if are_hidden { private(builder, who) } else { usual(builder) };
    let clients = [
        proxy.client(|builder| with(builder, "far")).await,
        stage.connect(1, |builder| with(builder, "near")).await,
    ];
    proxy.set_traffic(Traffic::pass().delay(ms(20)));
    let rounds = clients.each_ref().map(async |client| {
        for round in 0..10 {
            let entered = soon(&format!("enter {round}"), double_barrier(client, 2).enter()).await.unwrap();
            soon(&format!("leave {round}"), entered.leave()).await.unwrap();
        }
    });
    join_all(rounds).await;
    proxy.set_traffic(Traffic::pass());
}

#[history]
async fn who_leaves_does_not_wait_for_one_of_the_next_round_that_may_not_be_read(stage: Stage) {
    let (proxy, slow) = stage.far(|builder| private(builder, "slow")).await;
    let other = stage.connect(1, |builder| private(builder, "other")).await;
    let [first, last] = entered([&slow, &other]).await;
    let held = proxy.intercept(Request::Delete, Fate::HoldReply);
    let leaving = leave_in_task(first);
    within(held.happened()).await;
    within(last.leave()).await.unwrap();
    let next = enter_in_task(&other, 2);
    queue_of(&stage, 1).await;
    held.release();
    outcome("its own round is over", leaving).await;
    next.abort();
}

// It is let in with fewer than it was told.
#[history]
async fn leaving_costs_no_request_for_each_member_of_the_next_round(stage: Stage) {
    const MANY: usize = 300;
    const ROUND_TRIP: Duration = ms(100);
    let (proxy, one, [other, many]) = far_and_near(&stage).await;
    let [first, last] = entered([&one, &other]).await;
    let held = proxy.intercept(Request::Delete, Fate::HoldReply);
    let leaving = leave_in_task(first);
    within(held.happened()).await;
    within(last.leave()).await.unwrap();
    let next: Vec<_> = (0..MANY).map(|_| enter_in_task(&many, 2 * MANY)).collect();
    queue_of(&stage, MANY).await;
    proxy.set_traffic(Traffic::pass().delay(ROUND_TRIP / 2));
    proxy.take_requests();
    let begun = Instant::now();
    held.release();
    within(leaving).await.unwrap().unwrap();
    let took = begun.elapsed();
    sleep(10 * ROUND_TRIP).await;
    let requests = proxy.take_requests().len();
    assert!(
        requests < MANY / 10 && took < 5 * ROUND_TRIP,
        "{requests} requests in {took:?}, at {ROUND_TRIP:?} a round trip"
    );
    next.iter().for_each(JoinHandle::abort);
    proxy.set_traffic(Traffic::pass());
    sleep(SOON).await;
}

// Whoever enters while a member is in joins that round, also one of Curator, which does not write `ready`.
#[history]
async fn who_leaves_waits_for_one_of_curators_that_has_come_late(stage: Stage) {
    let [one, other, third] = near(&stage).await;
    let [first, last] = entered([&one, &other]).await;
    assert!(stage.servers().node(READY).is_some(), "so it is in");
    let node = format!("{PATH}/2a7b3a7c-6d5e-4a43-8a53-0b8d4a2f8f11");
    let curators = third.zookeeper().await.unwrap();
    let ephemeral = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
    curators.create(&node, b"", &ephemeral).await.unwrap();
    drop(last);
    queue_of(&stage, 3).await;
    let leaving = leave_in_task(first);
    queue_of(&stage, 2).await;
    sleep(2 * SESSION).await;
    assert!(!leaving.is_finished(), "the one of Curator's is still in");
    curators.delete(&node, None).await.unwrap();
    outcome("all have left", leaving).await;
}

// One comes as another one joins, and takes `ready` for stale, since the member that let both in is gone by then.
#[history]
async fn who_leaves_waits_for_one_that_has_joined_before_ready_was_replaced(stage: Stage) {
    let proxies = join_all((1..=3).map(|number| stage.proxy_of(0, number))).await;
    let clients = join_all(proxies.iter().map(|proxy| proxy.client(usual))).await;
    let [other] = near(&stage).await;
    let [first, last] = entered([&clients[0], &other]).await;
    sleep(A_MOMENT).await;
    let leaving = leave_in_task(first);
    queue_of(&stage, 2).await;
    // It hears late of what happens.
    proxies[0].set_traffic(Traffic::black_hole_to_client());
    // This one has looked at the others, and is about to join.
    let held = proxies[1].intercept_after(3, Fate::HoldReply);
    let joining = enter_in_task(&clients[1], 2);
    within(held.happened()).await;
    queue_of(&stage, 3).await;
    // This one has seen the old `ready`.
    let seen = proxies[2].intercept_after(2, Fate::HoldReply);
    let replacing = enter_in_task(&clients[2], 2);
    within(seen.happened()).await;
    queue_of(&stage, 4).await;
    held.release();
    let joined = outcome("it joins", joining).await;
    drop(last);
    queue_of(&stage, 3).await;
    seen.release();
    let _replaced = outcome("it replaces", replacing).await;
    proxies[0].set_traffic(Traffic::pass());
    sleep(4 * BRIEF).await;
    assert!(!leaving.is_finished(), "one that has joined is still in");
    within(joined.leave_within(BRIEF)).await.unwrap();
    leaving.abort();
}
