//! Values as watchers see them.

use futures_util::FutureExt;

use super::*;

const PATH: &str = "/values/a";

async fn becomes<T: Clone>(states: &mut Watch<SharedState<T>>, is: impl FnMut(&SharedState<T>) -> bool) {
    let _seen = within(states.wait_for(is)).await.unwrap();
}

#[tokio::test]
async fn a_watch_shows_what_becomes_of_a_value() {
    let (_server, proxy, zookeeper) = server_proxy_and_bystander().await;
    let value = SharedValue::new(&connect_through(&proxy).await, PATH, "seed").unwrap();
    let mut states = value.watch_state();
    assert!(states.changed().now_or_never().flatten().is_some(), "the first is told at once");
    becomes(&mut states, |state| *state == SharedState::Missing).await;
    assert_eq!(zookeeper.check_stat(PATH).await, Ok(None), "it is not created by being watched");
    let seen = value.get_versioned().await.unwrap();
    becomes(&mut states, |state| *state == SharedState::Known(seen.clone())).await;
    zookeeper.set_data(PATH, b"new", None).await.unwrap();
    becomes(&mut states, |state| state.current().is_some_and(|value| value == b"new")).await;

    // Without a connection the last value is shown as what it is.
    cut_off(&proxy);
    becomes(
        &mut states,
        |state| matches!(state, SharedState::Stale { last: Some(last), .. } if last.value() == b"new"),
    )
    .await;
    assert!(states.get().current().is_none());
    zookeeper.set_data(PATH, b"unseen", None).await.unwrap();
    mend(&proxy);
    becomes(&mut states, |state| state.current().is_some_and(|value| value == b"unseen")).await;

    // Deleted and created again, with the same number as its version.
    zookeeper.delete(PATH, None).await.unwrap();
    becomes(&mut states, |state| *state == SharedState::Missing).await;
    zookeeper.create(PATH, b"another", &anyone(CreateMode::Persistent)).await.unwrap();
    becomes(&mut states, |state| state.current().is_some_and(|value| value == b"another")).await;
    assert_eq!(states.get().last().unwrap(), b"another");
}

#[tokio::test]
async fn a_watch_ends_with_its_receivers_and_with_the_client() {
    let (server, client) = server_and_client().await;
    let value = SharedValue::new(&client, PATH, "seed").unwrap();
    value.get().await.unwrap();
    let mut states = value.watch_state();
    let second = states.clone();
    becomes(&mut states, |state| state.current().is_some()).await;
    drop(states);
    assert_eq!(server.watch_count().await.unwrap(), 1);
    drop(second);
    eventually("nothing is watched", async || (server.watch_count().await.unwrap() == 0).then_some(())).await;
    let mut states = value.watch_state();
    becomes(&mut states, |state| state.current().is_some()).await;
    client.close().await;
    within(async { while states.changed().await.is_some() {} }).await;
}

#[tokio::test]
async fn what_is_no_count_or_may_not_be_read_is_stale() {
    let (server, client, zookeeper) = server_client_and_bystander().await;
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

    let private = builder().acl([zk_recipes::Acl::new(Permission::ALL, AuthId::new("auth", ""))]);
    let private = private.auth("digest", "owner:secret").connect(&server.connect_string()).await.unwrap();
    SharedCount::new(&private, "/private", 1).unwrap().get().await.unwrap();
    let mut states = SharedCount::new(&client, "/private", 1).unwrap().watch_state();
    becomes(&mut states, |state| {
        matches!(
            state,
            SharedState::Stale {
                last: None,
                error: Some(Error::ZooKeeper { source: zk::Error::NoAuth, .. })
            }
        )
    })
    .await;
}

/// "The value if it is known to be current."
#[tokio::test]
async fn a_value_is_not_current_any_more_when_the_client_is_closed() {
    let (server, zookeeper) = server_and_bystander().await;
    for closes in [true, false] {
        let client = connect(&server).await;
        let value = SharedValue::new(&client, PATH, "seed").unwrap();
        value.set("1").await.unwrap();
        let mut states = value.watch_state();
        becomes(&mut states, |state| state.current().is_some_and(|value| value == b"1")).await;
        if closes {
            client.close().await;
        }
        drop((value, client));
        within(async { while states.changed().await.is_some() {} }).await;
        zookeeper.set_data(PATH, b"2", None).await.unwrap();
        assert_eq!(states.get().current(), None, "closes: {closes}; the value is another one by now");
    }
}
