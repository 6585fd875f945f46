//! Locks over three ensembles, of which some fail.

mod closed;

use tokio_util::sync::CancellationToken;
use zk_recipes_simulation::machine::Machine;

use super::prelude::*;

const NAMES: [&str; 3] = ["berlin", "oslo", "paris"];
const PATH: &str = "/locks/a";
/// How long a silent ensemble is waited for.
const BRIEF: Duration = secs(1);
/// The same where ensembles that answer late are not taken for silent.
const PATIENT: Duration = secs(20);

/// A machine with a client of each ensemble.
struct Contender {
    machine: Machine,
    clients: Vec<Client>,
    lock: QuorumLock,
}

impl Contender {
    async fn at(machine: &Machine, addresses: Vec<String>) -> Self {
        let connecting = addresses.iter().map(|address| {
            let builder = machine.builder().session_timeout(SESSION).drop_timeout(Duration::ZERO);
            async move { keep(machine.connect(builder, address).await) }
        });
        let clients = join_all(connecting).await;
        // In another order than that of their names, which is the one in which they are taken.
        let ensembles = Ensembles::new(NAMES.into_iter().zip(clients.iter().cloned()).rev()).unwrap();
        let lock = QuorumLock::new(&ensembles, PATH).unwrap().with_response_timeout(BRIEF).unwrap();
        Self { machine: machine.clone(), clients, lock }
    }

    async fn new(stage: &Stage, machine: usize) -> Self {
        let addresses = (0..3).map(|ensemble| stage.address_of(ensemble));
        Self::at(&stage.machines()[machine], addresses.collect()).await
    }

    /// One whose requests go through proxies.
    async fn through_proxies(stage: &Stage) -> (Self, Vec<Proxy>) {
        let proxies = join_all((0..3).map(|ensemble| stage.proxy(ensemble))).await;
        let addresses = proxies.iter().map(|proxy| proxy.address.clone()).collect();
        (Self::at(&stage.machines()[0], addresses).await, proxies)
    }

    /// The outcome of an acquire.
    fn tries(&self) -> JoinHandle<Result<QuorumGuard>> {
        let lock = self.lock.clone();
        spawn_local(async move { lock.acquire().await })
    }

    fn acquiring(&self) -> JoinHandle<Option<(QuorumGuard, Instant)>> {
        let lock = self.lock.clone();
        self.machine.spawn(async move { (lock.acquire().await.unwrap(), Instant::now()) })
    }

    /// A lock on one ensemble alone, which keeps others from that member.
    fn mutex(&self, member: usize) -> InterProcessMutex {
        mutex_at(&self.clients[member], PATH)
    }
}

fn names(guard: &QuorumGuard) -> Vec<&str> {
    guard.members().map(|(name, _)| name).collect()
}

fn all_but(missing: usize) -> Vec<&'static str> {
    (0..3).filter(|member| *member != missing).map(|member| NAMES[member]).collect()
}

fn queue(stage: &Stage, ensemble: usize) -> usize {
    stage.ensembles()[ensemble].children(PATH).unwrap_or_default().len()
}

/// Nothing is left by then.
async fn empty_after(time: Duration, stage: &Stage) {
    sleep(time).await;
    assert_eq!([0, 1, 2].map(|ensemble| queue(stage, ensemble)), [0, 0, 0]);
}

async fn end(stage: &Stage) {
    for ensemble in stage.ensembles() {
        ensemble.start(0);
    }
    empty_after(3 * SESSION, stage).await;
}

/// Whichever one ensemble fails while the lock is held, it stays held, and later holders do without that ensemble.
#[history(ensembles = 3, 0, 1, 2)]
async fn a_hold_survives_the_end_of_any_one_ensemble(stage: Stage, dead: usize) {
    let (holder, other) = (Contender::new(&stage, 0).await, Contender::new(&stage, 1).await);
    let guard = holder.lock.acquire().await.unwrap();
    assert_eq!(names(&guard), NAMES);
    stage.ensembles()[dead].stop(0);
    let reason = within(guard.members().nth(dead).unwrap().1.lost()).await;
    assert_eq!(reason, LossReason::Expired);
    assert!(guard.is_valid() && guard.valid_until() > Instant::now());
    assert_eq!(guard.watch_state().get(), LockState::Held);
    assert!(other.lock.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let (next, _) = within(other.acquiring()).await.unwrap().unwrap();
    assert_eq!(names(&next), all_but(dead));
    next.release().await.unwrap();
    end(&stage).await;
}

/// The same for one that waits, in the queue of the first ensemble.
#[history(ensembles = 3, 0, 1, 2)]
async fn a_wait_survives_the_end_of_any_one_ensemble(stage: Stage, dead: usize) {
    let (holder, waiter) = (Contender::new(&stage, 0).await, Contender::new(&stage, 1).await);
    let guard = holder.lock.acquire().await.unwrap();
    let waiting = waiter.acquiring();
    sleep(A_MOMENT).await;
    assert_eq!([0, 1, 2].map(|ensemble| queue(&stage, ensemble)), [2, 1, 1]);
    stage.ensembles()[dead].stop(0);
    sleep(2 * BRIEF).await;
    if dead == 0 {
        assert_eq!(queue(&stage, 1), 2, "it goes on to the next one, without a hand-over");
    }
    assert!(guard.is_valid() && !waiting.is_finished());
    drop(guard);
    let (next, _) = within(waiting).await.unwrap().unwrap();
    assert_eq!(names(&next), all_but(dead));
    next.release().await.unwrap();
    end(&stage).await;
}

#[history(ensembles = 3)]
async fn a_hold_ends_with_the_majority_and_the_rest_is_given_up(stage: Stage) {
    let contender = Contender::new(&stage, 0).await;
    let guard = contender.lock.acquire().await.unwrap();
    let mut state = guard.watch_state();
    for dead in [0, 1] {
        stage.ensembles()[dead].stop(0);
    }
    let dropped = CancellationToken::new();
    let work = async {
        let _dropped = dropped.clone().drop_guard();
        std::future::pending::<()>().await;
    };
    let ran = within(guard.run(work)).await;
    assert!(matches!(ran, Err(Error::LockLost { reason: LossReason::Expired, .. })), "{ran:?}");
    assert!(dropped.is_cancelled());
    assert_eq!(within(guard.lost()).await, LossReason::Expired);
    within(state.wait_for(|state| state.is_lost())).await.unwrap();
    assert!(!guard.is_valid() && guard.valid_until() <= Instant::now());
    sleep(A_MOMENT).await;
    assert_eq!(stage.ensembles()[2].children(PATH), Some(Vec::new()));
    assert!(matches!(guard.release().await, Err(Error::LockLost { .. })));
    let start = Instant::now();
    let tried = contender.lock.try_acquire().await;
    assert!(matches!(&tried, Err(error @ Error::NotConnected { .. }) if error.is_retryable()), "{tried:?}");
    assert!(contender.lock.try_acquire_for(2 * BRIEF).await.is_err());
    assert!(start.elapsed() < 5 * BRIEF, "{:?}", start.elapsed());
    stage.ensembles()[1].start(0);
    let again = within(contender.lock.acquire()).await.unwrap();
    assert_eq!(names(&again), NAMES[1..]);
    again.release().await.unwrap();
    end(&stage).await;
}

#[history(ensembles = 3)]
async fn a_holder_knows_of_its_loss_before_another_holds(stage: Stage) {
    let (holder, proxies) = Contender::through_proxies(&stage).await;
    let other = Contender::new(&stage, 1).await;
    for cut_off in [[0, 1], [0, 2], [1, 2]] {
        let guard = within(holder.lock.acquire()).await.unwrap();
        let next = other.acquiring();
        for index in cut_off {
            proxies[index].set_traffic(Traffic::black_hole());
        }
        sleep(SESSION / 2).await;
        let until = guard.valid_until();
        within(guard.lost()).await;
        let lost_at = Instant::now();
        assert!(until <= lost_at, "{:?} early", until - lost_at);
        let (next, granted_at) = within(next).await.unwrap().unwrap();
        assert!(!guard.is_valid());
        assert!(lost_at <= granted_at, "{:?} late", lost_at - granted_at);
        for proxy in &proxies {
            proxy.set_traffic(Traffic::pass());
        }
        next.release().await.unwrap();
    }
}

/// With a majority, who holds only the rest is waited for only briefly.
#[history(ensembles = 3)]
async fn a_straggler_does_not_keep_a_majority_waiting(stage: Stage) {
    const LONG: Duration = secs(60);
    let (contender, straggler) = (Contender::new(&stage, 0).await, Contender::new(&stage, 1).await);
    let one = straggler.mutex(2).acquire().await.unwrap();
    let start = Instant::now();
    let guard = contender.lock.acquire().await.unwrap();
    assert!(start.elapsed() >= BRIEF && start.elapsed() < BRIEF + A_MOMENT, "{:?}", start.elapsed());
    assert_eq!(names(&guard), NAMES[..2]);
    guard.release().await.unwrap();
    // The same if the caller's own time ends first.
    let patient = contender.lock.with_response_timeout(LONG).unwrap();
    let start = Instant::now();
    let guard = patient.try_acquire_for(BRIEF).await.unwrap().expect("it has a majority");
    assert!(start.elapsed() < BRIEF + A_MOMENT, "{:?}", start.elapsed());
    assert_eq!(names(&guard), NAMES[..2]);
    guard.release().await.unwrap();
    let guard = patient.try_acquire().await.unwrap().expect("it has a majority");
    assert_eq!(names(&guard), NAMES[..2]);
    guard.release().await.unwrap();
    // But for a member that is needed.
    let two = straggler.mutex(1).acquire().await.unwrap();
    assert!(patient.try_acquire().await.unwrap().is_none());
    assert!(patient.try_acquire_for(2 * BRIEF).await.unwrap().is_none());
    let waiting = contender.acquiring();
    sleep(LONG).await;
    assert!(!waiting.is_finished());
    two.release().await.unwrap();
    let (guard, _) = within(waiting).await.unwrap().unwrap();
    assert_eq!(names(&guard), NAMES[..2]);
    guard.release().await.unwrap();
    one.release().await.unwrap();
    end(&stage).await;
}

#[history(ensembles = 3)]
async fn an_ensemble_that_is_known_to_be_down_costs_no_time(stage: Stage) {
    let contender = Contender::new(&stage, 0).await;
    stage.ensembles()[0].stop(0);
    let mut connection = contender.clients[0].watch_connection();
    within(connection.wait_for(|state| !state.is_connected())).await.unwrap();
    let acquired = async || {
        let start = Instant::now();
        let guard = contender.lock.acquire().await.unwrap();
        let took = start.elapsed();
        let names = names(&guard).len();
        guard.release().await.unwrap();
        (names, took)
    };
    let (_, first) = acquired().await;
    assert!(first >= BRIEF && first < BRIEF + A_MOMENT, "{first:?}");
    for _ in 0..100 {
        let (members, took) = acquired().await;
        assert!(members == 2 && took < A_MOMENT, "{members} members in {took:?}");
    }
    stage.ensembles()[0].start(0);
    sleep(SESSION).await;
    assert_eq!(acquired().await.0, 3, "it is taken again");
    end(&stage).await;
}
