//! Clients that are closed, polled late, or have adopted their sessions.

use super::*;

fn is_closed<T: std::fmt::Debug>(outcome: Result<T>) {
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
}

#[history(ensembles = 3)]
async fn closing_the_clients_ends_an_acquire_that_finds_no_majority(stage: Stage) {
    let (contender, proxies) = Contender::through_proxies(&stage).await;
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
    end(&stage).await;
}

/// Whether that member is already held or was not tried yet.
#[history(ensembles = 3)]
async fn closing_the_client_of_another_member_ends_a_wait(stage: Stage) {
    let other = Contender::new(&stage, 1).await;
    for closed in [0, 2] {
        let contender = Contender::new(&stage, 0).await;
        let second = other.mutex(1).acquire().await.unwrap();
        let waiting = contender.tries();
        sleep(A_MOMENT).await;
        assert_eq!(queue(&stage, 1), 2);
        contender.clients[closed].close().await;
        is_closed(within(waiting).await.unwrap());
        second.release().await.unwrap();
        empty_after(A_MOMENT, &stage).await;
    }
    end(&stage).await;
}

/// As on a busy machine.
#[history(ensembles = 3)]
async fn a_caller_that_is_polled_late_is_not_told_that_others_have_a_free_lock(stage: Stage) {
    let (contender, proxies) = Contender::through_proxies(&stage).await;
    let lock = contender.lock.with_response_timeout(PATIENT).unwrap();
    // Afterwards, a round trip is enough.
    lock.acquire().await.unwrap().release().await.unwrap();
    // The reply comes while no one polls.
    proxies[0].set_traffic(Traffic::pass().delay_to_client(BRIEF / 2));
    let mut trying = Box::pin(lock.try_acquire_for(BRIEF));
    while queue(&stage, 0) == 0 {
        assert!(poll_once(&mut trying).is_pending());
        sleep(A_MOMENT / 20).await;
    }
    sleep(2 * BRIEF).await;
    let tried = within(trying).await;
    assert!(!matches!(tried, Ok(None)), "{tried:?}");
    drop(tried);
    end(&stage).await;
}

#[history(ensembles = 3)]
async fn a_caller_without_time_is_not_told_that_others_have_a_free_lock(stage: Stage) {
    let (contender, proxies) = Contender::through_proxies(&stage).await;
    let lock = contender.lock.with_response_timeout(PATIENT).unwrap();
    for nanos in [1, 1_000, 10_000, 100_000, 300_000, 1_000_000, 2_000_000, 3_000_000] {
        let tried = lock.try_acquire_for(Duration::from_nanos(nanos)).await;
        match &tried {
            Ok(Some(_)) => {}
            Err(Error::NotConnected { hosts, .. }) => assert!(!hosts.is_empty(), "{nanos} ns"),
            _ => panic!("{nanos} ns: {tried:?}"),
        }
        drop(tried);
        empty_after(A_MOMENT, &stage).await;
    }
    proxies.iter().for_each(|proxy| proxy.set_traffic(Traffic::black_hole()));
    for nanos in [1_000_000, 1_000, 1] {
        let tried = lock.try_acquire_for(Duration::from_nanos(nanos)).await;
        assert!(matches!(tried, Err(Error::NotConnected { .. })), "{nanos} ns: {tried:?}");
    }
    proxies.iter().for_each(|proxy| proxy.set_traffic(Traffic::pass()));
    end(&stage).await;
}

/// It knows that the first is not available, and loses the reply to its next request there.
#[history(ensembles = 3)]
async fn a_try_is_not_kept_by_an_ensemble_that_becomes_silent_in_between(stage: Stage) {
    let (contender, proxies) = Contender::through_proxies(&stage).await;
    let other = Contender::new(&stage, 1).await;
    let first = other.mutex(0).acquire().await.unwrap();
    let held = proxies[0].intercept(Request::Delete, Fate::HoldReply);
    let start = Instant::now();
    let guard = contender.lock.try_acquire().await.unwrap().expect("it has the others");
    let took = start.elapsed();
    assert!(took < BRIEF + A_MOMENT, "{took:?}");
    drop(held);
    guard.release().await.unwrap();
    first.release().await.unwrap();
    empty_after(A_MOMENT, &stage).await;
    end(&stage).await;
}

#[history(ensembles = 3)]
async fn a_hold_survives_one_closed_client(stage: Stage) {
    for closed in 0..3 {
        let contender = Contender::new(&stage, 0).await;
        let guard = contender.lock.acquire().await.unwrap();
        let mut state = guard.watch_state();
        contender.clients[closed].close().await;
        within(guard.members().nth(closed).unwrap().1.lost()).await;
        assert!(guard.is_valid());
        contender.clients[(closed + 1) % 3].close().await;
        within(guard.lost()).await;
        within(state.wait_for(|state| state.is_lost())).await.unwrap();
        // As no one listens any more, the rest is given up when it is next looked after.
        empty_after(BRIEF, &stage).await;
        assert!(guard.release().await.is_err());
    }
    end(&stage).await;
}

#[history(ensembles = 3)]
async fn members_that_give_up_when_in_doubt_are_lost_one_by_one(stage: Stage) {
    let (contender, proxies) = Contender::through_proxies(&stage).await;
    let options = LockOptions::new().suspect_policy(SuspectPolicy::GiveUp);
    let guard = contender.lock.with_options(options).unwrap().acquire().await.unwrap();
    proxies[0].cut();
    within(guard.members().next().unwrap().1.lost()).await;
    assert!(guard.is_valid());
    proxies[1].cut();
    within(guard.lost()).await;
    // Before a session can end.
    empty_after(SESSION / 2, &stage).await;
    drop(guard);
    end(&stage).await;
}

/// It is granted a member while no one polls it, and loses all of its sessions.
#[history(ensembles = 3)]
async fn a_caller_that_is_polled_late_does_not_believe_to_hold(stage: Stage) {
    let (contender, other) = (Contender::new(&stage, 0).await, Contender::new(&stage, 1).await);
    for blocked in 0..3 {
        let blocker = other.mutex(blocked).acquire().await.unwrap();
        let mut acquiring = Box::pin(contender.lock.acquire());
        while queue(&stage, blocked) < 2 {
            assert!(poll_once(&mut acquiring).is_pending());
            sleep(A_MOMENT / 20).await;
        }
        blocker.release().await.unwrap();
        assert_eq!(queue(&stage, blocked), 1);
        for (ensemble, client) in stage.ensembles().iter().zip(&contender.clients) {
            assert!(ensemble.end_session(session_id(client).await));
        }
        empty_after(A_MOMENT, &stage).await;
        let theirs = within(other.lock.acquire()).await.unwrap();
        let late = timeout(2 * BRIEF, acquiring.as_mut()).await;
        assert!(late.is_err(), "granted beside another: {late:?}");
        theirs.release().await.unwrap();
        let guard = within(acquiring).await.unwrap();
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        empty_after(A_MOMENT, &stage).await;
    }
    end(&stage).await;
}

/// The sessions go on, so nothing but the client itself releases the lock.
#[history(ensembles = 3)]
async fn what_is_dropped_while_no_ensemble_answers_is_released_afterwards(stage: Stage) {
    let (contender, proxies) = Contender::through_proxies(&stage).await;
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
            empty_after(SESSION / 2, &stage).await;
        }
    }
    assert_eq!(sessions().await, before);
    end(&stage).await;
}

#[history(ensembles = 3)]
async fn waiters_are_let_in_as_they_came(stage: Stage) {
    let (first, second) = (Contender::new(&stage, 0).await, Contender::new(&stage, 1).await);
    let mut holder = first.lock.acquire().await.unwrap();
    let mut waiting = Vec::new();
    for contender in [&second, &first, &second] {
        waiting.push(contender.tries());
        sleep(A_MOMENT).await;
    }
    // They wait for the first member, and have entered no other queue.
    assert_eq!([0, 1, 2].map(|ensemble| queue(&stage, ensemble)), [4, 1, 1]);
    for next in waiting {
        assert!(!next.is_finished());
        holder.release().await.unwrap();
        holder = within(next).await.unwrap().unwrap();
        assert_eq!(names(&holder), NAMES);
    }
    drop(holder);
    end(&stage).await;
}

/// One that reaches only the last ensemble, which another waits for while it holds the others, gives it up.
#[history(ensembles = 3)]
async fn a_contender_that_reaches_a_minority_does_not_block_others(stage: Stage) {
    let (cut_off, proxies) = Contender::through_proxies(&stage).await;
    let other = Contender::new(&stage, 1).await;
    let patient = other.lock.with_response_timeout(PATIENT).unwrap();
    proxies[..2].iter().for_each(Proxy::cut_off);
    let waiting = cut_off.tries();
    for _ in 0..5 {
        let guard = within(patient.acquire()).await.unwrap();
        // As the last one is never held by whoever waits for anything, it need not even do without.
        assert_eq!(names(&guard), NAMES);
        guard.release().await.unwrap();
    }
    assert!(!waiting.is_finished());
    proxies[..2].iter().for_each(|proxy| proxy.refuse_connections(false));
    let guard = within(waiting).await.unwrap().unwrap();
    assert!(guard.members().count() >= 2);
    guard.release().await.unwrap();
    end(&stage).await;
}

#[history(ensembles = 3)]
async fn what_is_lost_during_the_wait_does_not_count(stage: Stage) {
    let (mut waiter, other) = (Contender::new(&stage, 0).await, Contender::new(&stage, 1).await);
    waiter.lock = waiter.lock.with_response_timeout(PATIENT).unwrap();
    let loses_session = async |member: usize| {
        let session = session_id(&waiter.clients[member]).await;
        assert!(stage.ensembles()[member].end_session(session));
    };
    let waits_for_the_second = async || {
        sleep(A_MOMENT).await;
        assert_eq!([queue(&stage, 0), queue(&stage, 1)], [1, 2], "and holds the first");
    };
    let second = other.mutex(1).acquire().await.unwrap();
    let waiting = waiter.tries();
    waits_for_the_second().await;
    loses_session(0).await;
    let first = within(other.mutex(0).acquire()).await.unwrap();
    second.release().await.unwrap();
    let guard = within(waiting).await.unwrap().unwrap();
    assert_eq!(names(&guard), NAMES[1..]);
    guard.release().await.unwrap();
    first.release().await.unwrap();

    // If that leaves no majority, it starts over, and waits for the first again.
    let [second, third] = [1, 2].map(|member| other.mutex(member));
    let (second, third) = (second.acquire().await.unwrap(), third.acquire().await.unwrap());
    let waiting = waiter.tries();
    waits_for_the_second().await;
    assert!(stage.ensembles()[0].delete(&nodes(&stage.ensembles()[0], PATH)[0]));
    let first = within(other.mutex(0).acquire()).await.unwrap();
    second.release().await.unwrap();
    sleep(A_MOMENT).await;
    assert_eq!(queue(&stage, 2), 2, "it has the second, and waits for the third, which it needs");
    loses_session(1).await;
    sleep(crate::prelude::SOON).await;
    assert_eq!([queue(&stage, 2), queue(&stage, 0)], [1, 2]);
    first.release().await.unwrap();
    third.release().await.unwrap();
    assert_eq!(names(&within(waiting).await.unwrap().unwrap()), NAMES);
    end(&stage).await;
}

/// Its session may be valid for a while, but the servers may be about to end it.
#[history(ensembles = 3)]
async fn a_member_that_is_out_of_reach_in_the_end_does_not_count(stage: Stage) {
    let (contender, proxies) = Contender::through_proxies(&stage).await;
    let other = Contender::new(&stage, 1).await;
    let [second, third] = [1, 2].map(|member| other.mutex(member));
    let (second, third) = (second.acquire().await.unwrap(), third.acquire().await.unwrap());
    let waiting = contender.tries();
    sleep(A_MOMENT).await;
    assert_eq!([0, 1, 2].map(|ensemble| queue(&stage, ensemble)), [1, 2, 1], "it holds the first");
    proxies[0].cut_off();
    second.release().await.unwrap();
    sleep(SESSION / 2).await;
    assert!(!waiting.is_finished());
    third.release().await.unwrap();
    let guard = within(waiting).await.unwrap().unwrap();
    assert_eq!(names(&guard), NAMES[1..]);
    guard.release().await.unwrap();
    proxies[0].refuse_connections(false);
    end(&stage).await;
}

#[history(ensembles = 3)]
async fn a_release_reports_a_lost_majority(stage: Stage) {
    let contender = Contender::new(&stage, 0).await;
    for (deleted, is_lost) in [(0, false), (1, false), (2, true), (3, true)] {
        let guard = contender.lock.acquire().await.unwrap();
        for (servers, (_, member)) in stage.ensembles().iter().zip(guard.members()).take(deleted) {
            assert!(servers.delete(member.node_path()));
        }
        let released = guard.release().await;
        assert_eq!(released.is_err(), is_lost, "{deleted} were deleted: {released:?}");
        empty_after(A_MOMENT, &stage).await;
    }
    end(&stage).await;
}

// --- Sessions of the caller's ---

/// Clients of the caller's sessions, and their lock.
async fn adopting(addresses: impl IntoIterator<Item = String>) -> (Vec<zk::Client>, Vec<Client>, QuorumLock) {
    let sessions = join_all(addresses.into_iter().map(async |address| own_session(&address).await)).await;
    let clients = sessions.iter().map(|session| Client::from_zookeeper(session.clone()).unwrap());
    let clients: Vec<_> = clients.collect();
    let ensembles = Ensembles::new(NAMES.into_iter().zip(clients.iter().cloned())).unwrap();
    let lock = QuorumLock::new(&ensembles, PATH).unwrap().with_response_timeout(BRIEF).unwrap();
    (sessions, clients, lock)
}

fn addresses(stage: &Stage) -> [String; 3] {
    [0, 1, 2].map(|ensemble| stage.address_of(ensemble))
}

fn end_session(stage: &Stage, sessions: &[zk::Client], member: usize) {
    assert!(stage.ensembles()[member].end_session(sessions[member].session_id().0));
}

/// They go on when the clients are closed.
#[history(ensembles = 3, 1, 3)]
async fn adopted_sessions_keep_nothing(stage: Stage, closed: usize) {
    let (_sessions, clients, lock) = adopting(addresses(&stage)).await;
    let guard = within(lock.acquire()).await.unwrap();
    join_all(clients[..closed].iter().map(Client::close)).await;
    assert_eq!(guard.is_valid(), closed == 1);
    drop(guard);
    empty_after(A_MOMENT, &stage).await;
}

/// "That an ensemble cannot be reached is no error", also if that is for good; but then no majority will ever be held.
#[history(ensembles = 3)]
async fn an_adopted_session_that_is_over_costs_only_its_member(stage: Stage) {
    let (sessions, _clients, lock) = adopting(addresses(&stage)).await;
    let guard = within(lock.acquire()).await.unwrap();
    end_session(&stage, &sessions, 1);
    within(guard.members().nth(1).unwrap().1.lost()).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    let guard = within(lock.acquire()).await.unwrap();
    let waiter = lock.clone();
    let waiting = spawn_local(async move { waiter.acquire().await });
    sleep(A_MOMENT).await;
    end_session(&stage, &sessions, 0);
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::SessionOver { .. }), "{error}");
    assert!(!guard.is_valid());
}

/// That they did not answer before does not matter.
#[history(ensembles = 3)]
async fn adopted_sessions_that_were_silent_before_they_ended_end_the_wait(stage: Stage) {
    let proxies = join_all((0..3).map(|ensemble| stage.proxy(ensemble))).await;
    let (sessions, clients, lock) = adopting(proxies.iter().map(|proxy| proxy.address.clone())).await;
    proxies[..2].iter().for_each(Proxy::cut_off);
    for client in &clients[..2] {
        disconnected(client).await;
    }
    let tried = within(lock.try_acquire()).await;
    assert!(matches!(tried, Err(Error::NotConnected { .. })), "{tried:?}");
    for member in [0, 1] {
        end_session(&stage, &sessions, member);
        proxies[member].refuse_connections(false);
    }
    let ended = within(lock.acquire()).await;
    assert!(matches!(ended, Err(Error::SessionOver { .. })), "{ended:?}");
}
