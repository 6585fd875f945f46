//! Spans and warnings, as a subscriber sees them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::alone::is_alone;
use crate::support::prelude::*;

type Fields = BTreeMap<String, String>;

#[derive(Clone, Debug, Default)]
struct Seen {
    /// Of a span.
    name: String,
    /// Of an event.
    target: String,
    fields: Fields,
    parents: Vec<String>,
    is_closed: bool,
}

#[derive(Clone, Default)]
struct Recorder {
    /// Those that are open. Their ids are used again.
    spans: Arc<Mutex<BTreeMap<u64, Seen>>>,
    closed: Arc<Mutex<Vec<Seen>>>,
    /// With the fields of their spans.
    events: Arc<Mutex<Vec<(Level, Seen)>>>,
}

struct Collect<'a>(&'a mut Fields);

impl Visit for Collect<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut seen = Seen { name: attributes.metadata().name().into(), ..Seen::default() };
        attributes.record(&mut Collect(&mut seen.fields));
        let scope = context.span_scope(id).unwrap();
        seen.parents = scope.skip(1).map(|span| span.name().to_owned()).collect();
        self.spans.lock().insert(id.into_u64(), seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut Collect(&mut self.spans.lock().get_mut(&id.into_u64()).unwrap().fields));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut seen = Seen { target: event.metadata().target().into(), ..Seen::default() };
        event.record(&mut Collect(&mut seen.fields));
        for span in context.event_scope(event).into_iter().flatten() {
            seen.parents.push(span.name().to_owned());
            for (field, value) in
                self.spans.lock().get(&span.id().into_u64()).into_iter().flat_map(|span| &span.fields)
            {
                seen.fields.entry(field.clone()).or_insert_with(|| value.clone());
            }
        }
        self.events.lock().push((*event.metadata().level(), seen));
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let span = self.spans.lock().remove(&id.into_u64());
        self.closed.lock().extend(span.map(|span| Seen { is_closed: true, ..span }));
    }
}

impl Recorder {
    /// The spans of that name whose fields mention the path, in no order.
    fn spans(&self, name: &str, path: &str) -> Vec<Seen> {
        let (open, closed) = (self.spans.lock(), self.closed.lock());
        let named = open.values().chain(&*closed).filter(|span| span.name == name);
        named.filter(|span| span.fields.values().any(|value| value.contains(path))).cloned().collect()
    }

    fn events(&self, level: Level, message: &str, path: &str) -> Vec<Seen> {
        let events = self.events.lock();
        let fitting = events.iter().filter(|(of, event)| {
            *of == level
                && event.fields["message"].contains(message)
                && event.fields.values().any(|value| value.contains(path))
        });
        fitting.map(|(_, event)| event.clone()).collect()
    }
}

/// What has been traced in this process, by the threads of clients as well.
fn recorder() -> &'static Recorder {
    static RECORDER: LazyLock<Recorder> = LazyLock::new(|| {
        let recorder = Recorder::default();
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(recorder.clone()))
            .unwrap();
        recorder
    });
    &RECORDER
}

/// Whoever may delete children of a path can take the locks there, whatever the ACL of their nodes.
#[tokio::test]
async fn a_path_that_a_stranger_made_is_warned_of_once() {
    const MESSAGE: &str = "everyone can take away";
    let recorder = recorder();
    let server = MemoryServer::start().unwrap();
    let stranger = bystander_of(&server.connect_string()).await;
    let owner = || Client::builder().auth("digest", "owner:secret").creator_only();
    let alice = owner().connect(&server.connect_string()).await.unwrap();
    let acls = [
        ("/open", zk::Acls::anyone_all().to_vec()),
        ("/readable", [zk::Acls::anyone_read().to_vec(), zk::Acls::creator_all().to_vec()].concat()),
        ("/also-open", zk::Acls::anyone_all().to_vec()),
    ];
    let zookeeper = alice.zookeeper().await.unwrap();
    for (path, acl) in &acls {
        let create = CreateMode::Persistent.with_acls(zk::Acls::new(acl));
        zookeeper.create(path, b"", &create).await.unwrap();
    }
    let hold =
        async |client: &Client, path| InterProcessMutex::new(client, path).unwrap().acquire().await.unwrap();
    // The last one shows that the others were looked at, in this order.
    for path in ["/open", "/open", "/own", "/own", "/readable", "/also-open"] {
        drop(hold(&alice, path).await);
    }
    let guard = hold(&alice, "/open").await;
    let warned = |path: &'static str| async move { recorder.events(Level::WARN, MESSAGE, path).pop() };
    let warning = eventually("a warning", || warned("/also-open")).await;
    assert_eq!(warning.fields["everyone"], "CREATE|DELETE|ADMIN", "{warning:?}");
    for (path, count) in [("/open", 1), ("/own", 0), ("/readable", 0)] {
        let warnings = recorder.events(Level::WARN, MESSAGE, path);
        assert_eq!(warnings.iter().filter(|warning| warning.fields["path"] == path).count(), count, "{path}");
    }
    // It is true.
    stranger.delete(guard.node_path(), None).await.unwrap();
    within(guard.lost()).await;
}

#[tokio::test]
async fn an_acquire_and_its_hold_are_spans_of_their_caller() {
    let (recorder, server) = (recorder(), empty_server().await);
    let path = "/traces/mutex";
    let mutex = InterProcessMutex::new(&connect(&server).await, path).unwrap();
    let guard = mutex.acquire().instrument(tracing::info_span!("order")).await.unwrap();
    let [acquire] = &recorder.spans("acquire", path)[..] else { panic!("one acquire") };
    assert!(acquire.is_closed);
    assert_eq!(acquire.parents, ["order"]);
    let expected = [
        ("path", path.to_owned()),
        ("recipe", "mutex".to_owned()),
        ("outcome", "granted".to_owned()),
        ("node", guard.node_path().to_owned()),
        ("token", guard.fencing_token().to_string()),
    ];
    for (field, value) in expected {
        assert_eq!(acquire.fields[field], value);
    }

    let [hold] = &recorder.spans("hold", path)[..] else { panic!("one hold") };
    assert!(!hold.is_closed);
    assert_eq!(hold.parents, ["order"]);
    assert_eq!(
        (&hold.fields["node"], &hold.fields["token"]),
        (&acquire.fields["node"], &acquire.fields["token"])
    );
    guard.run(async { tracing::info!(path, "work") }).await.unwrap();
    let [work] = &recorder.events(Level::INFO, "work", path)[..] else { panic!("one work") };
    assert_eq!(work.parents, ["hold", "order"]);
    guard.release().await.unwrap();
    let [hold] = &recorder.spans("hold", path)[..] else { panic!("one hold") };
    assert!(hold.is_closed);
}

#[tokio::test]
async fn the_outcome_of_an_acquire_is_recorded() {
    let (recorder, server) = (recorder(), empty_server().await);
    let path = "/traces/outcome";
    let _guard = InterProcessMutex::new(&connect(&server).await, path).unwrap().acquire().await.unwrap();
    let closing = connect(&server).await;
    let other = InterProcessMutex::new(&closing, path).unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());
    closing.close().await;
    assert!(matches!(other.acquire().await, Err(Error::Closed)));
    let mut outcomes: Vec<_> =
        recorder.spans("acquire", path).iter().map(|span| span.fields["outcome"].clone()).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["failed", "granted", "unavailable"]);
}

#[tokio::test]
async fn each_turn_of_a_node_that_stays_is_a_hold() {
    let (recorder, server) = (recorder(), empty_server().await);
    let path = "/traces/lingers";
    let options = LockOptions::new().linger(secs(30));
    let mutex = InterProcessMutex::new(&connect(&server).await, path).unwrap().with_options(options).unwrap();
    for _ in 0..3 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let holds = recorder.spans("hold", path);
    assert!(holds.iter().all(|hold| hold.is_closed));
    let mut turns: Vec<_> = holds.iter().map(|hold| hold.fields["turn"].clone()).collect();
    turns.sort();
    assert_eq!(turns, ["0", "1", "2"]);
}

#[tokio::test]
async fn a_leadership_is_a_span_of_its_own() {
    let (recorder, server) = (recorder(), empty_server().await);
    let path = "/traces/latch";
    let latch = LeaderLatch::start(&connect(&server).await, path, LeaderOptions::new()).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    leadership.run(async { tracing::info!(path, "work") }).await.unwrap();
    let [work] = &recorder.events(Level::INFO, "work", path)[..] else { panic!("one work") };
    assert_eq!(work.parents, ["leadership"]);
    let [term] = &recorder.spans("leadership", path)[..] else { panic!("one term") };
    assert!(!term.is_closed);
    let (node, token) = (leadership.node_path().to_owned(), leadership.fencing_token().to_string());
    assert_eq!((&*term.fields["path"], &term.fields["node"], &term.fields["token"]), (path, &node, &token));
    assert!(recorder.spans("hold", path).is_empty());
    latch.close(CloseMode::Silent).await.unwrap();
    let [term] = &recorder.spans("leadership", path)[..] else { panic!("one term") };
    assert!(term.is_closed, "though a handle of the user is left");
    let [ended] = &recorder.events(Level::INFO, "leads no more", path)[..] else { panic!("one end") };
    assert_eq!(ended.fields["reason"], "the leader resigned");
    assert!(ended.fields.contains_key("led_for"));
}

#[tokio::test]
async fn the_work_of_a_selector_runs_in_its_leadership() {
    let (recorder, server) = (recorder(), empty_server().await);
    let client = connect(&server).await;
    let path = "/traces/selector";
    let work = move |_| async move {
        tracing::info!(path, "work");
        Ok::<_, Infallible>(())
    };
    let selector = LeaderSelector::start_once(&client, path, LeaderOptions::new(), work).unwrap();
    let worked = async |path: &str| {
        eventually("work", async || recorder.events(Level::INFO, "work", path).pop()).await.parents
    };
    assert_eq!(worked(path).await, ["leadership"]);
    within(selector.close()).await.unwrap();

    let path = "/traces/thread";
    let client = blocking::Client::from(client);
    let work = move |_| {
        tracing::info!(path, "work");
        Ok::<_, Infallible>(())
    };
    let selector = blocking::LeaderSelector::start_once(&client, path, LeaderOptions::new(), work).unwrap();
    assert_eq!(worked(path).await, ["leadership"]);
    tokio::task::spawn_blocking(move || selector.close()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_ticket_is_an_acquire() {
    let (recorder, server) = (recorder(), empty_server().await);
    let path = "/traces/ticket";
    let mutex = InterProcessMutex::new(&connect(&server).await, path).unwrap();
    drop(mutex.enqueue().await.unwrap());
    let guard = mutex.enqueue().await.unwrap().acquired().await.unwrap();
    let acquires = recorder.spans("acquire", path);
    assert!(acquires.iter().all(|acquire| acquire.is_closed));
    let mut outcomes: Vec<_> = acquires.iter().map(|acquire| &*acquire.fields["outcome"]).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["cancelled", "granted"]);
    let [hold] = &recorder.spans("hold", path)[..] else { panic!("one hold") };
    assert_eq!(hold.fields["token"], guard.fencing_token().to_string());
    let again = mutex.enqueue().await.unwrap().acquired().await.unwrap();
    drop((guard, again));
    assert_eq!(recorder.spans("hold", path).len(), 1, "to re-enter is no other hold");
}

#[tokio::test]
async fn what_becomes_of_a_lock_is_told() {
    let (recorder, server) = (recorder(), empty_server().await);
    let path = "/traces/events";
    let (one, two) = (connect(&server).await, connect(&server).await);
    let mine = InterProcessMutex::new(&one, path).unwrap();
    let other = InterProcessMutex::new(&two, path).unwrap();
    let guard = mine.acquire().await.unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());
    let ended = |message| {
        let [told] = &recorder.events(Level::DEBUG, message, path)[..] else { panic!("one {message}") };
        assert_eq!(told.parents, ["acquire"]);
    };
    ended("not available");
    let waiting = acquire_in_task(&other);
    let bystander = bystander(&server).await;
    queue_of(&bystander, path, 2).await;
    waiting.abort();
    queue_of(&bystander, path, 1).await;
    ended("given up");

    let waiting = acquire_in_task(&other);
    let places = queue_of(&bystander, path, 2).await;
    let place = places.iter().find(|place| !guard.node_path().ends_with(&***place)).unwrap();
    bystander.delete(&format!("{path}/{place}"), None).await.unwrap();
    let again = || async { recorder.events(Level::INFO, "queueing again", place).pop() };
    eventually("another place", again).await;
    let (node, released) = (guard.node_path().to_owned(), "released");
    guard.release().await.unwrap();
    let [told] = &recorder.events(Level::DEBUG, released, &node)[..] else { panic!("one release") };
    assert_eq!(told.parents, ["hold"]);

    let guard = within(waiting).await.unwrap().unwrap();
    bystander.delete(guard.node_path(), None).await.unwrap();
    guard.lost().await;
    let [lost] = &recorder.events(Level::WARN, "lock lost", guard.node_path())[..] else {
        panic!("one loss")
    };
    assert_eq!(lost.fields["reason"], "its node was deleted");
    assert_eq!(lost.fields["session"], format!("{:#x}", session_id(&two).await));
    let node = guard.node_path().to_owned();
    drop(guard);
    assert!(recorder.events(Level::DEBUG, released, &node).is_empty());
}

#[tokio::test]
async fn a_long_wait_is_warned_of_and_names_the_holder() {
    let (recorder, server) = (recorder(), empty_server().await);
    let path = "/traces/waits";
    let holder =
        connected(zk_recipes::Client::builder().identity("the-holder"), &server.connect_string()).await;
    let guard = InterProcessMutex::new(&holder, path).unwrap().acquire().await.unwrap();
    let options = LockOptions::new().warn_after(ms(50), None);
    let other = InterProcessMutex::new(&connect(&server).await, path).unwrap().with_options(options).unwrap();
    let waiting = acquire_in_task(&other);
    let warning = eventually("a second warning", || async {
        recorder.events(Level::WARN, "waiting for a lock", path).into_iter().nth(1)
    });
    let warning = warning.await;
    assert_eq!(warning.fields["holder"], "the-holder");
    assert_eq!(warning.fields["node"], guard.node_path());
    // Also if no server says who holds.
    let warnings = || recorder.events(Level::WARN, "waiting for a lock", path).len();
    server.pause().unwrap();
    let before = warnings();
    until("another warning", || warnings() > before).await;
    server.resume().unwrap();
    guard.release().await.unwrap();
    drop(within(waiting).await.unwrap().unwrap());
}

/// Also if the client has a second session, for a cache.
#[tokio::test]
async fn a_lost_session_is_warned_of_once_with_servers_and_causes() {
    let recorder = recorder();
    let mut server = MemoryServer::start().unwrap();
    let servers = server.connect_string();
    let builder = Client::builder().session_timeout(secs(8)).connection_timeout(secs(1));
    let client = within(builder.connect(&servers)).await.unwrap();
    let session = format!("{:#x}", within(client.zookeeper()).await.unwrap().session_id().0);
    let cache = Cache::start(&client, "/traces/cached", CacheOptions::tree()).unwrap();
    let mut loaded = cache.watch_state();
    within(loaded.wait_for(|state| matches!(state, CacheState::Current))).await.unwrap();
    server.stop().await.unwrap();
    let mut state = client.watch_connection();
    within(state.wait_for(|state| *state == ConnectionState::Lost)).await.unwrap();
    let warnings = recorder.events(Level::WARN, "", &servers);
    let [warning] = &*warnings else { panic!("{warnings:?}") };
    assert_eq!(warning.fields["now"], "Lost");
    assert_eq!(warning.fields["session"], session);
    assert_eq!(warning.fields["causes"], format!("{servers} (connection refused)"));
    // The cache's lines are at the level DEBUG.
    let told = recorder.events(Level::INFO, "connection state changed", &servers);
    let told: Vec<_> = told.iter().map(|event| &*event.fields["now"]).collect();
    assert_eq!(told, ["Connected", "Suspended"]);
}

#[tokio::test]
async fn a_long_hold_is_warned_of_once() {
    let (recorder, server) = (recorder(), empty_server().await);
    let (long, brief) = ("/traces/long", "/traces/brief");
    let client = connect(&server).await;
    let lock = |path| {
        let options = LockOptions::new().warn_after(None, ms(50));
        InterProcessMutex::new(&client, path).unwrap().with_options(options).unwrap()
    };
    lock(brief).acquire().await.unwrap().release().await.unwrap();
    let guard = lock(long).acquire().await.unwrap();
    let warned = || async { recorder.events(Level::WARN, "still holding", long).pop() };
    let warning = eventually("a warning", warned).await;
    assert_eq!(warning.fields["node"], guard.node_path());
    assert_eq!(warning.parents, ["hold"]);
    assert!(recorder.events(Level::WARN, "still holding", brief).is_empty());

    let mutex = InterProcessMutex::new(&client, "/traces/zero").unwrap();
    let refused = mutex.with_options(LockOptions::new().warn_after(Duration::ZERO, None)).unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument { argument: "warn_after", .. }), "{refused}");
}

/// In a process of its own, since not all events name a path.
#[tokio::test]
async fn a_healthy_service_is_quiet() {
    if !is_alone("traced::a_healthy_service_is_quiet") {
        return;
    }
    let (recorder, server) = (recorder(), empty_server().await);
    let clients = [connect(&server).await, connect(&server).await];
    let lingering = LockOptions::new().linger(ms(10));
    let work = clients.iter().flat_map(|client| {
        let mutex = InterProcessMutex::new(client, "/quiet/mutex").unwrap();
        let lingering = InterProcessMutex::new(client, "/quiet/lingers")
            .unwrap()
            .with_options(lingering.clone())
            .unwrap();
        let lock = ReadWriteLock::new(client, "/quiet/lock").unwrap();
        let semaphore = Semaphore::new(client, "/quiet/semaphore", 1).unwrap();
        let both = MultiLock::new(client, ["/quiet/mutex", "/quiet/other"]).unwrap();
        let locks: [Arc<dyn InterProcessLock>; 6] = [
            Arc::new(mutex),
            Arc::new(lingering),
            Arc::new(lock.read().clone()),
            Arc::new(lock.write().clone()),
            Arc::new(semaphore),
            Arc::new(both),
        ];
        locks
    });
    let mut tasks = JoinSet::new();
    for lock in work {
        tasks.spawn(async move {
            for _ in 0..10 {
                lock.acquire().await.unwrap().release().await.unwrap();
                let _ = lock.try_acquire().await.unwrap();
                // Too short for the servers, at times.
                let _ = lock.try_acquire_for(ms(1)).await;
            }
        });
    }
    within(tasks.join_all()).await;
    let waited = recorder.events(Level::DEBUG, "waiting", "/quiet/mutex");
    assert!(!waited.is_empty(), "there was contention");
    for client in clients {
        client.close().await;
    }
    let events = recorder.events.lock();
    // The client below tells of each session and connection.
    let is_of_connection = |event: &Seen| {
        event.target.starts_with("zookeeper_client::session")
            || event.fields["message"] == "connection state changed"
    };
    let loud: Vec<_> =
        events.iter().filter(|(level, event)| *level <= Level::INFO && !is_of_connection(event)).collect();
    assert!(loud.is_empty(), "{loud:#?}");
    let told = events.iter().filter(|(level, _)| *level <= Level::INFO).count();
    assert!(told < 20, "{told} events about two connections");
}
