//! Watchers are told of each state once: no two states that are told one after the other are the same.

use crate::prelude::*;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What was told, by the names of the methods.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>);

impl Told {
    fn records<T: Clone + Debug + PartialEq + Send + Sync + 'static>(
        &self,
        name: &'static str,
        watch: Watch<T>,
    ) {
        self.records_by(name, watch, T::clone);
    }

    /// Records all that is told until the channel closes. Two states are the same if they have the same key.
    fn records_by<T: Clone + Debug + Send + Sync + 'static, K: PartialEq + Send>(
        &self,
        name: &'static str,
        mut watch: Watch<T>,
        key: impl Fn(&T) -> K + Send + 'static,
    ) {
        let told = self.clone();
        assert!(told.0.lock().unwrap().insert(name, Vec::new()).is_none(), "{name}");
        tokio::spawn(async move {
            let mut before = None;
            while let Some(state) = watch.changed().await {
                let now = Some(key(&state));
                let again = if now == before { "AGAIN " } else { "" };
                told.0.lock().unwrap().get_mut(name).unwrap().push(format!("{again}{state:?}"));
                before = now;
            }
        });
    }

    /// Waits until the last state that each of them was told contains this.
    async fn shows(&self, expected: &[(&str, &str)]) {
        let missing = || {
            let told = self.0.lock().unwrap();
            let is_shown =
                |name: &str, state: &str| told[name].last().is_some_and(|last| last.contains(state));
            let missing = expected.iter().filter(|(name, state)| !is_shown(name, state));
            missing.map(|(name, state)| format!("{name}: {state}, not {:?}", told[name])).collect::<Vec<_>>()
        };
        let shown = eventually("all is told", async || missing().is_empty().then_some(()));
        tokio::select!(() = shown => {}, () = sleep(BOUND / 2) => panic!("{:#?}", missing()));
    }

    fn assert_once(&self) {
        let told = self.0.lock().unwrap();
        let again = |states: &[String]| states.iter().any(|state| state.starts_with("AGAIN "));
        let wrong: Vec<_> = told.iter().filter(|(_, states)| again(states)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Waits for a term with a greater token than this, and returns its token.
async fn leads(state: &Watch<LeaderState>, token: i64) -> i64 {
    let leads = |state: &LeaderState| match state {
        LeaderState::Leading(leadership) if leadership.fencing_token() > token => {
            Some(leadership.fencing_token())
        }
        _ => None,
    };
    eventually("it leads", || async { leads(&state.get()) }).await
}

#[tokio::test]
async fn no_watcher_is_told_the_same_twice() {
    let told = Told::default();
    let server = Server::builder().ttl_nodes();
    let server = server.start().await.unwrap();
    let (second, third) = (MemoryServer::start().unwrap(), MemoryServer::start().unwrap());
    let proxies = [
        FaultProxy::start(server.connect_string()).await.unwrap(),
        FaultProxy::start(second.connect_string()).await.unwrap(),
    ];
    let [client, beside] = [connect_through(&proxies[0]).await, connect_through(&proxies[1]).await];
    let other = connect(&server).await;
    let last = Client::connect(&third.connect_string()).await.unwrap();
    told.records("Client::watch_connection", client.watch_connection());

    let mutex = InterProcessMutex::new(&client, "/mutex").unwrap();
    let guard = mutex.acquire().await.unwrap();
    told.records("LockGuard::watch_state", guard.watch_state());
    let ensembles = [("one", client.clone()), ("two", beside.clone()), ("three", last)];
    let quorum = QuorumLock::new(&Ensembles::new(ensembles).unwrap(), "/quorum").unwrap();
    let quorum_guard = quorum.acquire().await.unwrap();
    told.records("QuorumGuard::watch_state", quorum_guard.watch_state());
    let ahead = InterProcessMutex::new(&other, "/queue").unwrap();
    let ahead = ahead.acquire().await.unwrap();
    let ticket = InterProcessMutex::new(&client, "/queue").unwrap().enqueue().await.unwrap();
    told.records("Ticket::watch_position", ticket.watch_position());
    let acquiring = tokio::spawn(ticket.acquired());

    let value = SharedValue::new(&client, "/value", "seed").unwrap();
    told.records("SharedValue::watch_state", value.watch_state());
    let count = SharedCount::new(&client, "/count", 7).unwrap();
    told.records("SharedCount::watch_state", count.watch_state());
    value.set("new").await.unwrap();
    count.set(8).await.unwrap();

    let cache = Cache::start(&client, "/cached", CacheOptions::tree()).unwrap();
    told.records("Cache::watch_state", cache.watch_state());
    let services = ServiceDiscovery::<()>::new(&client, "/services").unwrap();
    let instance = within(services.register(ServiceInstance::new("orders").id("one"))).await.unwrap();
    told.records("Registration::watch_state", instance.watch_state());
    let service = services.cache("orders").unwrap();
    told.records("ServiceCache::watch_state", service.watch_state());

    let node = PersistentNode::start(&client, "/node", "data", PersistentNodeOptions::new()).unwrap();
    told.records("PersistentNode::watch_state", node.watch_state());
    let options = PersistentTtlNodeOptions::new(secs(600));
    let ttl_node = PersistentTtlNode::start(&client, "/ttl", "data", options).unwrap();
    told.records("PersistentTtlNode::watch_state", ttl_node.watch_state());
    let group = Group::new(&client, "/group").unwrap();
    told.records("Group::watch_members", group.watch_members());
    let member = group.join("a", "data").await.unwrap();
    told.records("GroupMember::watch_state", member.watch_state());
    let _member = Group::new(&other, "/group").unwrap().join("b", "data").await.unwrap();

    let by_text = |state: &LeaderState| format!("{state:?}");
    let observer = LeaderObserver::new(&client, "/latch").unwrap();
    told.records("LeaderObserver::watch_leader", observer.watch_leader());
    let latch = LeaderLatch::start(&client, "/latch", LeaderOptions::new().id("me")).unwrap();
    told.records_by("LeaderLatch::watch_state", latch.watch_state(), by_text);
    let leadership = within(latch.await_leadership()).await.unwrap();
    told.records("Leadership::watch_state", leadership.watch_state());
    let work = |leadership: Leadership| async move {
        leadership.resign_requested().await;
        Ok::<(), Error>(())
    };
    let selector = LeaderSelector::start(&client, "/selector", LeaderOptions::new(), work).unwrap();
    told.records_by("LeaderSelector::watch_state", selector.watch_state(), by_text);
    let work = |_| async { Ok::<(), Error>(()) };
    let job = ScheduledJob::every(&client, "/job", ms(500), JobOptions::new(), work).unwrap();
    told.records("ScheduledJob::watch_state", job.watch_state());
    told.records_by("ScheduledJob::watch_leader", job.watch_leader(), by_text);

    let up = [
        ("Client::watch_connection", "onnected"),
        ("SharedValue::watch_state", "Known"),
        ("SharedCount::watch_state", "Known"),
        ("Cache::watch_state", "Current"),
        ("Registration::watch_state", "Present"),
        ("ServiceCache::watch_state", "Current"),
        ("PersistentNode::watch_state", "Present"),
        ("PersistentTtlNode::watch_state", "Present"),
        ("Group::watch_members", r#"is_current: true, ids: ["a", "b"]"#),
        ("GroupMember::watch_state", "Present"),
        ("LeaderObserver::watch_leader", "Leader"),
        ("LeaderLatch::watch_state", "Leading"),
        ("LeaderSelector::watch_state", "Leading"),
        ("ScheduledJob::watch_leader", "Leading"),
        ("ScheduledJob::watch_state", "ing"),
    ];
    let held = ["LockGuard::watch_state", "QuorumGuard::watch_state", "Leadership::watch_state"];
    // All that change: a watch need not show a state that was short.
    let down = [
        ("Client::watch_connection", "Suspended"),
        ("SharedValue::watch_state", "Stale"),
        ("SharedCount::watch_state", "Stale"),
        ("Cache::watch_state", "Stale"),
        ("ServiceCache::watch_state", "Stale"),
        ("Group::watch_members", "is_current: false"),
    ];
    told.shows(&up).await;
    told.shows(&held.map(|name| (name, "Held"))).await;
    let sessions = (session_id(&client).await, session_id(&beside).await);
    for ends in [false, true] {
        proxies.iter().for_each(cut_off);
        told.shows(&down).await;
        told.shows(&held.map(|name| (name, "Suspect"))).await;
        if ends {
            server.kill_session(sessions.0).await.unwrap();
            second.kill_session(sessions.1).await.unwrap();
        }
        proxies.iter().for_each(mend);
        told.shows(&up).await;
        told.shows(&held.map(|name| (name, if ends { "Lost" } else { "Held" }))).await;
    }
    ahead.release().await.unwrap();
    let _acquired = within(acquiring).await.unwrap().unwrap();
    told.shows(&[("Ticket::watch_position", "0")]).await;
    let [of_selector, of_job] = [selector.watch_state(), job.watch_leader()];
    let before = [leads(&of_selector, 0).await, leads(&of_job, 0).await];
    selector.interrupt_leadership();
    job.interrupt_leadership();
    let [of_selector, of_job] = [leads(&of_selector, before[0]).await, leads(&of_job, before[1]).await];
    told.shows(&[
        ("LeaderSelector::watch_state", &format!("fencing_token: {of_selector}")),
        ("ScheduledJob::watch_leader", &format!("fencing_token: {of_job}")),
        ("ScheduledJob::watch_state", &format!("leader: {of_job}")),
    ])
    .await;

    node.close().await.unwrap();
    ttl_node.close().await.unwrap();
    member.leave().await.unwrap();
    instance.unregister().await.unwrap();
    latch.close(CloseMode::NotifyLeader).await.unwrap();
    selector.close().await.unwrap();
    job.close().await.unwrap();
    client.close().await;
    let mut closed = vec![("SharedValue::watch_state", "Stale"), ("SharedCount::watch_state", "Stale")];
    let types = "Registration PersistentNode PersistentTtlNode GroupMember LeaderLatch LeaderSelector Client";
    let ends = |name: &str| types.split(' ').any(|closed| closed == name.split(':').next().unwrap());
    closed.extend(told.0.lock().unwrap().keys().filter(|name| ends(name)).map(|name| (*name, "Closed")));
    told.shows(&closed).await;

    told.assert_once();
    assert!(told.0.lock().unwrap().values().all(|states| states.len() > 1), "each was driven");
}

/// Although it is met with again and again.
#[tokio::test]
async fn an_error_that_lasts_is_told_once() {
    let told = Told::default();
    let server = MemoryServer::builder().ttl_nodes(true).start().unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let owner =
        Client::builder().auth("digest", "owner:secret").connect(&server.connect_string()).await.unwrap();
    let private = CreateMode::Persistent.with_acls(Acls::creator_all());
    for path in ["", "/value", "/count", "/latch", "/selector", "/node", "/job"] {
        owner.zookeeper().await.unwrap().create(&format!("/a{path}"), b"", &private).await.unwrap();
    }
    let client = connect_through(&proxy).await;

    told.records("SharedValue", SharedValue::new(&client, "/a/value", "").unwrap().watch_state());
    told.records("SharedCount", SharedCount::new(&client, "/a/count", 7).unwrap().watch_state());
    told.records("LeaderObserver", LeaderObserver::new(&client, "/a/latch").unwrap().watch_leader());
    let by_text = |state: &LeaderState| format!("{state:?}");
    let latch = LeaderLatch::start(&client, "/a/latch", LeaderOptions::new()).unwrap();
    told.records_by("LeaderLatch", latch.watch_state(), by_text);
    let work = |_| async { Ok::<(), Error>(()) };
    let selector = LeaderSelector::start(&client, "/a/selector", LeaderOptions::new(), work).unwrap();
    told.records_by("LeaderSelector", selector.watch_state(), by_text);
    let work = |_| async { Ok::<(), Error>(()) };
    let job = ScheduledJob::every(&client, "/a/job", ms(500), JobOptions::new(), work).unwrap();
    told.records_by("ScheduledJob::watch_leader", job.watch_leader(), by_text);
    let node = PersistentNode::start(&client, "/a/node/a", "", PersistentNodeOptions::new()).unwrap();
    told.records("PersistentNode", node.watch_state());
    let options = PersistentTtlNodeOptions::new(secs(600));
    let ttl_node = PersistentTtlNode::start(&client, "/a/node/b", "", options).unwrap();
    told.records("PersistentTtlNode", ttl_node.watch_state());

    let failed = ["LeaderLatch", "LeaderSelector", "ScheduledJob::watch_leader"].map(|name| (name, "Failed"));
    told.shows(&failed).await;
    told.shows(&["PersistentNode", "PersistentTtlNode"].map(|name| (name, "Blocked"))).await;
    told.shows(&["LeaderObserver", "SharedValue", "SharedCount"].map(|name| (name, "Some("))).await;
    let before = proxy.requests_seen();
    until("all is tried again", || proxy.requests_seen() > before + 100).await;
    client.close().await;
    told.assert_once();
}
