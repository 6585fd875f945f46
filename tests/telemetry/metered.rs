//! The metrics, as an exporter shows them. It is one for the whole process, so each test has paths of its own.

use std::sync::LazyLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::support::alone::is_alone;
use crate::support::prelude::*;

static EXPORTER: LazyLock<PrometheusHandle> =
    LazyLock::new(|| PrometheusBuilder::new().install_recorder().unwrap());

/// Returns the value of the series of that name with all these labels; zero if there is none.
pub(crate) fn value(name: &str, labels: &[(&str, &str)]) -> f64 {
    let text = EXPORTER.render();
    let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let series = text.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    });
    series.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

fn waits(path: &str, outcome: &str) -> f64 {
    value("zk_recipes_wait_seconds_count", &[("lock", path), ("outcome", outcome)])
}

fn holds(path: &str, outcome: &str) -> f64 {
    value("zk_recipes_hold_seconds_count", &[("lock", path), ("outcome", outcome)])
}

fn of(name: &str, path: &str) -> f64 {
    value(&format!("zk_recipes_{name}"), &[("lock", path)])
}

pub(crate) async fn measured(server: &Server) -> Client {
    measured_at(&server.connect_string()).await
}

pub(crate) async fn measured_at(servers: &str) -> Client {
    LazyLock::force(&EXPORTER);
    connected(Client::builder(), servers).await
}

#[tokio::test]
async fn waits_and_holds_of_a_mutex() {
    let server = empty_server().await;
    let (one, two) = (measured(&server).await, measured(&server).await);
    let path = "/metrics/mutex";
    let (mine, other) =
        (InterProcessMutex::new(&one, path).unwrap(), InterProcessMutex::new(&two, path).unwrap());
    let guard = mine.acquire().await.unwrap();
    let again = mine.acquire().await.unwrap();
    assert_eq!((of("holders", path), of("waiters", path)), (1.0, 0.0), "to re-enter is no other hold");
    drop(again);

    assert!(other.try_acquire().await.unwrap().is_none());
    assert!(answered(async || other.try_acquire_for(ms(20)).await).await.is_none());
    assert_eq!(waits(path, "unavailable"), 2.0);

    let cancelled = acquire_in_task(&other);
    until("a waiter", || of("waiters", path) == 1.0).await;
    cancelled.abort();
    until("no waiter", || of("waiters", path) == 0.0).await;
    assert_eq!(waits(path, "cancelled"), 1.0);

    let waiting = acquire_in_task(&other);
    queue_of(&bystander(&server).await, path, 2).await;
    tokio::time::sleep(ms(30)).await; // so that it is a wait of that length
    guard.release().await.unwrap();
    let guard = within(waiting).await.unwrap().unwrap();
    assert_eq!((waits(path, "granted"), holds(path, "released")), (2.0, 1.0));
    assert_eq!(of("hand_overs_total", path), 1.0, "the first was not behind anyone");
    assert!(of("wait_seconds_sum", path) >= 0.05);
    assert!(of("hold_seconds_sum", path) >= 0.03);

    // A short wait has failed above for each time that the queue was not reached within it.
    let failed = waits(path, "failed");
    let closing = measured(&server).await;
    let waiting = acquire_in_task(&InterProcessMutex::new(&closing, path).unwrap());
    until("a waiter", || of("waiters", path) == 1.0).await;
    closing.close().await;
    within(waiting).await.unwrap().unwrap_err();
    assert_eq!(waits(path, "failed"), failed + 1.0);

    server.kill_session(session_id(&two).await).await.unwrap();
    guard.lost().await;
    assert_eq!(value("zk_recipes_losses_total", &[("lock", path), ("reason", "expired")]), 1.0);
    assert_eq!((holds(path, "released"), holds(path, "lost")), (1.0, 1.0));
    drop(guard);
    assert_eq!((of("holders", path), of("waiters", path)), (0.0, 0.0));
    assert_eq!(holds(path, "released"), 1.0);
    assert_eq!(value("zk_recipes_holders", &[("lock", path), ("recipe", "mutex")]), 0.0);
}

#[tokio::test]
async fn locks_by_key_share_a_label() {
    LazyLock::force(&EXPORTER);
    let server = empty_server().await;
    let label = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
    let client = Client::builder().metric_label(label).connect(&server.connect_string()).await.unwrap();
    for key in 0..10 {
        let mutex = InterProcessMutex::new(&client, &format!("/metrics/keys/{key}")).unwrap();
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!((waits("/metrics/keys", "granted"), holds("/metrics/keys", "released")), (10.0, 10.0));
    assert_eq!(waits("/metrics/keys/3", "granted"), 0.0);
}

#[tokio::test]
async fn each_hold_by_a_node_that_stays_is_counted() {
    let server = empty_server().await;
    let client = measured(&server).await;
    let path = "/metrics/lingers";
    let options = LockOptions::new().linger(secs(30));
    let mutex = InterProcessMutex::new(&client, path).unwrap().with_options(options).unwrap();
    for _ in 0..5 {
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(of("holders", path), 1.0);
        guard.release().await.unwrap();
        assert_eq!(of("holders", path), 0.0);
    }
    assert_eq!((waits(path, "granted"), holds(path, "released")), (5.0, 5.0));
    client.close().await;
    assert_eq!(holds(path, "released") + holds(path, "lost"), 5.0, "that no one held is no hold");
}

#[tokio::test]
async fn members_and_permits_are_counted() {
    let server = empty_server().await;
    let client = measured(&server).await;
    let both = MultiLock::new(&client, ["/metrics/a", "/metrics/b"]).unwrap();
    let guard = both.acquire().await.unwrap();
    assert_eq!((of("holders", "/metrics/a"), of("holders", "/metrics/b")), (1.0, 1.0));
    guard.release().await.unwrap();
    assert_eq!((holds("/metrics/a", "released"), holds("/metrics/b", "released")), (1.0, 1.0));
    assert_eq!((waits("/metrics/a", "granted"), waits("/metrics/b", "granted")), (1.0, 1.0));

    let semaphore = Semaphore::new(&client, "/metrics/permits", 3).unwrap();
    let permits = semaphore.many(2).unwrap().acquire().await.unwrap();
    assert_eq!(value("zk_recipes_holders", &[("lock", "/metrics/permits"), ("recipe", "semaphore")]), 2.0);
    permits.release().await.unwrap();
    assert_eq!((of("holders", "/metrics/permits"), waits("/metrics/permits", "granted")), (0.0, 1.0));

    let other = empty_server().await;
    let third = empty_server().await;
    let clients = [client, measured(&other).await, measured(&third).await];
    let ensembles = Ensembles::new(["a", "b", "c"].into_iter().zip(clients)).unwrap();
    let quorum = QuorumLock::new(&ensembles, "/metrics/quorum").unwrap();
    let guard = quorum.acquire().await.unwrap();
    assert!(of("holders", "/metrics/quorum") >= 2.0);
    assert_eq!(waits("/metrics/quorum", "granted"), 1.0, "one wait for all members");
    guard.release().await.unwrap();
    until("no hold", || of("holders", "/metrics/quorum") == 0.0).await;
}

#[tokio::test]
async fn leaders_and_their_changes_are_counted() {
    let server = empty_server().await;
    let (one, two) = (measured(&server).await, measured(&server).await);
    let path = "/metrics/latch";
    let latch = |client| LeaderLatch::start(client, path, LeaderOptions::new()).unwrap();
    let mine = latch(&one);
    let term = within(mine.await_leadership()).await.unwrap();
    let labels = [("lock", path), ("recipe", "leader latch")];
    assert_eq!(value("zk_recipes_leaders", &labels), 1.0);
    assert_eq!(value("zk_recipes_elections_total", &labels), 1.0);

    let other = latch(&two);
    queue_of(&bystander(&server).await, path, 2).await;
    assert_eq!((of("leaders", path), of("elections_total", path)), (1.0, 1.0), "it only waits");
    term.resign().await.unwrap();
    within(other.await_leadership()).await.unwrap();
    assert_eq!((of("leaders", path), of("elections_total", path)), (1.0, 2.0));
    assert_eq!((waits(path, "granted"), of("hand_overs_total", path)), (2.0, 1.0));
    assert_eq!((holds(path, "released"), holds(path, "lost")), (1.0, 0.0), "to resign is no loss");

    // Only one of them leads, and the other one waits again.
    until("a waiter", || of("waiters", path) == 1.0).await;
    mine.close(CloseMode::Silent).await.unwrap();
    assert_eq!((of("waiters", path), waits(path, "cancelled")), (0.0, 1.0));
    other.close(CloseMode::Silent).await.unwrap();
    assert_eq!((of("leaders", path), of("holders", path)), (0.0, 0.0));

    let lost = LeaderLatch::start(&one, "/metrics/latch/lost", LeaderOptions::new()).unwrap();
    let term = within(lost.await_leadership()).await.unwrap();
    bystander(&server).await.delete(term.node_path(), None).await.unwrap();
    term.lost().await;
    until("another term", || of("elections_total", "/metrics/latch/lost") == 2.0).await;
    assert_eq!(of("leaders", "/metrics/latch/lost"), 1.0);
    assert_eq!(
        value("zk_recipes_losses_total", &[("lock", "/metrics/latch/lost"), ("reason", "deleted")]),
        1.0
    );
}

/// An alert on the absence of a leader, or on the first loss, needs the zero before.
#[tokio::test]
async fn what_has_not_happened_is_shown_as_zero() {
    LazyLock::force(&EXPORTER);
    let client = Client::connect_lazily("127.0.0.1:9").unwrap();
    let _latch = LeaderLatch::start(&client, "/metrics/zero", LeaderOptions::new()).unwrap();
    let _mutex = InterProcessMutex::new(&client, "/metrics/zero/mutex").unwrap();
    let text = EXPORTER.render();
    for zero in [
        r#"zk_recipes_leaders{lock="/metrics/zero",recipe="leader latch"} 0"#,
        r#"zk_recipes_elections_total{lock="/metrics/zero",recipe="leader latch"} 0"#,
        r#"zk_recipes_losses_total{lock="/metrics/zero/mutex",recipe="mutex",reason="expired"} 0"#,
        r#"zk_recipes_holders{lock="/metrics/zero/mutex",recipe="mutex"} 0"#,
    ] {
        assert!(text.lines().any(|line| line == zero), "{zero}: {text}");
    }
}

#[tokio::test]
async fn a_ticket_waits_from_its_entry_on() {
    let server = empty_server().await;
    let (one, two) = (measured(&server).await, measured(&server).await);
    let path = "/metrics/ticket";
    let mine = InterProcessMutex::new(&one, path).unwrap();
    let other = InterProcessMutex::new(&two, path).unwrap();
    let guard = mine.enqueue().await.unwrap().acquired().await.unwrap();
    assert_eq!((waits(path, "granted"), of("hand_overs_total", path)), (1.0, 0.0));
    let again = mine.enqueue().await.unwrap().acquired().await.unwrap();
    assert_eq!((waits(path, "granted"), of("waiters", path)), (1.0, 0.0), "to re-enter is no wait");
    drop(again);

    let ticket = other.enqueue().await.unwrap();
    assert_eq!(of("waiters", path), 1.0);
    drop(ticket);
    assert_eq!((of("waiters", path), waits(path, "cancelled")), (0.0, 1.0));
    let ticket = other.enqueue().await.unwrap();
    guard.release().await.unwrap();
    drop(ticket.acquired().await.unwrap());
    assert_eq!((waits(path, "granted"), of("hand_overs_total", path)), (2.0, 1.0));
    assert_eq!((of("waiters", path), of("holders", path)), (0.0, 0.0));
}

#[tokio::test]
async fn whatever_the_reason_a_loss_is_counted_once() {
    let server = empty_server().await;
    let client = measured(&server).await;
    let path = "/metrics/losses";
    let brief = LockOptions::new().max_hold(ms(20));
    let mutex = InterProcessMutex::new(&client, path).unwrap();
    let losses = |reason| value("zk_recipes_losses_total", &[("lock", path), ("reason", reason)]);

    let guard = mutex.with_options(brief).unwrap().acquire().await.unwrap();
    assert_eq!(guard.lost().await, LossReason::Deadline);
    assert_eq!(losses("deadline"), 1.0);
    drop(guard);

    let guard = mutex.acquire().await.unwrap();
    bystander(&server).await.delete(guard.node_path(), None).await.unwrap();
    assert_eq!(guard.lost().await, LossReason::Deleted);
    guard.release().await.unwrap_err();
    assert_eq!((losses("deadline"), losses("deleted")), (1.0, 1.0));

    let guard = mutex.acquire().await.unwrap();
    client.close().await;
    assert!(!guard.is_valid());
    assert_eq!(losses("closed"), 1.0);
    drop(guard);
    assert_eq!((holds(path, "lost"), of("holders", path)), (3.0, 0.0));
}

/// In a process of its own, since the sessions of all tests are measured together.
#[tokio::test]
async fn the_validity_that_no_lock_needs_is_not_measured() {
    if !is_alone("metered::the_validity_that_no_lock_needs_is_not_measured") {
        return;
    }
    LazyLock::force(&EXPORTER);
    let server = empty_server().await;
    let builder = Client::builder().session_timeout(secs(6));
    let client = connected(builder, &server.connect_string()).await;
    tokio::time::sleep(secs(5)).await; // longer than it is valid without a lock
    let mutex = InterProcessMutex::new(&client, "/metrics/validity").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    assert!(value("zk_recipes_validity_left_seconds_count", &[]) >= 1.0);
    let least = value("zk_recipes_validity_left_seconds", &[("quantile", "0")]);
    assert!(least > 0.0, "a session that no one depends on is not confirmed in time");
}

#[tokio::test]
async fn requests_and_clients_are_counted() {
    let server = empty_server().await;
    let client = measured(&server).await;
    let mutex = InterProcessMutex::new(&client, "/metrics/requests").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let requests = |kind| value("zk_recipes_requests_total", &[("kind", kind)]);
    // Other tests make requests as well.
    let (creates, deletes) = (requests("create") + requests("multi"), requests("delete") + requests("multi"));
    mutex.acquire().await.unwrap().release().await.unwrap();
    assert!(requests("create") + requests("multi") > creates);
    assert!(requests("delete") + requests("multi") > deletes);
    assert!(value("zk_recipes_validity_left_seconds_count", &[]) > 0.0);
    assert!(value("zk_recipes_clients", &[("state", "connected")]) >= 1.0);
}
