//! Owners that acquire locks of all kinds in any order, or in one.

use super::*;

/// Who holds and who wants what, as those who do it take note.
#[derive(Debug, Default)]
struct Notes(Mutex<HashMap<Owner, Note>>);

#[derive(Debug, Default)]
struct Note {
    held: Vec<String>,
    wanted: Option<String>,
    /// It may have given up since.
    is_impatient: bool,
}

impl Notes {
    fn of(&self, owner: &Owner, note: impl FnOnce(&mut Note)) {
        note(self.0.lock().unwrap().entry(owner.clone()).or_default());
    }

    fn assert_deadlock(&self, error: &Error) {
        let Error::WouldDeadlock { cycle, .. } = error else { panic!("{error}") };
        let notes = self.0.lock().unwrap();
        let noted = |owner: &Owner| notes.get(owner).filter(|note| !note.is_impatient);
        let all: Option<Vec<_>> = cycle.iter().map(|waits| noted(&waits.owner)).collect();
        let Some(all) = all else { return };
        // Otherwise, the place that it has left has let others go on meanwhile.
        let last = cycle.last().unwrap();
        if !all[0].held.iter().any(|held| held.contains(&last.path)) {
            return;
        }
        for (index, waits) in cycle.iter().enumerate() {
            let wanted = all[index].wanted.as_ref();
            assert!(wanted.is_some_and(|wanted| wanted.contains(&waits.path)), "{error} {notes:#?}");
            let next = all[(index + 1) % cycle.len()];
            let mut places = next.held.iter().chain(&next.wanted);
            assert!(places.any(|place| place.contains(&waits.path)), "{error} {notes:#?}");
        }
    }
}

/// All kinds of locks.
fn kinds(client: &Client) -> Vec<Arc<dyn InterProcessLock>> {
    let rw = ReadWriteLock::new(client, "/locks/rw").unwrap().with_options(detecting()).unwrap();
    let permits = Semaphore::new(client, "/locks/permits", 2).unwrap().with_options(detecting()).unwrap();
    let cohort = lock(client, "d").with_options(detecting().cohort(3)).unwrap();
    vec![
        Arc::new(lock(client, "a")),
        Arc::new(lock(client, "b")),
        Arc::new(lock(client, "c")),
        Arc::new(cohort),
        Arc::new(rw.read().clone()),
        Arc::new(rw.write().clone()),
        Arc::new(permits),
        Arc::new(
            MultiLock::new(client, ["/locks/a", "/locks/b"]).unwrap().with_options(detecting()).unwrap(),
        ),
    ]
}

/// Owners that acquire all kinds of locks in any order, some of them impatient. If one deadlock were not found, they would
/// come to a standstill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chaos_without_false_alarms_and_without_a_standstill() {
    let (_server, _, [client]) = server_with_clients().await;
    let until = Instant::now() + secs(if is_thorough() { 20 } else { 3 });
    let notes = Arc::new(Notes::default());
    let [acquired, refused, kills] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let workers = (0..12).map(|number| {
        let (notes, acquired, refused) = (notes.clone(), acquired.clone(), refused.clone());
        let kills = kills.clone();
        let locks = kinds(&client);
        let mut random = fastrand::Rng::with_seed(seed + number);
        tokio::spawn(async move {
            while Instant::now() < until {
                let owner = Owner::new();
                let mut held = Vec::new();
                for _ in 0..random.usize(1..4) {
                    let lock = &locks[random.usize(..locks.len())];
                    let path = lock.paths().join(" ");
                    let how = random.u8(..10);
                    notes.of(&owner, |note| {
                        note.wanted = Some(path.clone());
                        note.is_impatient |= how == 1;
                    });
                    let lock = lock.owned_by(&owner);
                    let kills_before = kills.load(SeqCst);
                    let outcome = match how {
                        0 => lock.try_acquire_for(ms(random.u64(1..30))).await,
                        1 => match poll_times(lock.acquire(), random.usize(1..6)).await {
                            Some(outcome) => outcome.map(Some),
                            None => Ok(None),
                        },
                        _ => lock.acquire().await.map(Some),
                    };
                    if let Err(error @ Error::WouldDeadlock { cycle, .. }) = &outcome
                        && !cycle.is_empty()
                    {
                        refused.fetch_add(1, SeqCst);
                        // Otherwise, the others may have got what the session had.
                        if kills_before % 2 == 0 && kills.load(SeqCst) == kills_before {
                            notes.assert_deadlock(error);
                        }
                    }
                    notes.of(&owner, |note| {
                        note.wanted = None;
                        note.held.extend(matches!(&outcome, Ok(Some(_))).then_some(path));
                    });
                    match outcome {
                        Ok(Some(guard)) => held.push(guard),
                        // In so short a time, the servers may not have answered.
                        Ok(None) | Err(Error::NotConnected { .. }) => {}
                        Err(Error::WouldDeadlock { .. } | Error::LockLost { .. }) => break,
                        Err(error) => panic!("{error}"),
                    }
                    acquired.fetch_add(1, SeqCst);
                }
                drop(held);
                notes.0.lock().unwrap().remove(&owner);
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    while Instant::now() + secs(10) < until {
        sleep(secs(7)).await;
        // Odd until all have noticed.
        kills.fetch_add(1, SeqCst);
        let killed = session_id(&client).await;
        kill_session(&client).await.unwrap();
        eventually("a new session", || async { (session_id(&client).await != killed).then_some(()) }).await;
        sleep(secs(1)).await;
        kills.fetch_add(1, SeqCst);
    }
    tokio::time::sleep_until(until.into()).await;
    let all = futures_util::future::try_join_all(workers);
    match timeout(BOUND, all).await {
        Ok(ended) => drop(ended.unwrap()),
        Err(_) => panic!("a standstill: {:#?}", notes.0.lock().unwrap()),
    }
    let (acquired, refused) = (acquired.load(SeqCst), refused.load(SeqCst));
    println!("{acquired} acquired, {refused} deadlocks, {} sessions killed", kills.load(SeqCst) / 2);
    assert!(acquired > 0 && refused > 0);
}
