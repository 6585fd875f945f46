//! One rule for all calls: for how long they try to reach the servers, and with which error they give up.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use zk_recipes::barriers::{Barrier, DoubleBarrier};
use zk_recipes::shared::SharedCount;

use super::prelude::*;

/// How long a server is silent until its client gives the connection up, at the latest: two fifths of the session
/// timeout, looked at from time to time.
const SILENCE: Duration = ms(2000);
const SESSION: Duration = secs(4);
/// Of a session that nobody hears of.
const VALIDITY: Duration = ms(4000 * 2 / 3);
const CONNECTION: Duration = ms(200);
/// For whoever never gives up, it is looked at as long as that.
const LONG: Duration = secs(300);

/// How often a policy has a call tried, and the shortest and longest time of all its pauses.
type Attempts = (u32, Duration, Duration);

/// Each policy, with what it comes to if it has an end.
fn policies() -> [(&'static str, RetryPolicy, Option<Attempts>); 4] {
    [
        ("one time", RetryPolicy::one_time(ms(50)), Some((2, ms(50), ms(50)))),
        ("n times", RetryPolicy::n_times(3, ms(100)), Some((4, ms(300), ms(300)))),
        (
            "bounded",
            RetryPolicy::bounded_exponential_backoff(ms(50), ms(100), 4),
            Some((5, ms(200), ms(400))),
        ),
        ("forever", RetryPolicy::forever(ms(50)), None),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    NeverConnected,
    /// A second ago, and the session may live on.
    Lost,
    /// And so is the session.
    LostForGood,
    /// The server does not answer, from now on.
    Frozen,
}

/// What bounds a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// The retry policy.
    Policy,
    /// And a deadline of its own.
    Within(Duration),
    /// And the validity of the lock.
    Validity,
    /// It is sent once.
    Once,
}

type Call = (&'static str, Bound, BoxFuture<'static, Result<()>>);

fn call<T: Debug>(name: &'static str, outcome: impl Future<Output = Result<T>> + Send + 'static) -> Call {
    (name, Bound::Policy, outcome.map(|done| done.map(drop)).boxed())
}

/// What is had before the outage.
struct Held {
    participant: Participant,
    released: LockGuard,
    dropped_transaction: LockGuard,
    ticket: zk_recipes::Ticket,
}

impl Held {
    async fn of(client: &Client, name: &str) -> Self {
        let mutex = |path: &str| mutex_at(client, &format!("/held/{name}/{path}"));
        let acquire = async |path: &str| mutex(path).acquire().await.unwrap();
        let (released, dropped_transaction) = (acquire("a").await, acquire("b").await);
        let participants = mutex("a").participants().await.unwrap();
        let participant = participants.into_iter().next().unwrap();
        let ticket = mutex("c").enqueue().await.unwrap();
        Self { participant, released, dropped_transaction, ticket }
    }
}

/// All calls that ask the servers, each at a path of its own.
fn calls(client: &Client, outage: Outage, held: Option<Held>) -> Vec<Call> {
    macro_rules! on {
        ($lock:expr, $($call:tt)*) => {{
            let lock = $lock;
            async move { lock.$($call)*.await }
        }};
    }
    let mutex = |path: &str| mutex_at(client, path);
    let read_write = |path: &str| ReadWriteLock::new(client, path).unwrap();
    let semaphore = |path: &str| Semaphore::new(client, path, 2).unwrap();
    let multi = |path: &str| MultiLock::new(client, [format!("{path}/1"), format!("{path}/2")]).unwrap();
    let mixed = |path: &str| MultiLock::of([Arc::new(mutex(path)) as _]).unwrap();
    let count = |path: &str| SharedCount::new(client, path, 1).unwrap();
    let observer = LeaderObserver::new(client, "/x/observer").unwrap();
    let short = ms(700);
    let mut calls = vec![
        call("acquire", on!(mutex("/x/acquire"), acquire())),
        call("try_acquire", on!(mutex("/x/try_acquire"), try_acquire())),
        (
            "try_acquire_for",
            Bound::Within(short),
            on!(mutex("/x/for"), try_acquire_for(short)).map(|done| done.map(drop)).boxed(),
        ),
        call("enqueue", on!(mutex("/x/enqueue"), enqueue())),
        call("read", on!(read_write("/x/read").read().clone(), acquire())),
        call("write", on!(read_write("/x/write").write().clone(), acquire())),
        call("acquire a permit", on!(semaphore("/x/permit"), acquire())),
        call("try a permit", on!(semaphore("/x/try"), try_acquire())),
        call("acquire a semaphore mutex", on!(SemaphoreMutex::new(client, "/x/mutex").unwrap(), acquire())),
        call("acquire paths", on!(multi("/x/multi"), acquire())),
        call("try paths", on!(multi("/x/tries"), try_acquire())),
        call("acquire locks", on!(mixed("/x/mixed"), acquire())),
        call("participants", on!(mutex("/x/participants"), participants())),
        call("is_locked", on!(mutex("/x/is_locked"), is_locked())),
        call("holder", on!(multi("/x/holder"), holder())),
        call("available_permits", on!(semaphore("/x/available"), available_permits())),
        call("those of a semaphore", on!(semaphore("/x/those"), participants())),
        call("get", on!(count("/x/get"), get())),
        call("set", on!(count("/x/set"), set(3))),
        call("path_exists", on!(multi("/x/exists"), path_exists())),
        call("leader", on!(observer, leader())),
    ];
    if outage != Outage::Frozen {
        // It asks nothing of a server.
        let own = client.clone();
        calls.push(call("zookeeper", async move { own.zookeeper().await }));
    }
    let own = client.clone();
    calls.push(call("revoke", async move { operate::ask(&own, "/x/revoke").await }));
    let own = client.clone();
    calls.push(call("force_release", async move { operate::force_release(&own, "/x/force").await }));
    if let Some(Held { participant, released, dropped_transaction, ticket }) = held {
        let (own, of) = (client.clone(), participant.clone());
        calls.push(call("revoke from", async move { operate::ask_participant(&own, &of).await }));
        let own = client.clone();
        calls.push(call("force from", async move {
            operate::force_release_participant(&own, &participant).await
        }));
        calls.push(call("position", async move { ticket.position().await }));
        calls.push(("release", Bound::Validity, released.release().boxed()));
        let commit = async move { dropped_transaction.transaction().delete("/nothing", None).commit().await };
        calls.push(("commit", Bound::Once, commit.map(|done| done.map(drop)).boxed()));
    }
    calls
}

/// How long a call takes at least and at most until it fails; `None` if it does not.
fn expected(outage: Outage, bound: Bound, policy: Option<Attempts>) -> Option<(Duration, Duration)> {
    // The first attempt may have to find out that nobody answers; all others know.
    let until_known = if outage == Outage::Frozen { SILENCE } else { Duration::ZERO };
    let tried = policy.map(|(attempts, shortest, longest)| {
        let others = if outage == Outage::Frozen { attempts - 1 } else { attempts };
        (CONNECTION * others + shortest, CONNECTION * attempts + longest + until_known)
    });
    match bound {
        Bound::Policy => tried,
        Bound::Within(deadline) => {
            let (least, most) = tried.unwrap_or((deadline, deadline));
            Some((least.min(deadline), most.min(deadline)))
        }
        Bound::Validity => {
            // It is counted from the last sign of the servers.
            let (least, most) = tried.unwrap_or((ms(200), VALIDITY));
            Some((least.min(ms(200)), most.min(VALIDITY)))
        }
        Bound::Once => {
            Some((if outage == Outage::Frozen { ms(200) } else { CONNECTION }, CONNECTION + until_known))
        }
    }
}

/// Whether that is the error with which a call gives up.
fn is_expected(outage: Outage, bound: Bound, is_endless: bool, error: &Error) -> bool {
    match (bound, outage) {
        (Bound::Once, _) => matches!(error, Error::OutcomeUnknown { .. }),
        (Bound::Validity, _) if is_endless => {
            matches!(error, Error::LockLost { reason: LossReason::Expired, .. })
        }
        // Whichever comes first.
        (Bound::Validity, _) => {
            error.is_retryable() || matches!(error, Error::LockLost { reason: LossReason::Expired, .. })
        }
        (_, Outage::Frozen) => error.is_retryable(),
        _ => matches!(error, Error::NotConnected { .. }),
    }
}

/// Sees how one call fares, and whether it goes on in the end when the servers are back.
async fn fares(
    outage: Outage,
    policy: (&str, Option<Attempts>),
    (name, bound, call): Call,
) -> Result<(), String> {
    let (policy, attempts) = policy;
    let start = Instant::now();
    let done = timeout(LONG, call).await;
    let elapsed = start.elapsed();
    let cell = format!("{name}, {outage:?}, {policy}: {done:?} after {elapsed:?}");
    match (done, expected(outage, bound, attempts)) {
        (Err(_), None) => Ok(()),
        (Ok(Err(error)), Some((least, most))) => {
            let is_in_time = elapsed >= least && elapsed <= most + A_MOMENT;
            if is_in_time && is_expected(outage, bound, attempts.is_none(), &error) {
                Ok(())
            } else {
                Err(format!("{cell}, not within {least:?} to {most:?}"))
            }
        }
        (_, expected) => Err(format!("{cell}, not {expected:?}")),
    }
}

#[history(Outage::NeverConnected, Outage::Lost, Outage::LostForGood, Outage::Frozen)]
async fn all_calls_try_for_as_long_as_the_policy_says(stage: Stage, outage: Outage) {
    let proxy = stage.proxy(0).await;
    let go = |are_gone: bool| {
        proxy.refuse_connections(are_gone);
        proxy.cut();
    };
    go(outage == Outage::NeverConnected);
    let mut scenes = Vec::new();
    for (name, policy, attempts) in policies() {
        let builder = stage.machines()[0].builder().session_timeout(SESSION).connection_timeout(CONNECTION);
        let client = keep(builder.retry_policy(policy).connect_lazily(&proxy.address).unwrap());
        if outage == Outage::NeverConnected {
            scenes.push((name, attempts, client, None));
            continue;
        }
        connected(&client).await;
        let held = Held::of(&client, name).await;
        scenes.push((name, attempts, client, Some(held)));
    }
    let reaches = async |wanted: ConnectionState| {
        for (.., client, _) in &scenes {
            within(client.watch_connection().wait_for(|state| *state == wanted)).await.unwrap();
        }
    };
    match outage {
        Outage::NeverConnected => {}
        Outage::Lost => {
            go(true);
            reaches(ConnectionState::Suspended).await;
            sleep(secs(1)).await;
        }
        Outage::LostForGood => {
            go(true);
            reaches(ConnectionState::Lost).await;
        }
        Outage::Frozen => stage.servers().set_paused(0, true),
    }
    let fared = scenes.iter_mut().flat_map(|(name, attempts, client, held)| {
        // What was held is lost for good, too, and known to be.
        let held = held.take().filter(|_| outage != Outage::LostForGood);
        calls(client, outage, held)
            .into_iter()
            .map(|call| fares(outage, (*name, *attempts), call))
            .collect::<Vec<_>>()
    });
    let failures: Vec<_> = join_all(fared).await.into_iter().filter_map(std::result::Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    stage.servers().set_paused(0, false);
    go(false);
    sleep(3 * SESSION).await;
}

/// A client that tries three times, with pauses between, which takes no longer than [`THRICE`].
async fn tries_thrice(proxy: &Proxy) -> Client {
    proxy.client(tries(SESSION, CONNECTION, RetryPolicy::n_times(2, ms(50)))).await
}

const THRICE: Duration = ms(3 * 200 + 2 * 50);

#[history]
async fn leaving_a_double_barrier_tries_for_as_long_as_the_policy_says(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let client = tries_thrice(&proxy).await;
    let entered = DoubleBarrier::new(&client, "/barrier", 1).unwrap().enter().await.unwrap();
    // It looks around.
    sleep(A_MOMENT).await;
    proxy.cut_off();
    disconnected(&client).await;
    let start = Instant::now();
    let error = entered.leave().await.unwrap_err();
    assert!(matches!(error, Error::NotConnected { .. }), "{error}");
    assert!(start.elapsed() >= THRICE && start.elapsed() < THRICE + A_MOMENT, "{:?}", start.elapsed());
    proxy.refuse_connections(false);
    connected(&client).await;
}

/// Two attempts find no connection, and the request of the third is lost.
async fn gives_up_after_the_third(
    proxy: &Proxy,
    client: &Client,
    request: Request,
    call: impl Future<Output = Result<()>> + Send + 'static,
) {
    proxy.cut_off();
    disconnected(client).await;
    let start = Instant::now();
    let call = tokio::spawn(call);
    sleep(2 * (SILENCE + ms(50)) + ms(50)).await;
    let lost = proxy.intercept(request, Fate::LoseRequest);
    proxy.refuse_connections(false);
    within(lost.happened()).await;
    proxy.refuse_connections(true);
    assert!(within(call).await.unwrap().unwrap_err().is_retryable());
    assert!(start.elapsed() < 3 * SILENCE + 2 * ms(50) + A_MOMENT, "{:?}", start.elapsed());
    proxy.refuse_connections(false);
    connected(client).await;
}

#[history]
async fn calls_at_barriers_make_as_many_attempts_as_the_policy_says(stage: Stage) {
    let (proxy, client, other) =
        stage.far_and_near(tries(10 * SESSION, SILENCE, RetryPolicy::n_times(2, ms(50)))).await;
    let barrier = Barrier::new(&client, "/closed").unwrap();
    barrier.set().await.unwrap();
    gives_up_after_the_third(&proxy, &client, Request::GetData, async move { barrier.wait().await }).await;

    let alone = DoubleBarrier::new(&client, "/alone", 1).unwrap();
    let enters = alone.clone();
    let enters = async move { enters.enter().await.map(drop) };
    gives_up_after_the_third(&proxy, &client, Request::Create, enters).await;

    let entered = within(alone.enter()).await.unwrap();
    // It looks around.
    sleep(A_MOMENT).await;
    gives_up_after_the_third(&proxy, &client, Request::Delete, entered.leave()).await;

    let entered = within(alone.enter()).await.unwrap();
    // It does not know its round.
    gives_up_after_the_third(&proxy, &client, Request::Exists, entered.leave()).await;

    let both = |client: &Client| DoubleBarrier::new(client, "/both", 2).unwrap();
    let (ours, others) = (both(&client), both(&other));
    let (entered, of_other) = tokio::join!(ours.enter(), others.enter());
    let of_other = of_other.unwrap();
    let leaving = tokio::spawn(entered.unwrap().leave());
    // It waits for the other one.
    sleep(A_MOMENT).await;
    let leaving = async move { leaving.await.unwrap() };
    gives_up_after_the_third(&proxy, &client, Request::GetChildren, leaving).await;
    of_other.leave().await.unwrap();
}

/// Two attempts find no connection, the look succeeds, and then the delete fails twice: that is all allowed.
#[history]
async fn a_leave_resets_at_a_success(stage: Stage) {
    let (proxy, client) = stage.far(tries(secs(40), ms(1000), RetryPolicy::n_times(2, ms(50)))).await;
    let alone = DoubleBarrier::new(&client, "/alone", 1).unwrap();
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        let entered = within(alone.enter()).await.unwrap();
        proxy.cut_off();
        disconnected(&client).await;
        let call = tokio::spawn(entered.leave());
        sleep(ms(2 * 1050 + 500)).await;
        let lost = proxy.intercept(Request::Delete, fate);
        proxy.refuse_connections(false);
        within(lost.happened()).await;
        if fate == Fate::LoseRequest {
            let lost = proxy.intercept(Request::Delete, fate);
            within(lost.happened()).await;
        }
        within(call).await.unwrap().unwrap();
        assert_eq!(stage.servers().children("/alone").unwrap_or_default(), Vec::<String>::new());
    }
}

/// It has not waited yet, so that the policy applies.
#[history]
async fn an_acquire_whose_first_count_is_lost_tries_for_as_long_as_the_policy_says(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let client = tries_thrice(&proxy).await;
    let other = stage.client(1).await;
    let semaphore = |client: &Client| Semaphore::new(client, "/locks/s", 1).unwrap();
    let held = semaphore(&other).acquire().await.unwrap();
    let lost = proxy.intercept(Request::GetData, Fate::LoseRequest);
    let waits = semaphore(&client);
    let waits = stage.machines()[0].spawn(async move { (waits.acquire().await, Instant::now()) });
    within(lost.happened()).await;
    proxy.cut_off();
    let start = Instant::now();
    let (given_up, at) = within(waits).await.unwrap().unwrap();
    assert!(given_up.unwrap_err().is_retryable());
    // The first attempt has failed already.
    assert!(at - start < THRICE + A_MOMENT, "{:?}", at - start);
    proxy.refuse_connections(false);
    connected(&client).await;
    held.release().await.unwrap();
}
