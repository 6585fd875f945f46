//! Values as watchers see them.

use futures_util::FutureExt;

use super::*;

const PATH: &str = "/values/a";

async fn becomes<T: Clone>(states: &mut Watch<SharedState<T>>, is: impl FnMut(&SharedState<T>) -> bool) {
    let _seen = within(states.wait_for(is)).await.unwrap();
}

#[tokio::test]
async fn a_watch_shows_what_becomes_of_a_value() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let value = SharedValue::new(&client, PATH, "seed").unwrap();
    let mut states = value.watch_state();
    assert!(states.changed().now_or_never().flatten().is_some(), "the first is told at once");
    becomes(&mut states, |state| *state == SharedState::Missing).await;
    assert_eq!(zookeeper.check_stat(PATH).await, Ok(None), "it is not created by being watched");
    let seen = value.get_versioned().await.unwrap();
    becomes(&mut states, |state| *state == SharedState::Known(seen.clone())).await;
    zookeeper.set_data(PATH, b"new", None).await.unwrap();
    becomes(&mut states, |state| state.current().is_some_and(|value| value == b"new")).await;

    // Deleted and created again, with the same number as its version.
    zookeeper.delete(PATH, None).await.unwrap();
    becomes(&mut states, |state| *state == SharedState::Missing).await;
    zookeeper.create(PATH, b"another", &anyone(CreateMode::Persistent)).await.unwrap();
    becomes(&mut states, |state| state.current().is_some_and(|value| value == b"another")).await;
    assert_eq!(states.get().last().unwrap(), b"another");
}

#[tokio::test]
async fn what_is_no_count_is_stale() {
    let (_server, client, zookeeper) = server_client_and_bystander().await;
    let count = SharedCount::new(&client, PATH, 7).unwrap();
    count.get().await.unwrap();
    let mut states = count.watch_state();
    becomes(&mut states, |state| state.current() == Some(&7)).await;
    zookeeper.set_data(PATH, b"seven", None).await.unwrap();
    becomes(&mut states, |state| {
        matches!(state, SharedState::Stale { last: Some(last), error: Some(Error::NotACount { .. }) } if *last.value() == 7)
    })
    .await;
    count.set(8).await.unwrap();
    becomes(&mut states, |state| state.current() == Some(&8)).await;
}

/// "The value if it is known to be current."
#[tokio::test]
async fn a_watch_ends_with_its_receivers_and_with_the_client() {
    let (server, zookeeper) = server_and_bystander().await;
    for closes in [true, false] {
        let client = connect(&server).await;
        let value = SharedValue::new(&client, PATH, "seed").unwrap();
        value.set("1").await.unwrap();
        let mut states = value.watch_state();
        becomes(&mut states, |state| state.current().is_some_and(|value| value == b"1")).await;
        let second = states.clone();
        drop(states);
        all_watches(&server, 1).await;
        drop(second);
        all_watches(&server, 0).await;
        let mut states = value.watch_state();
        becomes(&mut states, |state| state.current().is_some()).await;
        if closes {
            client.close().await;
        }
        drop((value, client));
        within(async { while states.changed().await.is_some() {} }).await;
        zookeeper.set_data(PATH, b"2", None).await.unwrap();
        assert_eq!(states.get().current(), None, "closes: {closes}; the value is another one by now");
    }
}
