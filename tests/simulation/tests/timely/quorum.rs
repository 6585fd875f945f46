//! Locks over three ensembles, of which some fail.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use zk_recipes::testing::{Fate, Request, Traffic};
use zk_recipes::{
    Client, Ensembles, Error, InterProcessMutex, LockOptions, LockState, LossReason, QuorumGuard, QuorumLock,
    Result, SuspectPolicy,
};
use zk_recipes_simulation::machine::Machine;
use zk_recipes_simulation::world::World;

use super::{A_MOMENT, Proxy, SESSION, ends, play_on, poll_once, session_id, takes, within};

const NAMES: [&str; 3] = ["berlin", "oslo", "paris"];
const PATH: &str = "/locks/a";
/// How long a silent ensemble is waited for.
const BRIEF: Duration = Duration::from_secs(1);
/// The same where ensembles that answer late are not taken for silent.
const PATIENT: Duration = Duration::from_secs(20);

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
            machine.connect(builder, address)
        });
        let clients = join_all(connecting).await;
        let ensembles = Ensembles::new(NAMES.into_iter().zip(clients.iter().cloned())).unwrap();
        let lock = QuorumLock::new(&ensembles, PATH).unwrap().with_response_timeout(BRIEF).unwrap();
        Self { machine: machine.clone(), clients, lock }
    }

    async fn new(world: &World, machine: usize) -> Self {
        let addresses = (0..3).map(|ensemble| world.address_of(ensemble));
        Self::at(&world.machines()[machine], addresses.collect()).await
    }

    /// One whose requests go through proxies.
    async fn through_proxies(world: &World) -> (Self, Vec<Proxy>) {
        let proxies = join_all((0..3).map(|ensemble| Proxy::before(world, ensemble))).await;
        let addresses = proxies.iter().map(|proxy| proxy.address.clone()).collect();
        (Self::at(&world.machines()[0], addresses).await, proxies)
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
        InterProcessMutex::new(&self.clients[member], PATH).unwrap()
    }
}

fn names(guard: &QuorumGuard) -> Vec<&str> {
    guard.members().map(|(name, _)| name).collect()
}

fn all_but(missing: usize) -> Vec<&'static str> {
    (0..3).filter(|member| *member != missing).map(|member| NAMES[member]).collect()
}

fn queue(world: &World, ensemble: usize) -> usize {
    world.ensembles()[ensemble].children(PATH).unwrap_or_default().len()
}

/// Nothing is left by then.
async fn empty_after(time: Duration, world: &World) {
    sleep(time).await;
    assert_eq!([0, 1, 2].map(|ensemble| queue(world, ensemble)), [0, 0, 0]);
}

async fn end(world: World, contenders: impl IntoIterator<Item = Contender>) {
    for ensemble in world.ensembles() {
        ensemble.start(0);
    }
    empty_after(3 * SESSION, &world).await;
    ends(&world, contenders.into_iter().flat_map(|contender| contender.clients)).await;
}

/// Whichever one ensemble fails while the lock is held, it stays held, and later holders do without that ensemble.
async fn holds_without(world: World, dead: usize) {
    let (holder, other) = (Contender::new(&world, 0).await, Contender::new(&world, 1).await);
    let guard = holder.lock.acquire().await.unwrap();
    assert_eq!(names(&guard), NAMES);
    world.ensembles()[dead].stop(0);
    let reason = within(guard.members().nth(dead).unwrap().1.lost()).await;
    assert_eq!(reason, LossReason::Expired);
    assert!(guard.is_valid() && guard.valid_until() > Instant::now());
    assert_eq!(guard.watch_state().get(), LockState::Held);
    assert!(other.lock.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let (next, _) = within(other.acquiring()).await.unwrap().unwrap();
    assert_eq!(names(&next), all_but(dead));
    next.release().await.unwrap();
    end(world, [holder, other]).await;
}

#[test]
fn a_hold_survives_the_end_of_any_one_ensemble() {
    play_on(3, |world| holds_without(world, 0));
    play_on(3, |world| holds_without(world, 1));
    play_on(3, |world| holds_without(world, 2));
}

/// The same for one that waits, in the queue of the first ensemble.
async fn waits_without(world: World, dead: usize) {
    let (holder, waiter) = (Contender::new(&world, 0).await, Contender::new(&world, 1).await);
    let guard = holder.lock.acquire().await.unwrap();
    let waiting = waiter.acquiring();
    sleep(A_MOMENT).await;
    assert_eq!([0, 1, 2].map(|ensemble| queue(&world, ensemble)), [2, 1, 1]);
    world.ensembles()[dead].stop(0);
    sleep(2 * BRIEF).await;
    if dead == 0 {
        assert_eq!(queue(&world, 1), 2, "it goes on to the next one, without a hand-over");
    }
    assert!(guard.is_valid() && !waiting.is_finished());
    drop(guard);
    let (next, _) = within(waiting).await.unwrap().unwrap();
    assert_eq!(names(&next), all_but(dead));
    next.release().await.unwrap();
    end(world, [holder, waiter]).await;
}

#[test]
fn a_wait_survives_the_end_of_any_one_ensemble() {
    play_on(3, |world| waits_without(world, 0));
    play_on(3, |world| waits_without(world, 1));
    play_on(3, |world| waits_without(world, 2));
}

#[test]
fn a_hold_ends_with_the_majority_and_the_rest_is_given_up() {
    play_on(3, async |world| {
        let contender = Contender::new(&world, 0).await;
        let guard = contender.lock.acquire().await.unwrap();
        let mut state = guard.watch_state();
        for dead in [0, 1] {
            world.ensembles()[dead].stop(0);
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
        assert_eq!(world.ensembles()[2].children(PATH), Some(Vec::new()));
        assert!(matches!(guard.release().await, Err(Error::LockLost { .. })));
        let start = Instant::now();
        let tried = contender.lock.try_acquire().await;
        assert!(
            matches!(&tried, Err(error @ Error::NotConnected { .. }) if error.is_retryable()),
            "{tried:?}"
        );
        assert!(contender.lock.try_acquire_for(2 * BRIEF).await.is_err());
        assert!(start.elapsed() < 5 * BRIEF, "{:?}", start.elapsed());
        world.ensembles()[1].start(0);
        let again = within(contender.lock.acquire()).await.unwrap();
        assert_eq!(names(&again), NAMES[1..]);
        again.release().await.unwrap();
        end(world, [contender]).await;
    });
}

/// A holder that is cut off from two ensembles, which go on without it.
#[test]
fn a_holder_knows_of_its_loss_before_another_holds() {
    play_on(3, async |world| {
        let (holder, proxies) = Contender::through_proxies(&world).await;
        let other = Contender::new(&world, 1).await;
        for cut_off in [[0, 1], [0, 2], [1, 2]] {
            let guard = within(holder.lock.acquire()).await.unwrap();
            let next = other.acquiring();
            for index in cut_off {
                proxies[index].set_traffic(Traffic::black_hole());
            }
            within(guard.lost()).await;
            let lost_at = Instant::now();
            let (next, granted_at) = within(next).await.unwrap().unwrap();
            assert!(!guard.is_valid());
            assert!(lost_at <= granted_at, "{:?} late", lost_at - granted_at);
            for proxy in &proxies {
                proxy.set_traffic(Traffic::pass());
            }
            next.release().await.unwrap();
        }
        end(world, [holder, other]).await;
    });
}

/// With a majority, who holds only the rest is waited for only briefly.
#[test]
fn a_straggler_does_not_keep_a_majority_waiting() {
    const LONG: Duration = Duration::from_secs(60);
    play_on(3, async |world| {
        let (contender, straggler) = (Contender::new(&world, 0).await, Contender::new(&world, 1).await);
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
        end(world, [contender, straggler]).await;
    });
}

#[test]
fn an_ensemble_that_is_known_to_be_down_costs_no_time() {
    play_on(3, async |world| {
        let contender = Contender::new(&world, 0).await;
        world.ensembles()[0].stop(0);
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
        world.ensembles()[0].start(0);
        sleep(SESSION).await;
        assert_eq!(acquired().await.0, 3, "it is taken again");
        end(world, [contender]).await;
    });
}

fn is_closed<T: std::fmt::Debug>(outcome: Result<T>) {
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
}

#[test]
fn closing_the_clients_ends_an_acquire_that_finds_no_majority() {
    play_on(3, async |world| {
        let (contender, proxies) = Contender::through_proxies(&world).await;
        for proxy in &proxies[..2] {
            proxy.cut_off();
        }
        let tried = within(contender.lock.try_acquire()).await;
        assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
        let waiting = contender.tries();
        sleep(BRIEF).await;
        join_all(contender.clients.iter().map(Client::close)).await;
        sleep(A_MOMENT).await;
        assert!(waiting.is_finished());
        is_closed(waiting.await.unwrap());
        is_closed(within(contender.lock.try_acquire()).await);
        end(world, [contender]).await;
    });
}

/// Whether that member is already held or was not tried yet.
#[test]
fn closing_the_client_of_another_member_ends_a_wait() {
    play_on(3, async |world| {
        let mut contenders = vec![Contender::new(&world, 1).await];
        for closed in [0, 2] {
            let contender = Contender::new(&world, 0).await;
            let second = contenders[0].mutex(1).acquire().await.unwrap();
            let waiting = contender.tries();
            sleep(A_MOMENT).await;
            assert_eq!(queue(&world, 1), 2);
            contender.clients[closed].close().await;
            is_closed(within(waiting).await.unwrap());
            second.release().await.unwrap();
            empty_after(A_MOMENT, &world).await;
            contenders.push(contender);
        }
        end(world, contenders).await;
    });
}

/// As on a busy machine.
#[test]
fn a_caller_that_is_polled_late_is_not_told_that_others_have_a_free_lock() {
    play_on(3, async |world| {
        let (contender, proxies) = Contender::through_proxies(&world).await;
        let lock = contender.lock.with_response_timeout(PATIENT).unwrap();
        // Afterwards, a round trip is enough.
        lock.acquire().await.unwrap().release().await.unwrap();
        // The reply comes while no one polls.
        proxies[0].set_traffic(Traffic::pass().delay_to_client(BRIEF / 2));
        let mut trying = Box::pin(lock.try_acquire_for(BRIEF));
        while queue(&world, 0) == 0 {
            assert!(poll_once(&mut trying).is_pending());
            sleep(A_MOMENT / 20).await;
        }
        sleep(2 * BRIEF).await;
        let tried = within(trying).await;
        assert!(!matches!(tried, Ok(None)), "{tried:?}");
        drop(tried);
        end(world, [contender]).await;
    });
}

#[test]
fn a_caller_without_time_is_not_told_that_others_have_a_free_lock() {
    play_on(3, async |world| {
        let (contender, proxies) = Contender::through_proxies(&world).await;
        let lock = contender.lock.with_response_timeout(PATIENT).unwrap();
        for nanos in [1, 1_000, 10_000, 100_000, 300_000, 1_000_000, 2_000_000, 3_000_000] {
            let tried = lock.try_acquire_for(Duration::from_nanos(nanos)).await;
            match &tried {
                Ok(Some(_)) => {}
                Err(Error::NotConnected { hosts, .. }) => assert!(!hosts.is_empty(), "{nanos} ns"),
                _ => panic!("{nanos} ns: {tried:?}"),
            }
            drop(tried);
            empty_after(A_MOMENT, &world).await;
        }
        proxies.iter().for_each(|proxy| proxy.set_traffic(Traffic::black_hole()));
        for nanos in [1_000_000, 1_000, 1] {
            let tried = lock.try_acquire_for(Duration::from_nanos(nanos)).await;
            assert!(matches!(tried, Err(Error::NotConnected { .. })), "{nanos} ns: {tried:?}");
        }
        proxies.iter().for_each(|proxy| proxy.set_traffic(Traffic::pass()));
        end(world, [contender]).await;
    });
}

/// It knows that the first is not available, and loses the reply to its next request there.
#[test]
fn a_try_is_not_kept_by_an_ensemble_that_becomes_silent_in_between() {
    play_on(3, async |world| {
        let (contender, proxies) = Contender::through_proxies(&world).await;
        let other = Contender::new(&world, 1).await;
        let first = other.mutex(0).acquire().await.unwrap();
        let held = proxies[0].intercept(Request::Delete, Fate::HoldReply);
        let start = Instant::now();
        let guard = contender.lock.try_acquire().await.unwrap().expect("it has the others");
        let took = start.elapsed();
        assert!(took < BRIEF + A_MOMENT, "{took:?}");
        drop(held);
        guard.release().await.unwrap();
        first.release().await.unwrap();
        empty_after(A_MOMENT, &world).await;
        end(world, [contender, other]).await;
    });
}

#[test]
fn a_hold_survives_one_closed_client() {
    play_on(3, async |world| {
        let mut contenders = Vec::new();
        for closed in 0..3 {
            let contender = Contender::new(&world, 0).await;
            let guard = contender.lock.acquire().await.unwrap();
            let mut state = guard.watch_state();
            contender.clients[closed].close().await;
            within(guard.members().nth(closed).unwrap().1.lost()).await;
            assert!(guard.is_valid());
            contender.clients[(closed + 1) % 3].close().await;
            within(guard.lost()).await;
            within(state.wait_for(|state| state.is_lost())).await.unwrap();
            // As no one listens any more, the rest is given up when it is next looked after.
            empty_after(BRIEF, &world).await;
            assert!(guard.release().await.is_err());
            contenders.push(contender);
        }
        end(world, contenders).await;
    });
}

#[test]
fn members_that_give_up_when_in_doubt_are_lost_one_by_one() {
    play_on(3, async |world| {
        let (contender, proxies) = Contender::through_proxies(&world).await;
        let options = LockOptions::new().suspect_policy(SuspectPolicy::GiveUp);
        let guard = contender.lock.with_options(options).unwrap().acquire().await.unwrap();
        proxies[0].cut();
        within(guard.members().next().unwrap().1.lost()).await;
        assert!(guard.is_valid());
        proxies[1].cut();
        within(guard.lost()).await;
        // Before a session can end.
        empty_after(SESSION / 2, &world).await;
        drop(guard);
        end(world, [contender]).await;
    });
}

/// It is granted a member while no one polls it, and loses all of its sessions.
#[test]
fn a_caller_that_is_polled_late_does_not_believe_to_hold() {
    play_on(3, async |world| {
        let (contender, other) = (Contender::new(&world, 0).await, Contender::new(&world, 1).await);
        for blocked in 0..3 {
            let blocker = other.mutex(blocked).acquire().await.unwrap();
            let mut acquiring = Box::pin(contender.lock.acquire());
            while queue(&world, blocked) < 2 {
                assert!(poll_once(&mut acquiring).is_pending());
                sleep(A_MOMENT / 20).await;
            }
            blocker.release().await.unwrap();
            assert_eq!(queue(&world, blocked), 1);
            for (ensemble, client) in world.ensembles().iter().zip(&contender.clients) {
                assert!(ensemble.end_session(session_id(client).await));
            }
            empty_after(A_MOMENT, &world).await;
            let theirs = within(other.lock.acquire()).await.unwrap();
            let late = timeout(2 * BRIEF, acquiring.as_mut()).await;
            assert!(late.is_err(), "granted beside another: {late:?}");
            theirs.release().await.unwrap();
            let guard = within(acquiring).await.unwrap();
            assert!(guard.is_valid());
            guard.release().await.unwrap();
            empty_after(A_MOMENT, &world).await;
        }
        end(world, [contender, other]).await;
    });
}

/// The sessions go on, so nothing but the client itself releases the lock.
#[test]
fn what_is_dropped_while_no_ensemble_answers_is_released_afterwards() {
    play_on(3, async |world| {
        let (contender, proxies) = Contender::through_proxies(&world).await;
        let sessions = async || join_all(contender.clients.iter().map(session_id)).await;
        let before = sessions().await;
        for traffic in [Traffic::black_hole(), Traffic::black_hole_to_client()] {
            for is_dropped in [true, false] {
                let guard = within(contender.lock.acquire()).await.unwrap();
                proxies.iter().for_each(|proxy| proxy.set_traffic(traffic));
                if is_dropped {
                    drop(guard);
                } else {
                    let start = Instant::now();
                    assert!(guard.release().await.is_err());
                    takes(start, BRIEF);
                }
                proxies.iter().for_each(|proxy| proxy.set_traffic(Traffic::pass()));
                empty_after(SESSION / 2, &world).await;
            }
        }
        assert_eq!(sessions().await, before);
        end(world, [contender]).await;
    });
}
