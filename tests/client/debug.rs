//! What `{:?}` shows of the public types: what identifies a thing, in one short line for logs. Errors are not cut.

use crate::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use tokio::sync::{mpsc, watch};

const LONGEST: usize = 200;
const SECRET: &str = "marker-of-a-password-4711";
/// Of 60 characters.
const PATH: &str = "/teams/Ärzte & Söhne/orders of 2026-08-01/€ and £/total-0001";

/// What is no type of its own: aliases and a trait.
const OTHERS: [&str; 4] = ["Result", "CompareAndSet", "CompareExchange", "InterProcessLock"];

#[derive(Default)]
struct Shown {
    names: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Shown {
    /// Checks what is shown of a thing, which `identity` identifies.
    fn add<T: Debug>(&mut self, thing: &T, identity: &str) {
        let line = format!("{thing:?}");
        let name = std::any::type_name::<T>().split('<').next().unwrap();
        let is_blocking = name.starts_with("zk_recipes::blocking::");
        let name =
            format!("{}{}", if is_blocking { "blocking::" } else { "" }, name.rsplit("::").next().unwrap());
        let length = line.chars().count();
        let bytes = format!("{:?}", SECRET.as_bytes());
        let tells = line.contains(SECRET) || line.contains(bytes.trim_matches(['[', ']']));
        if length > LONGEST || line.contains('\n') || tells || !line.contains(identity) {
            let begin: String = line.chars().take(2 * LONGEST).collect();
            self.wrong.push(format!(
                "{name}, {length} characters, lacks {identity:?}: {}, secret: {tells}: {begin}",
                !line.contains(identity)
            ));
        }
        self.names.insert(name);
    }

    /// The same for what a blocking type makes of an async one.
    fn both<B: Debug>(&mut self, thing: impl Debug + Into<B>, identity: &str) {
        self.add(&thing, identity);
        self.add(&thing.into(), identity);
    }
}

/// The names of the types that a module and the modules below it export.
fn exported(file: &Path, names: &mut BTreeSet<String>) {
    let text = fs::read_to_string(file).unwrap();
    let prefix = if file.components().any(|it| it.as_os_str() == "blocking") { "blocking::" } else { "" };
    let mut add = |name: &str| {
        let is_type = name.starts_with(char::is_uppercase) && !OTHERS.contains(&name);
        is_type.then(|| names.insert(format!("{prefix}{name}")));
    };
    for statement in text.split("\npub use ").skip(1).filter(|it| !it.starts_with("zookeeper_client")) {
        let path = statement.split(';').next().unwrap();
        path.split(['{', '}', ',', ':']).map(str::trim).for_each(&mut add);
    }
    for item in ["\npub struct ", "\npub enum "] {
        text.split(item)
            .skip(1)
            .for_each(|rest| add(rest.split(|c: char| !c.is_alphanumeric()).next().unwrap()));
    }
    let is_root = ["lib.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
    for module in text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
        assert!(is_root, "{}", file.display());
        let below = file.with_file_name(module);
        let file = Some(below.with_extension("rs")).filter(|file| file.exists());
        exported(&file.unwrap_or_else(|| below.join("mod.rs")), names);
    }
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn each_public_type_is_shown_in_one_short_line() {
    let mut shown = Shown::default();
    let server = TestingServer::builder().system_property("zookeeper.extendedTypesEnabled", "true");
    shown.add(&server, "extendedTypesEnabled");
    let server = server.start().await.unwrap();
    servers(&mut shown, &server).await;
    let builder =
        Client::builder().namespace("shop").auth("digest", format!("alice:{SECRET}")).creator_only();
    shown.add(&builder, "shop");
    let client = builder.connect(&server.connect_string()).await.unwrap();
    let hosts = server.connect_string();
    shown.both::<blocking::Client>(client.clone(), &hosts);
    shown.add(&client.health(), "Connected");
    shown.add(&client.watch_connection().get(), "Connected");
    shown.add(&KeepAlive::Quorum, "Quorum");
    shown.add(&RetryPolicy::default(), "3");
    locks(&mut shown, &client).await;
    quorum(&mut shown, &client).await;
    elections(&mut shown, &client).await;
    jobs(&mut shown, &client).await;
    values(&mut shown, &client).await;
    nodes(&mut shown, &client).await;
    barriers(&mut shown, &client).await;
    caches(&mut shown, &client).await;
    discovery(&mut shown, &client).await;
    errors(&mut shown, &client).await;
    assert!(shown.wrong.is_empty(), "{}: {}", shown.wrong.len(), shown.wrong.join("\n"));

    let mut names = BTreeSet::new();
    exported(Path::new("src/lib.rs"), &mut names);
    assert!(names.len() > 130, "{names:?}");
    assert_eq!(names.difference(&shown.names).collect::<Vec<_>>(), [""; 0], "forgotten");
    client.close().await;
}

async fn servers(shown: &mut Shown, server: &TestingServer) {
    shown.add(server, &server.port().to_string());
    let builder = TestingCluster::builder(1);
    shown.add(&builder, "1");
    let cluster = builder.start().await.unwrap();
    shown.add(&cluster, &cluster.servers()[0].port().to_string());
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    shown.add(&proxy, &proxy.connect_string());
    let intercepted = proxy.intercept(Request::Exists, Fate::LoseReply);
    shown.add(&intercepted, "LoseReply");
    shown.add(&Request::Exists, "Exists");
    shown.add(&Fate::LoseReply, "LoseReply");
    shown.add(&Traffic::pass().delay(ms(1)).bandwidth(1), "1ms");
    let client = Client::connect(&proxy.connect_string()).await.unwrap();
    shown.add(&proxy.connections().remove(0), "pass");
    client.close().await;
    let builder = MemoryServer::builder();
    shown.add(&builder, "ttl_nodes");
    let memory = builder.start().unwrap();
    shown.add(&memory, &memory.port().to_string());
    shown.add(&ManualClock::new(SystemTime::UNIX_EPOCH), "0");
    shown.add(&MemoryVersion::V3_5, "V3_5");
    let builder = MemoryEnsemble::builder().servers(1).seed(42);
    shown.add(&builder, "42");
    let ensemble = builder.start().unwrap();
    shown.add(&ensemble, "servers: 1");
    let (changes, told) = std::sync::mpsc::channel();
    ensemble.observe(move |change| changes.send(change.clone()).unwrap());
    assert!(ensemble.create("/a", b"1", false));
    let change = told.recv().unwrap();
    shown.add(&change, "/a");
    shown.add(&change.kind, "Created");
    shown.add(&ensemble.node("/a").unwrap(), &change.zxid.to_string());
}

async fn locks(shown: &mut Shown, client: &Client) {
    let options = LockOptions::new().node_data(SECRET).max_hold(secs(5)).detect_deadlocks(true);
    shown.add(&options, "5s");
    let mutex = InterProcessMutex::new(client, PATH).unwrap();
    shown.both::<blocking::InterProcessMutex>(mutex.clone(), PATH);
    shown.add(&InterProcessMutex::new(client, &"/long".repeat(100)).unwrap(), "/long/long");
    let guard = mutex.acquire().await.unwrap();
    shown.add(&guard, guard.node_path());
    shown.add(&guard.watch_state().get(), "Held");
    let transaction =
        || guard.transaction().create(PATH, SECRET, CreateMode::Persistent).set_data("/b", "2", None);
    shown.add(&transaction(), guard.node_path());
    let ticket = mutex.owned_by(&Owner::new()).enqueue().await.unwrap();
    shown.add(&ticket.watch_position().get(), "1");
    shown.both::<blocking::Ticket>(ticket, PATH);
    let participants = mutex.participants().await.unwrap();
    shown.add(&participants[0], guard.node_path());
    let guard = blocking::LockGuard::from(guard);
    shown.add(&guard, guard.node_path());
    shown.add(&guard.transaction().set_data(PATH, SECRET, None), guard.node_path());
    shown.add(&guard.watch_state(), "Held");
    drop(guard);
    shown.add(&Owner::current(), "Owner(");
    shown.add(&SuspectPolicy::Keep, "Keep");
    let locks = Locks::new(client, PATH).unwrap();
    shown.both::<blocking::Locks>(locks, PATH);
    let path = format!("{PATH}/rw");
    let both = ReadWriteLock::new(client, &path).unwrap();
    shown.both::<blocking::ReadLock>(both.read().clone(), &path);
    shown.both::<blocking::WriteLock>(both.write().clone(), &path);
    shown.both::<blocking::ReadWriteLock>(both, &path);
    let path = format!("{PATH}/s");
    let semaphore = Semaphore::new(client, &path, 5).unwrap();
    let permits = semaphore.many(4).unwrap().acquire().await.unwrap();
    shown.add(&permits, permits.members()[0].node_path());
    shown.both::<blocking::Semaphore>(semaphore, &path);
    let path = format!("{PATH}/sm");
    shown.both::<blocking::SemaphoreMutex>(SemaphoreMutex::new(client, &path).unwrap(), &path);
    let paths: Vec<_> = (0..20).map(|number| format!("{PATH}/m{number}")).collect();
    let multi = MultiLock::new(client, &paths).unwrap();
    let all = multi.acquire().await.unwrap();
    shown.add(&all, all.members()[0].node_path());
    shown.both::<blocking::MultiLock>(multi, &paths[0]);
}

async fn quorum(shown: &mut Shown, client: &Client) {
    let others = [MemoryServer::start().unwrap(), MemoryServer::start().unwrap()];
    let mut ensembles = vec![("north".to_owned(), client.clone())];
    for (name, server) in ["south", "west"].iter().zip(&others) {
        ensembles.push(((*name).to_owned(), Client::connect(&server.connect_string()).await.unwrap()));
    }
    let ensembles = Ensembles::new(ensembles).unwrap();
    shown.add(&ensembles, "north");
    let path = format!("{PATH}/q");
    let lock = QuorumLock::new(&ensembles, &path).unwrap();
    let guard = lock.acquire().await.unwrap();
    shown.both::<blocking::QuorumGuard>(guard, &path);
    shown.both::<blocking::QuorumLock>(lock, &path);
}

async fn elections(shown: &mut Shown, client: &Client) {
    let path = format!("{PATH}/l");
    let (_sender, eligible) = watch::channel(true);
    let options = LeaderOptions::new().id("me").eligible_while(eligible);
    shown.add(&options, "me");
    let latch = LeaderLatch::start(client, &path, options).unwrap();
    let leadership = within(latch.await_leadership()).await.unwrap();
    let node = leadership.node_path().to_owned();
    shown.add(&latch.watch_state().get(), &node);
    shown.both::<blocking::Leadership>(leadership, &node);
    shown.add(&latch.health(), "Leader");
    shown.add(&latch.health().role, "Leader");
    shown.both::<blocking::LeaderLatch>(latch.clone(), &path);
    shown.add(&CloseMode::Silent, "Silent");
    let observer = LeaderObserver::new(client, &path).unwrap();
    let mut watch = observer.watch_leader();
    let seen = within(watch.wait_for(|seen| matches!(seen, Observation::Leader(_)))).await.unwrap().clone();
    shown.add(&seen, &node);
    shown.both::<blocking::LeaderObserver>(observer, &path);
    let path = format!("{PATH}/fails");
    let selector =
        LeaderSelector::start_once(client, &path, LeaderOptions::new(), |_| async { Err("no paper") })
            .unwrap();
    let mut watch = selector.watch_state();
    let failed =
        within(watch.wait_for(|state| matches!(state, LeaderState::Failed(_)))).await.unwrap().clone();
    let LeaderState::Failed(Error::WorkFailed { source, .. }) = &failed else { panic!("{failed:?}") };
    shown.add(source, "no paper");
    shown.add(&failed, &path);
    shown.both::<blocking::LeaderSelector>(selector, &path);
}

async fn jobs(shown: &mut Shown, client: &Client) {
    let path = format!("{PATH}/j");
    let (sender, mut runs) = mpsc::unbounded_channel();
    let options =
        JobOptions::new().missed_runs(MissedRuns::RunAll(77)).unfinished_run(UnfinishedRun::Repeat(3));
    shown.add(&options, "77");
    let second = secs(1);
    let job = ScheduledJob::every(client, &path, second, options.clone(), move |run| {
        sender.send(run).unwrap();
        async { Ok::<(), Error>(()) }
    })
    .unwrap();
    let run = within(runs.recv()).await.unwrap();
    shown.add(&run, run.leadership().node_path());
    let mut states = job.watch_state();
    let is_waiting =
        |state: &JobState| matches!(state, JobState::Waiting(record) if record.last_run.is_some());
    let waiting = within(states.wait_for(is_waiting)).await.unwrap().clone();
    shown.add(&waiting, "Waiting");
    shown.add(&job.health(), "Leader");
    let record = job.record().await.unwrap().unwrap();
    shown.add(&record, "every 1s");
    let last = record.last_run.unwrap();
    shown.add(&last, "Done");
    shown.add(&last.outcome, "Done");
    shown.add(&job, &path);
    shown.add(&MissedRuns::RunAll(7), "7");
    shown.add(&UnfinishedRun::Repeat(7), "7");
    job.close().await.unwrap();
    let clock = ManualClock::new(SystemTime::UNIX_EPOCH);
    let options = options.clock_tolerance(secs(3600));
    let work = |_| async { Ok::<(), Error>(()) };
    let job = ScheduledJob::every(client, &format!("{PATH}/k"), second, options.clock(&clock), work).unwrap();
    let mut states = job.watch_state();
    let state =
        within(states.wait_for(|state| matches!(state, JobState::WrongClock(_)))).await.unwrap().clone();
    let JobState::WrongClock(difference) = &state else { unreachable!() };
    shown.add(difference, "is_ahead: false");
    shown.add(&state, "is_ahead: false");
    shown.add(&job.health(), "is_ahead: false");
}

async fn values(shown: &mut Shown, client: &Client) {
    let value = SharedValue::new(client, &format!("{PATH}/v"), SECRET).unwrap();
    let versioned = value.get_versioned().await.unwrap();
    shown.add(&versioned.version(), "0");
    value.set("v".repeat(1000)).await.unwrap();
    let mut watch = value.watch_state();
    let known = |state: &SharedState<_>| matches!(state, SharedState::Known(_));
    let state = within(watch.wait_for(known)).await.unwrap().clone();
    shown.add(&state, "Known");
    shown.add(&value.get_versioned().await.unwrap(), "118");
    shown.both::<blocking::shared::SharedValue>(value, PATH);
    let count = SharedCount::new(client, &format!("{PATH}/c"), 7).unwrap();
    shown.add(&count.get_versioned().await.unwrap(), "7");
    shown.both::<blocking::shared::SharedCount>(count, PATH);
    let options = AtomicOptions::new().promoted_to_lock(format!("{PATH}/lock"));
    shown.add(&options, PATH);
    let long =
        DistributedAtomicLong::new(client, &format!("{PATH}/n")).unwrap().with_options(options).unwrap();
    long.add(5).await.unwrap();
    let cached = CachedAtomicLong::new(&long, 100).unwrap();
    cached.next().await.unwrap();
    shown.both::<blocking::atomic::CachedAtomicLong>(cached, PATH);
    shown.both::<blocking::atomic::DistributedAtomicLong>(long, PATH);
    let value = DistributedAtomicValue::new(client, &format!("{PATH}/a")).unwrap();
    shown.both::<blocking::atomic::DistributedAtomicValue>(value, PATH);
}

async fn nodes(shown: &mut Shown, client: &Client) {
    let path = format!("{PATH}/p");
    let options = PersistentNodeOptions::new().mode(NodeMode::Persistent);
    shown.add(&options, "Persistent");
    shown.add(&NodeMode::Persistent, "Persistent");
    shown.add(&OnStranger::Wait, "Wait");
    let node = PersistentNode::start(client, &path, SECRET, options).unwrap();
    within(node.wait_present()).await.unwrap();
    shown.add(&node.state(), &path);
    shown.both::<blocking::nodes::PersistentNode>(node, &path);
    let path = format!("{PATH}/t");
    let options = PersistentTtlNodeOptions::new(secs(60));
    shown.add(&options, "60s");
    let node = PersistentTtlNode::start(client, &path, SECRET, options).unwrap();
    within(node.wait_present()).await.unwrap();
    shown.both::<blocking::nodes::PersistentTtlNode>(node, &path);
    let path = format!("{PATH}/g");
    let group = Group::new(client, &path).unwrap();
    let mut joined = Vec::new();
    for number in 0..20 {
        joined.push(group.join(&format!("worker-{number:02}"), "payload".repeat(100)).await.unwrap());
    }
    let members = group.members().await.unwrap();
    shown.add(&members, "worker-00");
    shown.add(members.get("worker-00").unwrap(), "czxid");
    shown.add(&members.changes_since(&Members::default())[0], "worker-00");
    shown.add(&joined[0], &path);
    shown.both::<blocking::nodes::GroupMember>(joined.remove(0), "worker-00");
    shown.both::<blocking::nodes::Group>(group, &path);
}

async fn barriers(shown: &mut Shown, client: &Client) {
    let path = format!("{PATH}/b");
    shown.both::<blocking::barriers::Barrier>(Barrier::new(client, &path).unwrap(), &path);
    let barrier = DoubleBarrier::new(client, &path, 1).unwrap();
    let entered = within(barrier.enter()).await.unwrap();
    let node = entered.node_path().to_owned();
    shown.both::<blocking::barriers::Entered>(entered, &node);
    shown.both::<blocking::barriers::DoubleBarrier>(barrier, &path);
}

async fn caches(shown: &mut Shown, client: &Client) {
    shown.add(&CacheOptions::tree(), "depth");
    let cache = Cache::start(client, PATH, CacheOptions::tree()).unwrap();
    let mut changes = cache.changes();
    let snapshot = within(cache.wait_current()).await.unwrap();
    shown.add(&*snapshot, &snapshot.len().to_string());
    let node = snapshot.iter().next().unwrap();
    shown.add(&**node, PATH);
    shown.add(&Change::Changed { old: node.clone(), new: node.clone() }, PATH);
    shown.add(&CacheEvent::Change(Change::Deleted(node.clone())), PATH);
    shown.add(&within(changes.next()).await.unwrap(), "Reset");
    shown.add(&changes, PATH);
    shown.add(&cache.state(), "Current");
    shown.add(&blocking::cache::Cache::from(cache.clone()).changes(), PATH);
    shown.both::<blocking::cache::Cache>(cache, PATH);
}

async fn discovery(shown: &mut Shown, client: &Client) {
    let discovery =
        ServiceDiscovery::<String>::new(client, PATH).unwrap().payload_class("com.example.Payload");
    shown.add(&discovery, PATH);
    let spec = UriSpec::new("{scheme}://{address}:{port}/orders/{name}/of/{id}?at={registration-time-utc}");
    shown.add(&spec, "{address}");
    let instance =
        ServiceInstance::new("orders").id("orders-0001").address("10.0.0.7").port(8080).ssl_port(8443);
    let instance = instance.payload("p".repeat(1000)).uri_spec(spec);
    shown.add(&instance, "orders-0001");
    let registration = within(discovery.register(instance)).await.unwrap();
    shown.add(&registration, "orders-0001");
    let instances = discovery.instances("orders").await.unwrap();
    shown.add(&instances, "orders-0001");
    let cache = discovery.cache("orders").unwrap();
    shown.add(&cache, PATH);
    shown.add(&ServiceProvider::new(cache), PATH);
    shown.add(&ServiceType::Static, "Static");
    shown.add(&ProviderStrategy::Sticky, "Sticky");
    shown.add(&DownInstancePolicy::default(), "errors");
    let client = blocking::Client::from(client.clone());
    let blocking = tokio::task::spawn_blocking(move || {
        let discovery = blocking::discovery::ServiceDiscovery::<String>::new(&client, PATH).unwrap();
        let registration = discovery.register(ServiceInstance::new("bills").id("bills-0001")).unwrap();
        let cache = discovery.cache("bills").unwrap();
        (discovery, registration, cache)
    });
    let (discovery, registration, cache) = blocking.await.unwrap();
    shown.add(&discovery, PATH);
    shown.add(&registration, "bills-0001");
    shown.add(&cache, PATH);
}

async fn errors(shown: &mut Shown, client: &Client) {
    let error = operate::ask(client, &format!("{PATH}/none")).await.unwrap_err();
    shown.add(&error, PATH);
    // Each of two owners waits for the other.
    let options = LockOptions::new().detect_deadlocks(true);
    let [one, two] = [Owner::new(), Owner::new()];
    let lock = |name: &str, owner: &Owner| {
        let mutex = InterProcessMutex::new(client, &format!("{PATH}/{name}")).unwrap();
        mutex.with_options(options.clone()).unwrap().owned_by(owner)
    };
    let _held = (lock("one", &one).acquire().await.unwrap(), lock("two", &two).acquire().await.unwrap());
    let (one, two) = (lock("two", &one), lock("one", &two));
    let refused = tokio::select!(refused = one.acquire() => refused, refused = two.acquire() => refused);
    let Err(Error::WouldDeadlock { cycle, .. }) = &refused else { panic!("{refused:?}") };
    shown.add(&cycle[0], PATH);
    shown.add(&LossReason::Expired, "Expired");
    let nowhere = Client::builder().connection_timeout(ms(500)).connect("127.0.0.1:1").await;
    let error = nowhere.unwrap_err();
    let Error::NotConnected { causes, .. } = &error else { panic!("{error:?}") };
    shown.add(&causes[0], "127.0.0.1:1");
    shown.add(&causes[0].cause, "Refused");
    shown.add(&error, "127.0.0.1:1");
}
