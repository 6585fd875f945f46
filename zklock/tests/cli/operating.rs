//! `zklock ask` and `zklock kick`.

use zk_recipes::LossReason;

use crate::support::{
    acquire_in_task, bystander, children, connect, connect_many, empty_server, mutex, queue_of, within,
};
use crate::zklock::{done, json};

#[tokio::test]
async fn holders_are_asked() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let asked = done(&server, &["ask", "/locks/a"]).await;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(asked.output.contains(guard.node_path()), "{asked:?}");
    within(guard.revoke_requested()).await.unwrap();
    assert_eq!(json(&server, &["show", "--json", "/locks/a"]).await["participants"][0]["is_asked"], true);
    guard.release().await.unwrap();
    let free = done(&server, &["ask", "/locks/a"]).await;
    assert_eq!((free.code, free.output.contains("nobody")), (Some(0), true), "{free:?}");
}

/// As kazoo's, whose name would be gone.
#[tokio::test]
async fn those_who_may_not_answer_are_asked_only_if_it_is_meant() {
    let server = empty_server().await;
    let builder = zk_recipes::Client::builder().identity("worker-3");
    let client = builder.connect(&server.connect_string()).await.unwrap();
    let _guard = mutex(&client).acquire().await.unwrap();
    let refused = done(&server, &["ask", "/locks/a"]).await;
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.errors.contains("worker-3") && refused.errors.contains("--force"), "{refused:?}");
    let shown = json(&server, &["show", "--json", "/locks/a"]).await;
    assert_eq!(shown["participants"][0]["is_asked"], false);
    for _ in 0..2 {
        assert_eq!(done(&server, &["ask", "--force", "/locks/a"]).await.code, Some(0));
    }
}

#[tokio::test]
async fn locks_are_taken_away_from_those_who_are_named() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [first, second, third] = connect_many(&server).await;
    let guard = mutex(&first).acquire().await.unwrap();
    let second = acquire_in_task(&mutex(&second));
    queue_of(&zookeeper, "/locks/a", 2).await;
    let third = acquire_in_task(&mutex(&third));
    queue_of(&zookeeper, "/locks/a", 3).await;

    // Nobody is there to be asked.
    let unconfirmed = done(&server, &["kick", "/locks/a"]).await;
    assert_eq!(unconfirmed.code, Some(122), "{unconfirmed:?}");
    assert!(unconfirmed.errors.contains("--yes"), "{unconfirmed:?}");
    let unknown = done(&server, &["kick", "--yes", "--participant", "nobody", "/locks/a"]).await;
    assert_eq!(unknown.code, Some(123), "{unknown:?}");
    assert_eq!(children(&zookeeper, "/locks/a").await.len(), 3);

    // The waiter goes to the end.
    let shown = json(&server, &["show", "--json", "/locks/a"]).await;
    let waiter = shown["participants"][1]["node"].as_str().unwrap();
    let kicked = done(&server, &["kick", "--yes", "--participant", waiter, "/locks/a"]).await;
    assert_eq!(kicked.code, Some(0), "{kicked:?}");
    assert!(kicked.output.contains(waiter) && guard.is_valid(), "{kicked:?}");

    let kicked = done(&server, &["kick", "--yes", "/locks/a"]).await;
    assert_eq!(kicked.code, Some(0), "{kicked:?}");
    assert_eq!(within(guard.lost()).await, LossReason::Deleted);
    within(third).await.unwrap().unwrap().release().await.unwrap();
    within(second).await.unwrap().unwrap().release().await.unwrap();
    let nobody = done(&server, &["kick", "--yes", "/locks/a"]).await;
    assert_eq!((nobody.code, nobody.output.contains("nobody")), (Some(0), true), "{nobody:?}");
}
