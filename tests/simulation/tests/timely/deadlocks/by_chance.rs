//! Owners that take and want locks by chance.

use super::*;

/// What an owner holds and wants, as it takes note itself. It may be one that gives up.
#[derive(Debug, Default)]
struct Note {
    held: Vec<String>,
    wanted: Option<String>,
    is_impatient: bool,
}

type Notes = Rc<RefCell<HashMap<Owner, Note>>>;

/// Each in the cycle wants what the next one has or waits for.
fn is_a_deadlock(notes: &Notes, cycle: &[(Owner, String)]) {
    let notes = notes.borrow();
    let noted = |(owner, _): &(Owner, String)| notes.get(owner).filter(|note| !note.is_impatient);
    let Some(all) = cycle.iter().map(noted).collect::<Option<Vec<_>>>() else { return };
    // Otherwise, the place that it has left has let others go on meanwhile.
    if !all[0].held.iter().any(|held| held.contains(&cycle.last().unwrap().1)) {
        return;
    }
    for (index, (_, path)) in cycle.iter().enumerate() {
        let next = all[(index + 1) % cycle.len()];
        let is_wanted = all[index].wanted.as_ref().is_some_and(|wanted| wanted.contains(path));
        let is_in_the_way = next.held.iter().chain(&next.wanted).any(|place| place.contains(path));
        assert!(is_wanted && is_in_the_way, "{cycle:?} {notes:#?}");
    }
}

/// Owners that acquire all kinds of locks in any order, some of them impatient. If one deadlock were not found, they would
/// come to a standstill.
#[history]
async fn chaos_without_false_alarms_and_without_a_standstill(stage: Stage) {
    let client = stage.client(0).await;
    let rw = read_write(&client);
    let cohort = lock(&client, "d").with_options(detecting().cohort(3)).unwrap();
    let permits = Semaphore::new(&client, "/locks/s", 2).unwrap().with_options(detecting()).unwrap();
    let multi = MultiLock::new(&client, ["/locks/a", "/locks/b"]).unwrap().with_options(detecting()).unwrap();
    let mut locks: Vec<Lock> = vec![Arc::new(rw.read().clone()), Arc::new(rw.write().clone())];
    locks.extend(["a", "b", "c"].map(|name| Arc::new(lock(&client, name)) as Lock));
    locks.extend([Arc::new(cohort) as Lock, Arc::new(permits), Arc::new(multi)]);
    let (notes, until) = (Notes::default(), Instant::now() + secs(20));
    let (acquired, deadlocks, ended) = <(Rc<Cell<u32>>, Rc<Cell<u32>>, Rc<Cell<u32>>)>::default();
    let workers: Vec<_> = (0..12)
        .map(|_| {
            let (notes, locks) = (notes.clone(), locks.clone());
            let (acquired, deadlocks, ended) = (acquired.clone(), deadlocks.clone(), ended.clone());
            spawn_local(async move {
                while Instant::now() < until {
                    let (owner, mut held) = (Owner::new(), Vec::new());
                    for _ in 0..fastrand::usize(1..4) {
                        let lock = locks[fastrand::usize(..locks.len())].owned_by(&owner);
                        let (path, how, before) = (lock.paths().join(" "), fastrand::u8(..10), ended.get());
                        let note = |change: &dyn Fn(&mut Note)| {
                            change(notes.borrow_mut().entry(owner.clone()).or_default());
                        };
                        note(&|note| {
                            note.wanted = Some(path.clone());
                            note.is_impatient |= how == 1;
                        });
                        let outcome = match how {
                            0 => lock.try_acquire_for(ms(fastrand::u64(1..30))).await,
                            1 => poll_times(lock.acquire(), fastrand::usize(1..6)).await.transpose(),
                            _ => lock.acquire().await.map(Some),
                        };
                        if let Err(Error::WouldDeadlock { cycle, .. }) = &outcome
                            && !cycle.is_empty()
                        {
                            deadlocks.set(deadlocks.get() + 1);
                            // Otherwise, the others may have got what the session had.
                            if before % 2 == 0 && ended.get() == before {
                                let cycle =
                                    cycle.iter().map(|waits| (waits.owner.clone(), waits.path.clone()));
                                is_a_deadlock(&notes, &Vec::from_iter(cycle));
                            }
                        }
                        let is_held = matches!(&outcome, Ok(Some(_)));
                        note(&|note| {
                            note.wanted = None;
                            note.held.extend(is_held.then(|| path.clone()));
                        });
                        match outcome {
                            Ok(guard) => held.extend(guard),
                            // In so short a time, the servers may not have answered.
                            Err(Error::NotConnected { .. }) => {}
                            Err(Error::WouldDeadlock { .. } | Error::LockLost { .. }) => break,
                            Err(error) => panic!("{error}"),
                        }
                        acquired.set(acquired.get() + 1);
                    }
                    drop(held);
                    notes.borrow_mut().remove(&owner);
                }
            })
        })
        .collect();
    for _ in 0..3 {
        sleep(secs(5)).await;
        // Odd until all have noticed.
        ended.set(ended.get() + 1);
        assert!(stage.servers().end_session(session_id(&client).await));
        sleep(secs(1)).await;
        ended.set(ended.get() + 1);
    }
    for worker in workers {
        timeout(BOUND, worker).await.unwrap_or_else(|_| panic!("a standstill: {notes:#?}")).unwrap();
    }
    assert!(acquired.get() > 100 && deadlocks.get() > 10, "{acquired:?} acquired, {deadlocks:?} deadlocks");
    sleep(SOON).await;
}
