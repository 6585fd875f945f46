//! Services that are registered and found.
//!
//! Promised are: what is registered is found at once, as it was described last; what was unregistered is gone; in calm
//! weather, caches and providers show what is registered; an instance that outlasts its process is taken over by the
//! next one; nothing is left.

use zk_recipes::discovery::{
    Registration, ServiceCache, ServiceDiscovery, ServiceInstance, ServiceProvider, ServiceType,
};
use zk_recipes::nodes::NodeState;

use super::prelude::*;

pub(super) const RECIPE: Recipe = Recipe {
    needs_3_6: true,
    ..Recipe::new("discovery", |world| Box::pin(play(world)), &[SERVICE], "operations")
};

const BASE: &str = "/services";
const SERVICE: &str = "/services/orders";
const NAME: &str = "orders";
const EACH: usize = 3;

/// One instance, which is registered again and again.
struct Task {
    world: World,
    who: String,
    client: Client,
    services: ServiceDiscovery<String>,
    id: String,
    service_type: ServiceType,
}

impl Task {
    /// One that belongs to no session is described in the same way by each process, or the next could not take it over.
    fn describes(&self) -> ServiceInstance<String> {
        let payload = match self.service_type {
            ServiceType::Dynamic => format!("payload {}", fastrand::u32(..)),
            _ => "always the same".to_owned(),
        };
        let instance = ServiceInstance::new(NAME).id(&*self.id).address("10.0.0.7").port(8080);
        instance.payload(payload).service_type(self.service_type)
    }

    async fn registers(self) -> Option<Registration<String>> {
        let world = &self.world;
        while world.is_stormy() {
            match world.chancy(self.services.register(self.describes()), Duration::from_secs(30)).await {
                Some(Ok(registration)) => self.is_registered(registration).await,
                Some(Err(error)) => {
                    self.fails("register", &error);
                    sleep(Duration::from_millis(20)).await;
                }
                None => {}
            }
        }
        world.calm().await;
        sleep(Duration::from_secs(30)).await;
        match timeout(Duration::from_secs(10), self.services.register(self.describes())).await {
            Ok(Ok(registration)) => Some(registration),
            registered => {
                violation(format!("{}: in calm weather: {registered:?}", self.who));
                None
            }
        }
    }

    async fn is_registered(&self, mut registration: Registration<String>) {
        count("operations", 1);
        self.is_found(&registration).await;
        sleep(Duration::from_millis(fastrand::u64(0..1_000))).await;
        if self.service_type == ServiceType::Dynamic && chance(128) {
            let update = registration.update(self.describes());
            match self.world.chancy(update, Duration::from_secs(20)).await {
                Some(Ok(())) => self.is_found(&registration).await,
                Some(Err(error)) => self.fails("update", &error),
                None => {}
            }
        }
        let last = registration.watch_state().get().clone();
        if fastrand::bool() {
            return drop(registration);
        }
        match self.world.chancy(registration.unregister(), Duration::from_secs(20)).await {
            Some(Ok(())) => self.is_gone(&last),
            Some(Err(error)) => self.fails("unregister", &error),
            None => {}
        }
    }

    /// While its node stays the same, everyone finds it as it was described last.
    async fn is_found(&self, registration: &Registration<String>) {
        let NodeState::Present { path, czxid } = registration.watch_state().get().clone() else { return };
        let node = || self.world.servers().node(&path).filter(|node| node.czxid == czxid);
        let before = node();
        let found = self.services.instance(NAME, &self.id);
        let Some(Ok(found)) = self.world.chancy(found, Duration::from_secs(20)).await else { return };
        count("operations", 1);
        let payload = found.as_ref().and_then(|found| found.payload.as_ref());
        let is_same = payload == registration.instance().payload.as_ref();
        if before.is_some() && before == node() && !is_same && self.world.is_faithful() {
            violation(format!("{} is found as {found:?}: {:?}", self.who, registration.instance()));
        }
    }

    fn is_gone(&self, last: &NodeState) {
        let NodeState::Present { path, czxid } = last else { return };
        let node = self.world.servers().node(path).filter(|node| node.czxid == *czxid);
        if node.is_some_and(|node| !of_old_session(&self.client, &node)) && self.world.is_faithful() {
            violation(format!("{}: it is unregistered, and {path} of {czxid:#x} is there", self.who));
        }
    }

    fn fails(&self, what: &str, error: &Error) {
        let is_expected =
            matches!(error, Error::NotConnected { .. } | Error::ZooKeeper { .. } | Error::Closed);
        failed(format_args!("{}: {what}", self.who), error, is_expected);
    }
}

/// A process that has done its work, and stays registered.
struct Done {
    client: Client,
    cache: ServiceCache<String>,
    provider: ServiceProvider<String>,
    registered: Vec<Registration<String>>,
}

async fn play(world: World) {
    let all = world.processes(process).await;
    sleep(Duration::from_secs(5)).await;
    judge_caches(&world, &all);
    let mut clients = Vec::new();
    for Done { client, cache, provider, registered } in all {
        drop((cache, provider));
        for registration in registered {
            if fastrand::bool() {
                drop(registration);
            } else if let Err(error) = registration.unregister().await {
                violation(format!("in calm weather, unregister: {error}"));
            }
        }
        clients.push(client);
    }
    sleep(Duration::from_secs(5)).await;
    expect_nothing(&world, SERVICE, |_| true);
    world.ends(clients).await;
}

async fn process(world: World, machine: Machine) -> Done {
    let client = machine.client().await;
    let services = ServiceDiscovery::<String>::new(&client, BASE).expect("a valid path");
    let cache = || services.cache(NAME).expect("a valid name");
    let (cache, provider) = (cache(), ServiceProvider::new(cache()));
    let tasks = (0..EACH).map(|index| {
        let service_type = if index == 0 { ServiceType::Static } else { ServiceType::Dynamic };
        let id = format!("{}-{index}", machine.number());
        let who = format!("instance {id} ({service_type:?})");
        let (world, client, services) = (world.clone(), client.clone(), services.clone());
        let task = Task { world, who, client, services, id, service_type };
        machine.spawn(task.registers())
    });
    let registered = all_done(tasks).await.into_iter().flatten().collect();
    Done { client, cache, provider, registered }
}

/// All see all that are registered, as they were described last.
fn judge_caches(world: &World, all: &[Done]) {
    let payloads = |instances: &mut dyn Iterator<Item = &ServiceInstance<String>>| -> BTreeMap<_, _> {
        instances.map(|instance| (instance.id.clone(), instance.payload.clone())).collect()
    };
    let mut registered = all.iter().flat_map(|done| &done.registered).map(Registration::instance);
    let registered = payloads(&mut registered);
    if registered.len() != EACH * world.machines().len() {
        violation(format!("only {registered:?} are registered"));
    }
    for (machine, done) in all.iter().enumerate() {
        let (cached, candidates) = (done.cache.instances(), done.provider.candidates());
        let is_current = done.cache.watch_state().get().is_current();
        for seen in [&**cached, &*candidates] {
            let seen = payloads(&mut seen.iter().map(|instance| &**instance));
            if !is_current || seen != registered || !cached.unreadable().is_empty() {
                violation(format!(
                    "machine {machine} sees {seen:?}, current: {is_current}; {registered:?} are registered"
                ));
            }
        }
    }
}
