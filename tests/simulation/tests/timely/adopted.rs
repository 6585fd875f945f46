//! Sessions that users have made, and servers that give whoever connects again another session while the old one goes on.

use zk_recipes::nodes::{PersistentNode, PersistentNodeOptions};

use super::prelude::*;

/// Nothing here ends by it.
const LONG: Duration = secs(600);

fn patient() -> MemoryEnsembleBuilder {
    MemoryEnsemble::builder().session_timeout_bounds(secs(1), LONG)
}

/// Servers that know no session when it comes back.
async fn forgetful(stage: &Stage, version: MemoryVersion) -> (MemoryEnsemble, Proxy) {
    apart(stage, patient().version(version).forget_sessions(true), &format!("10.8.{version:?}:2181")).await
}

async fn session_at(address: &str) -> zk::Client {
    zk::Client::connector().with_session_timeout(LONG).connect(address).await.unwrap()
}

/// The client, and what owns its session.
async fn adopted(address: &str) -> (zk::Client, Client) {
    let zookeeper = session_at(address).await;
    (zookeeper.clone(), keep(Client::from_zookeeper(zookeeper).unwrap()))
}

/// Has a client lose its connection, and waits until it has another one or its session is over.
async fn reconnect(client: &Client, proxy: &Proxy) {
    let mut states = client.watch_connection();
    assert!(states.changed().await.is_some());
    proxy.cut();
    within(states.changed()).await.unwrap();
    let is_over = |state: &ConnectionState| state.is_connected() || *state == ConnectionState::Lost;
    within(states.wait_for(is_over)).await.unwrap();
}

/// The session outlasts a lost connection.
async fn goes_on(client: &Client, proxy: &Proxy) {
    reconnect(client, proxy).await;
    let state = client.watch_connection().get();
    assert!(state.is_connected(), "{state:?}, though the session lives");
    once(&mutex(client)).await;
}

/// Somebody deletes the node of a lock, as the client sees at once.
async fn loses_its_node(servers: &MemoryEnsemble, client: &Client) {
    let guard = within(mutex(client).acquire()).await.unwrap();
    let mut states = guard.watch_state();
    sleep(SOON).await;
    assert!(servers.delete(guard.node_path()));
    assert_eq!(within(guard.lost()).await, LossReason::Deleted);
    drop((guard, states.changed().now_or_never()));
    sleep(SOON).await;
}

#[history]
async fn an_adopted_session_that_has_ended_is_over(stage: Stage) {
    let (zookeeper, client) = adopted(&stage.address_of(0)).await;
    let holder = stage.client(1).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let waiting = waiter(&mutex(&client)).await;
    assert!(stage.servers().end_session(zookeeper.session_id().0));
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::SessionOver { .. }), "{error}");
    state_is(&client, ConnectionState::Lost).await;
    let error = mutex(&client).acquire().await.unwrap_err();
    assert!(matches!(error, Error::SessionOver { .. }), "{error}");
    held.release().await.unwrap();
}

#[history]
async fn an_adopted_session_outlasts_its_connections(stage: Stage) {
    let proxy = stage.proxy(0).await;
    let (_zookeeper, client) = adopted(&proxy.address).await;
    let kept = mutex_at(&client, "/locks/a").acquire().await.unwrap();
    let deleted = mutex_at(&client, "/locks/b").acquire().await.unwrap();
    for round in 0..5 {
        proxy.cut_off();
        disconnected(&client).await;
        if round == 2 || round == 4 {
            assert!(stage.servers().delete(if round == 2 { &deleted } else { &kept }.node_path()));
        }
        proxy.refuse_connections(false);
        connected(&client).await;
        assert!(kept.is_valid() || round == 4);
    }
    for guard in [deleted, kept] {
        assert_eq!(within(guard.lost()).await, LossReason::Deleted);
    }
    once(&mutex(&client)).await;
}

// --- Other sessions ---

/// The user's client reconnects by itself, and says nothing of the new session.
#[history((MemoryVersion::V3_9, false), (MemoryVersion::V3_9, true), (MemoryVersion::V3_6, true))]
async fn an_adopted_session_that_is_replaced_is_over_at_once(
    stage: Stage,
    version: MemoryVersion,
    has_ended: bool,
) {
    let (servers, proxy) = forgetful(&stage, version).await;
    let (zookeeper, client) = adopted(&proxy.address).await;
    let old = zookeeper.session_id().0;
    let rival = Proxy::before(&stage, servers.clone(), "10.8.0.2:2181").await.client(plain).await;
    let guards = join_all(KINDS.map(async |kind| kind.unlimited(&client).acquire().await.unwrap())).await;
    if has_ended {
        assert!(servers.end_session(old));
    } else {
        proxy.cut();
    }
    for guard in &guards {
        assert_eq!(within(guard.lost()).await, LossReason::Expired);
    }
    state_is(&client, ConnectionState::Lost).await;
    // Nobody else holds before the servers have ended that session.
    for kind in KINDS.into_iter().filter(|_| !has_ended) {
        assert!(within(kind.rival(&rival).try_acquire()).await.unwrap().is_none(), "{kind:?}");
    }
    servers.end_session(old);
    for kind in KINDS {
        once(&*kind.rival(&rival)).await;
    }
    assert!(guards.iter().all(|guard| !guard.is_valid()));
}

/// Nothing shows it before the first create.
#[history]
async fn a_session_that_was_replaced_before_it_was_adopted_grants_nothing(stage: Stage) {
    let (servers, proxy) = forgetful(&stage, MemoryVersion::V3_9).await;
    let zookeeper = session_at(&proxy.address).await;
    proxy.cut();
    within(async {
        while zookeeper.check_stat("/").await.is_err() {
            sleep(A_MOMENT).await;
        }
    })
    .await;
    for kind in KINDS {
        let client = keep(Client::from_zookeeper(zookeeper.clone()).unwrap());
        within(kind.unlimited(&client).acquire()).await.unwrap_err();
        assert_eq!(client.watch_connection().get(), ConnectionState::Lost);
        sleep(SOON).await;
        assert_eq!(ephemerals(&servers, "/locks"), [""; 0], "{kind:?}");
    }
}

/// The node is of the old session, but there was none to look for when the client connected again.
#[history]
async fn a_reply_that_is_handled_after_the_replacement_grants_nothing(stage: Stage) {
    let (servers, proxy) = forgetful(&stage, MemoryVersion::V3_9).await;
    for kind in KINDS {
        for polls in 1.. {
            let (_zookeeper, client) = adopted(&proxy.address).await;
            let lock = kind.unlimited(&client);
            once(&*lock).await;
            let mut acquiring = lock.acquire();
            let mut is_done = false;
            for _ in 0..polls {
                is_done = is_done || poll_once(&mut acquiring).is_ready();
                sleep(A_MOMENT).await;
            }
            if !is_done {
                reconnect(&client, &proxy).await;
                if let Ok(guard) = within(acquiring).await {
                    within(guard.lost()).await;
                }
            }
            for session in servers.session_ids() {
                servers.end_session(session);
            }
            if is_done {
                break;
            }
        }
    }
}

/// No session is left that nobody uses.
#[history]
async fn a_client_that_is_closed_leaves_only_what_was_forgotten(stage: Stage) {
    let (servers, proxy) = forgetful(&stage, MemoryVersion::V3_9).await;
    let client = proxy.client(plain).await;
    let old = session_id(&client).await;
    let guard = mutex(&client).acquire().await.unwrap();
    proxy.cut();
    within(guard.lost()).await;
    let anew = session_id(&client).await;
    within(client.close()).await;
    assert_ne!(anew, old);
    assert!(!servers.session_ids().contains(&anew), "it was ended");
}

/// Somebody who passes a connection on, and may have it taken for one without a session.
struct Place {
    servers: MemoryEnsemble,
    proxy: Proxy,
    forgets: Rc<Cell<bool>>,
}

impl Place {
    async fn new(stage: &Stage) -> Self {
        let (servers, forgets) = (patient().start().unwrap(), Rc::<Cell<bool>>::default());
        let is_told = forgets.clone();
        let forget = move |is_handshake, frame: &mut [u8]| {
            if is_handshake && is_told.take() {
                // The session and its password.
                frame[16..24].fill(0);
                frame[28..44].fill(0);
            }
            true
        };
        let proxy = Proxy::editing(stage, servers.clone(), "10.8.0.1:2181", forget).await;
        Self { servers, proxy, forgets }
    }

    async fn adopted(&self) -> (zk::Client, Client) {
        let (zookeeper, client) = adopted(&self.proxy.address).await;
        // The next create has its parents.
        once(&mutex(&client)).await;
        (zookeeper, client)
    }

    async fn replace(&self, client: &Client) {
        self.forgets.set(true);
        reconnect(client, &self.proxy).await;
        assert!(!self.forgets.get());
    }
}

fn kept(client: &Client) -> PersistentNode {
    PersistentNode::start(client, "/kept", "here", PersistentNodeOptions::new()).unwrap()
}

#[history]
async fn what_was_found_after_a_lost_reply_is_lost_with_its_session(stage: Stage) {
    let place = Place::new(&stage).await;
    for keeps in [false, true] {
        let (_zookeeper, client) = place.adopted().await;
        let lost = place.proxy.intercept(Request::Create, Fate::LoseReply);
        let node = keeps.then(|| kept(&client));
        let guard = if keeps { None } else { Some(within(mutex(&client).acquire()).await.unwrap()) };
        within(lost.happened()).await;
        if let Some(node) = &node {
            within(node.wait_present()).await.unwrap();
        }
        place.replace(&client).await;
        assert_eq!(client.watch_connection().get(), ConnectionState::Lost);
        assert!(guard.is_none_or(|guard| !guard.is_valid()));
        until(|| node.as_ref().is_none_or(|node| !node.state().is_present())).await;
        for session in place.servers.session_ids() {
            place.servers.end_session(session);
        }
    }
}

#[history(
    (false, Request::Create, Fate::LoseReply),
    (true, Request::Create, Fate::LoseReply),
    (false, Request::Delete, Fate::LoseRequest),
)]
async fn nothing_stays_in_the_new_session_whatever_is_lost(
    stage: Stage,
    keeps: bool,
    request: Request,
    fate: Fate,
) {
    let place = Place::new(&stage).await;
    let (_zookeeper, client) = place.adopted().await;
    place.replace(&client).await;
    let lost = place.proxy.intercept(request, fate);
    let node = keeps.then(|| kept(&client));
    if !keeps {
        within(mutex(&client).acquire()).await.unwrap_err();
    }
    within(lost.happened()).await;
    state_is(&client, ConnectionState::Lost).await;
    until(|| ephemerals(&place.servers, "/").is_empty()).await;
    drop(node);
}

/// Of a client that connects by itself.
#[history]
async fn the_old_session_is_ended_though_the_client_closes(stage: Stage) {
    let place = Place::new(&stage).await;
    let client = place.proxy.client(|builder| builder.session_timeout(LONG)).await;
    let guard = within(mutex(&client).acquire()).await.unwrap();
    place.forgets.set(true);
    place.proxy.cut();
    assert_eq!(within(guard.lost()).await, LossReason::Expired);
    within(client.close()).await;
    until(|| ephemerals(&place.servers, "/locks").is_empty()).await;
}

/// Two permits are given back by one transaction, whose reply is lost with the connection. The create of another acquire of
/// the client is in doubt meanwhile: its node must not stay for as long as the session goes on.
#[history(MemoryVersion::V3_9, MemoryVersion::V3_6)]
async fn a_release_whose_reply_is_lost_does_not_end_an_adopted_session(stage: Stage, version: MemoryVersion) {
    const LEASES: &str = "/locks/s/leases";
    let (servers, proxy) = apart(&stage, patient().version(version), &format!("10.8.{version:?}:2181")).await;
    let (owner, client) = adopted(&proxy.address).await;
    let semaphore = Semaphore::new(&client, "/locks/s", 2).unwrap().many(2).unwrap();
    let beside = mutex(&client);
    visit(&beside).await;
    let guard = within(semaphore.acquire()).await.unwrap();
    sleep(A_MOMENT).await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiting = acquiring(&beside);
    sleep(A_MOMENT).await;
    let releasing = spawn_local(guard.release());
    sleep(A_MOMENT).await;
    assert_eq!(servers.children(LEASES), Some(Vec::new()), "it was carried out");
    proxy.cut();
    proxy.set_traffic(Traffic::pass());
    let _ = within(releasing).await.unwrap();
    drop(within(waiting).await.unwrap().unwrap());
    drop(within(semaphore.acquire()).await.unwrap());
    within(client.close()).await;
    sleep(SOON).await;
    assert_eq!(ephemerals(&servers, "/"), Vec::<String>::new());
    drop(owner);
}

/// The reply to the question whether the session goes on is lost, after its node has gone.
#[history]
async fn a_lost_answer_is_asked_for_again(stage: Stage) {
    let place = Place::new(&stage).await;
    let (zookeeper, client) = adopted(&place.proxy.address).await;
    let guard = mutex(&client).acquire().await.unwrap();
    place.forgets.set(true);
    let lost = place.proxy.intercept(Request::Multi, Fate::LoseReply);
    place.servers.end_session(zookeeper.session_id().0);
    place.proxy.cut();
    within(lost.happened()).await;
    let mut state = client.watch_connection();
    let told = within(state.wait_for(|state| !matches!(state, ConnectionState::Suspended))).await;
    assert_eq!((told, guard.loss()), (Some(ConnectionState::Lost), Some(LossReason::Expired)));
}

/// A transaction that would delete the node of the lock is refused: the lock is held on, and its node shows that the session is
/// another one.
#[history]
async fn a_node_that_is_not_deleted_is_noted(stage: Stage) {
    let place = Place::new(&stage).await;
    let (_zookeeper, client) = adopted(&place.proxy.address).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let transaction = guard.transaction().check("/locks", 77).delete(guard.node_path(), None);
    let refused = transaction.commit().await.unwrap_err();
    assert!(matches!(refused, Error::OperationFailed { .. }), "{refused}");
    assert!(guard.is_valid());
    place.forgets.set(true);
    place.proxy.cut();
    sleep(secs(5)).await;
    let state = client.watch_connection().get();
    assert_eq!((state, guard.loss()), (ConnectionState::Lost, Some(LossReason::Expired)));
}

/// Somebody has deleted the node of a lock, as the client has seen at once; all was given up long before the connection is lost.
#[history(MemoryVersion::V3_9, MemoryVersion::V3_6)]
async fn a_node_that_was_seen_to_be_deleted_does_not_end_an_adopted_session(
    stage: Stage,
    version: MemoryVersion,
) {
    let (servers, proxy) = apart(&stage, patient().version(version), &format!("10.8.{version:?}:2181")).await;
    let (owner, client) = adopted(&proxy.address).await;
    loses_its_node(&servers, &client).await;
    once(&mutex(&client)).await;
    goes_on(&client, &proxy).await;
    assert!(servers.session_ids().contains(&owner.session_id().0));
}

/// Somebody deletes it while the client has no connection, and no other node shows whose the next one is. The first answer to
/// what is asked instead is lost.
#[history((MemoryVersion::V3_9, Request::Multi), (MemoryVersion::V3_6, Request::Create))]
async fn a_node_that_is_deleted_in_an_outage_does_not_end_an_adopted_session(
    stage: Stage,
    version: MemoryVersion,
    question: Request,
) {
    let (servers, proxy) = apart(&stage, patient().version(version), &format!("10.8.{version:?}:2181")).await;
    let (_owner, client) = adopted(&proxy.address).await;
    let guard = within(mutex(&client).acquire()).await.unwrap();
    proxy.cut_off();
    disconnected(&client).await;
    assert!(servers.delete(guard.node_path()));
    let lost = proxy.intercept(question, Fate::LoseReply);
    proxy.refuse_connections(false);
    within(lost.happened()).await;
    assert_eq!(within(guard.lost()).await, LossReason::Deleted, "{version:?}");
    goes_on(&client, &proxy).await;
    assert_eq!(ephemerals(&servers, "/"), [""; 0]);
}

/// A waiter loses its place, as it sees at once.
#[history(MemoryVersion::V3_9, MemoryVersion::V3_6)]
async fn a_place_that_was_lost_does_not_end_an_adopted_session(stage: Stage, version: MemoryVersion) {
    let (servers, proxy) = apart(&stage, patient().version(version), &format!("10.8.{version:?}:2181")).await;
    let rival = Proxy::before(&stage, servers.clone(), "10.8.0.2:2181").await.client(plain).await;
    let (_owner, client) = adopted(&proxy.address).await;
    let held = mutex(&rival).acquire().await.unwrap();
    let waiting = waiter(&mutex(&client)).await;
    let place = nodes(&servers, PATH).pop().unwrap();
    assert!(servers.delete(&place));
    sleep(SOON).await;
    held.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    sleep(SOON).await;
    goes_on(&client, &proxy).await;
}

/// Those who connect may create nothing in the root, and the queue is gone as well, as containers are that nobody uses.
#[history]
async fn a_node_that_was_seen_to_be_deleted_ends_no_adopted_session_without_its_queue(stage: Stage) {
    let (servers, proxy) = apart(&stage, patient(), "10.8.0.1:2181").await;
    let operator = Proxy::before(&stage, servers.clone(), "10.8.0.2:2181").await.client(plain).await;
    let (_owner, client) = adopted(&proxy.address).await;
    loses_its_node(&servers, &client).await;
    assert!(servers.delete(PATH));
    let acl = [Acl::new(Permission::READ | Permission::ADMIN, AuthId::anyone())];
    operator.zookeeper().await.unwrap().set_acl("/", &acl, None).await.unwrap();
    goes_on(&client, &proxy).await;
}

/// Somebody has put a node of its own in its place, as the client has seen at once.
#[history]
async fn a_stranger_in_the_place_of_a_kept_node_does_not_end_an_adopted_session(stage: Stage) {
    let (servers, proxy) = apart(&stage, patient(), "10.8.0.1:2181").await;
    let (_owner, client) = adopted(&proxy.address).await;
    let node = kept(&client);
    within(node.wait_present()).await.unwrap();
    assert!(servers.delete("/kept") && servers.create("/kept", b"theirs", false));
    until(|| !node.state().is_present()).await;
    sleep(SOON).await;
    goes_on(&client, &proxy).await;
}

/// The reply to the delete is lost with the connection.
#[history(MemoryVersion::V3_9, MemoryVersion::V3_6)]
async fn the_end_of_a_kept_node_whose_reply_is_lost_does_not_end_an_adopted_session(
    stage: Stage,
    version: MemoryVersion,
) {
    let (servers, proxy) = apart(&stage, patient().version(version), &format!("10.8.{version:?}:2181")).await;
    let (_owner, client) = adopted(&proxy.address).await;
    let node = kept(&client);
    within(node.wait_present()).await.unwrap();
    sleep(SOON).await;
    let lost = proxy.intercept(Request::Delete, Fate::LoseReply);
    let closing = spawn_local(async move { node.close().await });
    within(lost.happened()).await;
    let closed = within(closing).await.unwrap();
    sleep(SOON).await;
    assert!(servers.node("/kept").is_none());
    let state = client.watch_connection().get();
    assert!(state.is_connected(), "{version:?}: {state:?}, {closed:?}");
    once(&mutex(&client)).await;
}
