//! Elections: latches, selectors, leaderships and observers.

mod work;

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};

use super::*;

fn latch(client: &Client, id: &str) -> LeaderLatch {
    LeaderLatch::start(client, PATH, LeaderOptions::new().id(id)).unwrap()
}

fn ids(participants: &[Participant]) -> Vec<String> {
    participants.iter().map(|it| it.id().into_owned()).collect()
}

/// Waits until a state comes.
async fn state(state: &mut Watch<LeaderState>, is_it: impl Fn(&LeaderState) -> bool) -> LeaderState {
    within(state.wait_for(|state| is_it(state))).await.expect("it has not ended")
}

/// Waits until that many stand.
async fn standing(latch: &LeaderLatch, count: usize) -> Vec<Participant> {
    eventually("they stand", || async {
        let participants = latch.participants().await.unwrap();
        (participants.len() == count).then_some(participants)
    })
    .await
}

#[tokio::test]
async fn an_observer_sees_who_leads() {
    let (_server, [one, two]) = server_and_clients().await;
    let observer = LeaderObserver::new(&two, PATH).unwrap();
    let mut seen = observer.watch_leader();
    within(seen.wait_for(|seen| *seen == Observation::Nobody)).await.unwrap();
    assert_eq!((observer.leader().await, observer.path_exists().await), (Ok(None), Ok(false)));
    let missing = Error::NoSuchPath { path: PATH.into() };
    assert_eq!(operate::ask(&one, PATH).await, Err(missing.clone()));
    assert_eq!(operate::force_release(&one, PATH).await, Err(missing));
    let a = latch(&one, "a");
    let is = |id: &'static str| move |seen: &Observation| matches!(seen, Observation::Leader(leader) if ids(std::slice::from_ref(leader)) == [id]);
    within(seen.wait_for(is("a"))).await.unwrap();
    let b = latch(&two, "b");
    standing(&a, 2).await;
    assert_eq!(ids(&[b.transfer().await.unwrap().unwrap()]), ["a"]);
    within(seen.wait_for(is("b"))).await.unwrap();
    // An operator evicts it, and then asks the next one.
    operate::force_release(&one, PATH).await.unwrap();
    within(seen.wait_for(is("a"))).await.unwrap();
    standing(&a, 2).await;
    operate::ask(&two, PATH).await.unwrap();
    within(seen.wait_for(is("b"))).await.unwrap();
    drop((a, b));
    within(seen.wait_for(|seen| *seen == Observation::Nobody)).await.unwrap();
    assert_eq!((observer.leader().await, observer.path_exists().await), (Ok(None), Ok(true)));
}

/// But for a latch: a latch of Curator behind it would not hear of its end.
#[tokio::test]
async fn a_leader_that_was_asked_still_shows_who_it_is() {
    let (_server, [client, other], zookeeper) = server_clients_and_bystander().await;
    let observer = LeaderObserver::new(&other, PATH).unwrap();
    let mut seen = observer.watch_leader();
    let (let_go, may_go) = watch::channel(false);
    let options = || LeaderOptions::new().id("a").grace(BOUND);
    let work = move |_| {
        let mut may_go = may_go.clone();
        async move { may_go.wait_for(|may_go| *may_go).await.map(|_| ()) }
    };
    let selector = LeaderSelector::start(&client, PATH, options(), work).unwrap();
    let LeaderState::Leading(leadership) = state(&mut selector.watch_state(), LeaderState::is_leading).await
    else {
        panic!("it leads");
    };
    operate::ask(&other, PATH).await.unwrap();
    within(leadership.resign_requested()).await;
    eventually("it is seen again", || async {
        let (data, stat) = zookeeper.get_data(leadership.node_path()).await.unwrap();
        (data == b"a" && stat.version == 2).then_some(())
    })
    .await;
    let leader = observer.leader().await.unwrap().unwrap();
    assert_eq!((&*leader.id(), leader.is_revoke_requested()), ("a", true));
    let is_a = |seen: &Observation| matches!(seen, Observation::Leader(leader) if leader.id() == "a");
    within(seen.wait_for(is_a)).await.unwrap();
    let_go.send_replace(true);
    selector.close().await.unwrap();

    let latch = LeaderLatch::start(&client, "/leaders/latch", options()).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    let (go, gone) = oneshot::channel::<()>();
    let worker = leadership.clone();
    let work = tokio::spawn(async move { worker.run(gone).await });
    tokio::task::yield_now().await;
    zookeeper.set_data(leadership.node_path(), b"__REVOKE__", None).await.unwrap();
    within(leadership.resign_requested()).await;
    // What it might have written by now would come before this.
    client.zookeeper().await.unwrap().sync("/").await.unwrap();
    let (data, stat) = zookeeper.get_data(leadership.node_path()).await.unwrap();
    assert_eq!((&*data, stat.version), (&b"__REVOKE__"[..], 1));
    drop(go);
    let _ = within(work).await.unwrap();
    within(latch.close(CloseMode::Silent)).await.unwrap();
}

#[tokio::test]
async fn those_who_watch_are_told_of_the_end_or_not() {
    let (_server, [client]) = server_and_clients().await;
    for mode in [CloseMode::Silent, CloseMode::NotifyLeader] {
        let (latch, leadership) = leading(&client, LeaderOptions::new().id("a")).await;
        let mut watching = latch.watch_state();
        state(&mut watching, |state| state.is_leading()).await;
        let worker = leadership.clone();
        let (done, working) = tokio::sync::oneshot::channel::<()>();
        let work = tokio::spawn(async move { worker.run(working).await });
        tokio::task::yield_now().await;
        let closing = tokio::spawn({
            let latch = latch.clone();
            async move { latch.close(mode).await }
        });
        within(leadership.resign_requested()).await;
        // It leads no more, for those who look; and still does, for the others.
        until("it is resigning", || !latch.has_leadership()).await;
        assert!(leadership.is_valid());
        assert_eq!(latch.leader().await.unwrap().unwrap().fencing_token(), leadership.fencing_token());
        if mode == CloseMode::Silent {
            assert!(watching.changed().now_or_never().is_none());
        } else {
            state(&mut watching, |state| matches!(state, LeaderState::Resigning(_))).await;
        }
        done.send(()).unwrap();
        within(work).await.unwrap().unwrap().unwrap();
        within(closing).await.unwrap().unwrap();
        assert_eq!(latch.leader().await.unwrap(), None);
        while within(watching.changed()).await.is_some() {
            assert_eq!(mode, CloseMode::NotifyLeader);
        }
        assert!(matches!(watching.get(), LeaderState::Closed));
        assert_eq!(latch.close(mode).await, Ok(()));
    }
}

/// A selector whose work sends each leadership, and ends as it is told.
fn told_selector(
    client: &Client,
    start: fn(&Client, &str, LeaderOptions, Work) -> zk_recipes::Result<LeaderSelector>,
) -> (LeaderSelector, mpsc::UnboundedReceiver<(Leadership, End)>) {
    let (tell, told) = mpsc::unbounded_channel();
    let work: Work = Box::new(move |leadership| {
        let (end, ended): (End, _) = oneshot::channel();
        tell.send((leadership, end)).unwrap();
        Box::pin(async { ended.await.expect("it is told")() })
    });
    (start(client, PATH, LeaderOptions::new(), work).unwrap(), told)
}

type Outcome = Result<(), std::io::Error>;
type End = oneshot::Sender<fn() -> Outcome>;
type Work = Box<dyn FnMut(Leadership) -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send>;

/// Also if that is because its client is closed, and for work that blocks.
#[tokio::test]
async fn a_selector_that_has_left_does_not_keep_its_work() {
    let server = MemoryServer::start().unwrap();
    for (stands_again, closes_client) in [(true, false), (false, false), (true, true)] {
        let client = builder().connect(&server.connect_string()).await.unwrap();
        let is_dropped = Arc::new(AtomicBool::new(false));
        let (dropped, own) = (Dropped(is_dropped.clone()), Arc::new(OnceLock::<LeaderSelector>::new()));
        let (captured, (tell, mut told)) = (own.clone(), mpsc::unbounded_channel());
        let work = move |leadership: Leadership| {
            let _ = (&dropped, &captured);
            tell.send(()).unwrap();
            until_asked(leadership)
        };
        let selector = match stands_again {
            true => LeaderSelector::start(&client, PATH, LeaderOptions::new(), work),
            false => LeaderSelector::start_once(&client, PATH, LeaderOptions::new(), work),
        };
        let selector = selector.unwrap();
        own.set(selector.clone()).unwrap();
        if closes_client {
            client.close().await;
            until("the work is dropped", || is_dropped.load(SeqCst)).await;
        } else {
            within(told.recv()).await.unwrap();
            assert!(!is_dropped.load(SeqCst));
            within(selector.close()).await.unwrap();
            assert!(is_dropped.load(SeqCst));
        }
    }

    let servers = server.connect_string();
    on_a_thread(move || {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let dropped = Dropped(is_dropped.clone());
        let client = blocking::Client::connect(&servers).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let work = move |leadership: blocking::Leadership| {
            let _ = &dropped;
            tell.send(()).unwrap();
            while !leadership.is_resigning() {
                std::thread::sleep(ms(1));
            }
            Ok::<(), std::io::Error>(())
        };
        let selector = blocking::LeaderSelector::start(&client, PATH, LeaderOptions::new(), work).unwrap();
        told.recv_timeout(BOUND).unwrap();
        assert!(!is_dropped.load(SeqCst));
        selector.close().unwrap();
        assert!(is_dropped.load(SeqCst));
    })
    .await;
}

#[tokio::test]
async fn who_leads_once_leads_again_when_told_to() {
    let (_server, [client]) = server_and_clients().await;
    let (selector, mut told) = told_selector(&client, LeaderSelector::start_once);
    let mut watching = selector.watch_state();
    for end in [|| Ok(()), || Err(std::io::Error::other("no paper"))] {
        assert!(!selector.requeue(), "it stands");
        let (_, tell) = within(told.recv()).await.unwrap();
        assert!(!selector.requeue(), "it leads");
        // Else the last end may be seen once more.
        state(&mut watching, |state| state.is_leading()).await;
        tell.send(end).unwrap();
        state(&mut watching, |state| matches!(state, LeaderState::Idle | LeaderState::Failed(_))).await;
        assert_eq!(selector.participants().await.unwrap(), []);
        until("it rests", || selector.requeue()).await;
    }
    let (leadership, _tell) = within(told.recv()).await.unwrap();
    selector.close().await.unwrap();
    assert_eq!(leadership.loss(), Some(LossReason::Resigned));
    assert!(!selector.requeue(), "it is closed");
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn a_change_of_the_leader_costs_few_requests() {
    // So long that none of them sends a request to keep it.
    let session = secs(600);
    let server = Server::builder().session_timeout_bounds(secs(1), session).start().await.unwrap();
    let servers = server.connect_string();
    let clients = join_all((0..3).map(|_| quiet(&servers))).await;
    let [one, two, three] = &clients[..] else { panic!("three") };
    let sessions = join_all([one, two, three].map(session_id)).await;
    let (a, leadership) = leading(one, LeaderOptions::new().id("a")).await;
    let b = latch(two, "b");
    let mut seen = LeaderObserver::new(three, PATH).unwrap().watch_leader();
    within(seen.wait_for(|seen| matches!(seen, Observation::Leader(_)))).await.unwrap();
    standing(&a, 2).await;
    watches_with_holders(&server, 3).await;
    let count = async || try_join_all(sessions.iter().map(|id| server.session_packets(*id))).await.unwrap();
    let before = count().await;
    leadership.resign().await.unwrap();
    let token = within(b.await_leadership()).await.unwrap().fencing_token();
    let is_seen = |seen: &Observation| matches!(seen, Observation::Leader(it) if it.fencing_token() == token);
    within(seen.wait_for(is_seen)).await.unwrap();
    // Two nodes and the path, its node and the path, and its node.
    all_watches(&server, 6).await;
    let after = count().await;
    let [again, next, seen] = [0, 1, 2].map(|index| after[index] - before[index]);
    let all = "a delete; to stand again a create, a list, and three watches";
    assert!((6..=7).contains(&again), "{all}: {again}");
    assert_eq!(next, 1, "the end of the one before it; then it listens for requests to resign");
    assert_eq!(seen, 2, "a list, and the node of the new leader with a watch");
}

// Curator's latch and selector, which count every child, wait for each other at one path; so nobody leads twice there.
#[tokio::test]
async fn a_latch_and_a_selector_at_one_path_do_not_both_lead() {
    let (_server, [one, two]) = server_and_clients().await;
    let (latch, leadership) = leading(&one, LeaderOptions::new().id("a")).await;
    for client in [&one, &two] {
        let (selector, mut told) = told_selector(client, LeaderSelector::start);
        let failed =
            state(&mut selector.watch_state(), |state| matches!(state, LeaderState::Failed(_))).await;
        let LeaderState::Failed(Error::KindConflict { path, node, expected, found }) = failed else {
            panic!("{failed:?}")
        };
        assert_eq!((&*path, expected, found), (PATH, "mutex", "leader latch"));
        // Of one client, that is known before anything is sent.
        assert_eq!(node.as_deref(), Some(leadership.node_path()).filter(|_| std::ptr::eq(client, &two)));
        assert!(told.try_recv().is_err());
        selector.close().await.unwrap();
    }
    assert!(leadership.is_valid());
    standing(&latch, 1).await;
    latch.close(CloseMode::Silent).await.unwrap();
    drop(latch);
    let (selector, mut told) = told_selector(&one, LeaderSelector::start);
    within(told.recv()).await.unwrap();
    drop(selector);
}
