//! What a holder does.

use super::*;

/// Returns for how long a holder holds: some hold long, most do not.
pub(super) fn hold_time(holds_long: bool) -> Duration {
    let longest = if chance(if holds_long { 12 } else { 2 }) { 8_000_000 } else { 3_000 };
    Duration::from_micros(fastrand::u64(0..longest))
}

pub(super) async fn hold(
    world: &World,
    contended: &Contended,
    who: &str,
    guard: LockGuard,
    asked: Instant,
    holds_long: bool,
) {
    let guard = Rc::new(guard);
    granted(world, contended, who, &guard, asked);
    let time = hold_time(holds_long);
    if let Some(register) = register_of(contended.path).filter(|_| chance(80)) {
        sleep(time / 2).await;
        let write = guard.transaction().set_data(register, judge::to_data(token(&guard)), None);
        let written = world.chancy(write.commit(), Duration::from_secs(20)).await;
        count(
            match written {
                Some(Ok(_)) => "writes",
                Some(Err(Error::OutcomeUnknown { .. })) => "writes in doubt",
                Some(Err(_)) => "writes refused",
                None => "writes given up",
            },
            1,
        );
    }
    let mut downgraded = None;
    if let Some(lock) = contended.both.as_ref().filter(|_| contended.kind == Kind::Write && chance(100)) {
        downgraded = downgrade(world, lock, who, &guard).await;
    }
    if contended.is_reentrant() && chance(40) {
        match timeout(Duration::from_secs(10), contended.lock.acquire()).await {
            Ok(Ok(again)) => {
                count("re-entered", 1);
                if again.fencing_token() != guard.fencing_token() {
                    violation(format!("{who} has entered again, with another token"));
                }
            }
            Ok(Err(_)) => {}
            Err(_) if guard.is_valid() && world.plan().is_punctual() => {
                violation(format!("{who}: a re-entry takes more than 10 s"));
            }
            Err(_) => {}
        }
    }
    sleep(time).await;
    let is_lost = !guard.is_valid();
    let is_told =
        is_lost && time > Duration::from_millis(1) && downgraded.is_none() && contended.owner.is_none();
    if is_lost {
        count("lost", 1);
    }
    // A read that is begun before the writer goes, and awaited or not.
    let mut reading = None;
    if let Some(both) = contended.both.as_ref().filter(|_| contended.kind == Kind::Write && chance(60)) {
        let read = both.read().clone();
        let mut begun = Box::pin(async move { read.acquire().await });
        match crate::dropped::after(fastrand::u32(1..6), &mut begun).await {
            Some(Ok(reader)) => drop(reads(who, reader)),
            Some(Err(_)) => {}
            None => reading = Some(begun),
        }
    }
    // It is not shared any more: the others have a weak one.
    let Ok(guard) = Rc::try_unwrap(guard) else { return };
    if fastrand::bool() {
        note(|| format!("{who} drops {}", contended.path));
        // Of several permits one after the other.
        guard.into_permits().into_iter().for_each(drop);
    } else {
        match world.chancy(guard.release(), Duration::from_secs(60)).await {
            Some(Ok(())) if is_told => {
                violation(format!("{who}: release of what was lost is Ok"));
            }
            Some(Ok(()) | Err(Error::LockLost { .. })) => {}
            Some(Err(_)) => count("release errors", 1),
            None => count("releases given up", 1),
        }
    }
    if let Some(reading) = reading.filter(|_| fastrand::bool())
        && let Ok(Ok(reader)) = timeout(Duration::from_secs(20), reading).await
    {
        count("read after writing", 1);
        downgraded = Some(reads(who, reader));
    }
    if let Some(reader) = downgraded {
        sleep(Duration::from_micros(fastrand::u64(0..3_000))).await;
        drop(reader);
    }
}

/// A reader that was a writer. No one else writes.
fn reads(who: &str, reader: LockGuard) -> Rc<LockGuard> {
    let reader = Rc::new(reader);
    let guard = Rc::downgrade(&reader);
    let who = format!("{who}, downgraded,");
    let kept = guard.clone();
    judge::keep(reader.node_path(), who.clone(), move || is_valid(&kept));
    HOLDERS.with_borrow_mut(|holders| {
        let writes = |other: &&Holder| {
            other.path == "/rw" && other.is_exclusive && !who.starts_with(&other.who) && (other.is_valid)()
        };
        if let Some(writer) = holders.valid.iter().find(writes).filter(|_| is_valid(&guard)) {
            violation(format!("{who} reads beside {}", writer.who));
        }
        let is_valid = Box::new(move || is_valid(&guard));
        let holder = Holder { path: "/rw", weight: 1, is_exclusive: false, owner: None, who, is_valid };
        holders.valid.push(holder);
    });
    reader
}

/// Takes the read lock while the write lock is held.
async fn downgrade(
    world: &World,
    lock: &ReadWriteLock,
    who: &str,
    writer: &Rc<LockGuard>,
) -> Option<Rc<LockGuard>> {
    match timeout(Duration::from_secs(10), lock.read().acquire()).await {
        Ok(Ok(reader)) => {
            count("downgrades", 1);
            Some(reads(who, reader))
        }
        Ok(Err(_)) => {
            count("downgrade errors", 1);
            None
        }
        Err(_) => {
            if writer.is_valid() && world.plan().is_punctual() && !world.plan().has(Fault::DeletePath) {
                violation(format!("{who}: a downgrade takes more than 10 s"));
            }
            None
        }
    }
}
