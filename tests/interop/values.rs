//! Values and counters.

use std::cell::Cell;
use std::collections::BTreeSet;

use tokio::sync::Mutex;

use crate::interop::prelude::*;

/// Waits until Curator has heard of a change.
async fn sees(actor: Actor, value: &str) -> Actor {
    let actor = Mutex::new(actor);
    eventually("Curator sees it", async || (actor.lock().await.call("get").await == value).then_some(()))
        .await;
    actor.into_inner()
}

pub(crate) async fn shared_values_are_shared(generation: Generation) {
    let stage = Stage::set(generation).await;
    let java = stage.curator("java").await;
    let client = stage.client("rust").await;

    // Whoever comes first makes it.
    let mut java_value = java.open("a", "value /value seed=java").await;
    let value = SharedValue::new(&client, "/value", "rust").unwrap();
    assert_eq!(value.get().await.unwrap(), b"java");
    let ours = SharedValue::new(&client, "/ours", "rust").unwrap();
    ours.get().await.unwrap();
    assert_eq!(java.open("b", "value /ours seed=java").await.call("get").await, "rust");

    // Each sees what the other writes, and writes over what it has seen only.
    let mut states = value.watch_state();
    let seen = value.get_versioned().await.unwrap();
    java_value.call("set one").await;
    within(states.wait_for(|state| state.current().is_some_and(|value| value == b"one"))).await.unwrap();
    let current = value.compare_and_set(&seen, "late").await.unwrap().unwrap_err();
    assert_eq!(current.value(), b"one");
    value.compare_and_set(&current, "two").await.unwrap().unwrap();
    let mut java_value = sees(java_value, "two").await;
    assert_eq!(java_value.call("exchange two three").await, "true");
    assert_eq!(value.get().await.unwrap(), b"three");
    value.update(|old| [old, b"!"].concat()).await.unwrap();
    let mut java_value = sees(java_value, "three!").await;
    java_value.call("set four").await;
    within(states.wait_for(|state| matches!(state, SharedState::Known(value) if value.value() == b"four")))
        .await
        .unwrap();
}

pub(crate) async fn shared_counts_are_compared(generation: Generation) {
    let stage = Stage::set(generation).await;
    let java = stage.curator("java").await;
    let client = stage.client("rust").await;
    let java_count = java.open("a", "count /count seed=2").await;
    let count = SharedCount::new(&client, "/count", 7).unwrap();
    let seen = count.get_versioned().await.unwrap();
    let seen = count.compare_and_set(&seen, 3).await.unwrap().unwrap();
    let mut java_count = sees(java_count, "3").await;
    assert_eq!(java_count.call("exchange 3 -4").await, "true");
    assert_eq!(count.compare_and_set(&seen, 5).await.unwrap().unwrap_err().value(), &-4);
    assert_eq!(count.update(|count| count * 2).await.unwrap().value(), &-8);
    sees(java_count, "-8").await;
}

pub(crate) async fn atomic_numbers_are_shared(generation: Generation) {
    let stage = Stage::set(generation).await;
    let java = stage.curator("java").await;
    let client = stage.client("rust").await;
    let number = DistributedAtomicLong::new(&client, "/number").unwrap();
    let mut java_number = java.open("a", "atomic_long /number").await;
    // A missing node is zero for both.
    assert_eq!((java_number.call("get").await.as_str(), number.get().await), ("0", Ok(0)));
    assert_eq!(number.increment().await, Ok(1));
    assert_eq!(java_number.call("add 41").await, "42");
    assert_eq!(number.add(-100).await, Ok(-58));
    assert_eq!(java_number.call("get").await, "-58");
    assert_eq!(java_number.call("exchange -58 7").await, "true");
    assert_eq!(number.compare_exchange(7, i64::MAX).await, Ok(Ok(7)));
    assert_eq!(java_number.call("exchange 7 8").await, "false");
    assert_eq!(java_number.call("get").await, i64::MAX.to_string());
    java_number.call("set 5").await;
    assert_eq!(number.fetch_update(|old| old.checked_mul(2)).await, Ok(Ok(5)));
    assert_eq!(
        (java_number.call("initialize 1").await.as_str(), number.initialize(1).await),
        ("false", Ok(false))
    );
    // Made by Curator.
    let number = DistributedAtomicLong::new(&client, "/of-java").unwrap();
    let mut java_number = java.open("b", "atomic_long /of-java").await;
    assert_eq!(java_number.call("add 3").await, "3");
    assert_eq!(number.fetch_add(1).await, Ok(3));
    // Blocks lie beside what Curator draws.
    let ids = CachedAtomicLong::new(&number, 10).unwrap();
    assert_eq!(ids.next().await, Ok(4));
    assert_eq!(java_number.call("add 1").await, "15");
    assert_eq!(number.get().await, Ok(15));
}

pub(crate) async fn atomic_values_are_shared(generation: Generation) {
    let stage = Stage::set(generation).await;
    let java = stage.curator("java").await;
    let client = stage.client("rust").await;
    let value = DistributedAtomicValue::new(&client, "/value").unwrap();
    let mut java_value = java.open("a", "atomic_value /value").await;
    assert_eq!(java_value.call("initialize one").await, "true");
    assert_eq!(value.initialize("two").await, Ok(false));
    assert_eq!(value.compare_exchange(Some(b"one"), "two").await, Ok(Ok(Some(b"one".to_vec()))));
    assert_eq!(java_value.call("exchange one three").await, "false");
    assert_eq!(java_value.call("exchange two three").await, "true");
    assert_eq!(value.swap("four").await, Ok(Some(b"three".to_vec())));
    assert_eq!(java_value.call("get").await, "four");
    java_value.call("set five").await;
    assert_eq!(value.get().await, Ok(Some(b"five".to_vec())));
}

/// Also when those who keep failing line up at one lock.
pub(crate) async fn nothing_is_lost_when_all_count(generation: Generation) {
    const TIMES: usize = 40;
    let stage = Stage::set(generation).await;
    let (java, client) = (stage.curator("java").await, stage.client("rust").await);
    for lock in [None, Some("/lock")] {
        let path = format!("/number{}", lock.unwrap_or_default());
        let options = AtomicOptions::new().timeout(secs(60));
        let options = lock.map_or(options.clone(), |lock| options.promoted_to_lock(lock));
        let number = DistributedAtomicLong::new(&client, &path).unwrap().with_options(options).unwrap();
        let open = format!("atomic_long {path} {}", lock.map_or("", |_| "lock=/lock"));
        let peers = [format!("a{path}"), format!("b{path}")];
        let mut peers = join_all(peers.iter().map(|name| java.open(name, open.trim_end()))).await;
        for peer in &peers {
            peer.send(&format!("count_up {TIMES}"));
        }
        let ours = (0..3).map(async |_| {
            let mut sums = Vec::new();
            for _ in 0..TIMES {
                sums.push(number.increment().await.unwrap());
            }
            sums
        });
        let mut sums = within(join_all(ours)).await.concat();
        for peer in &mut peers {
            sums.extend(peer.answer().await.split(' ').map(|sum| sum.parse::<i64>().unwrap()));
        }
        sums.sort();
        let all = 5 * TIMES as i64;
        assert_eq!((sums, number.get().await), ((1..=all).collect(), Ok(all)));
    }
}

/// Each change makes a number one greater, or a text one letter longer. One in three requests or
/// replies of ours is lost.
pub(crate) async fn nothing_is_lost_or_done_twice_beside_curator(generation: Generation) {
    const TIMES: usize = 30;
    let stage = Stage::set(generation).await;
    let java = stage.curator("java").await;
    let proxy = FaultProxy::start(stage.server.connect_string()).await.unwrap();
    let client = connect_through(&proxy).await;
    for (kind, open, before) in [
        ("value", "value /value seed=x", 1),
        ("count", "count /count seed=0", 0),
        ("long", "atomic_long /long", 0),
    ] {
        let value = SharedValue::new(&client, "/value", "x").unwrap();
        let count = SharedCount::new(&client, "/count", 0).unwrap();
        let long = DistributedAtomicLong::new(&client, "/long").unwrap();
        let change = async || match kind {
            "value" => value.update(|text| [text, b"x"].concat()).await.map(|text| text.value().len()),
            "count" => count.update(|count| count + 1).await.map(|count| *count.value() as usize),
            _ => long.increment().await.map(|number| number as usize),
        };
        let peers = [format!("{kind}-a"), format!("{kind}-b")];
        let peers = join_all(peers.iter().map(|name| java.open(name, open))).await;
        let is_over = Cell::new(false);
        let theirs = join_all(peers.into_iter().map(async |mut peer| {
            let mut made = Vec::new();
            while !is_over.get() {
                made.extend(change_theirs(&mut peer, kind).await);
                // So that ours get on, too.
                sleep(ms(5)).await;
            }
            made
        }));
        let ours = async {
            let (mut made, mut unknown) = (Vec::new(), 0);
            for number in 0..TIMES {
                let fate = [Fate::LoseReply, Fate::LoseRequest][number % 2];
                let lost = (number % 3 == 0).then(|| proxy.intercept(Request::SetData, fate));
                let changed = change().await;
                if let Some(lost) = lost {
                    within(lost.happened()).await;
                }
                match changed {
                    Ok(now) => made.push(now),
                    Err(Error::WriteOutcomeUnknown { .. }) => unknown += 1,
                    Err(error) => panic!("{kind}: {error}"),
                }
            }
            is_over.set(true);
            (made, unknown)
        };
        let (theirs, (ours, unknown)) = within(join(theirs, ours)).await;
        let made: Vec<usize> = [theirs.concat(), ours].concat();
        let unique: BTreeSet<_> = made.iter().copied().collect();
        assert_eq!(unique.len(), made.len(), "{kind}: two changes made the same of it");
        // One more shows how many there were.
        let last = within(change()).await.unwrap() - 1 - before;
        assert!(
            (made.len()..=made.len() + unknown).contains(&last),
            "{kind}: {last}, {unknown} unknown of {made:?}"
        );
    }
}

/// What a peer has made of it; nothing if others were first.
async fn change_theirs(peer: &mut Actor, kind: &str) -> Option<usize> {
    if kind == "long" {
        return Some(peer.call("add 1").await.parse().unwrap());
    }
    let seen = peer.call("get").await;
    let (next, made) = match seen.parse::<usize>() {
        Ok(count) => ((count + 1).to_string(), count + 1),
        Err(_) => (format!("{seen}x"), seen.len() + 1),
    };
    (peer.call(&format!("exchange {seen} {next}")).await == "true").then_some(made)
}
