//! How long a lock lingers.

use std::time::Duration;

use tokio::time::sleep;
use zk_recipes::{InterProcessMutex, LockOptions};

use super::{A_MOMENT, ends, play};

#[test]
fn a_lock_lingers_for_a_time_from_its_last_release() {
    const TIME: Duration = Duration::from_millis(500);
    play(|world| {
        Box::pin(async move {
            let client = world.machines()[0].client().await;
            let options = LockOptions::new().linger(TIME);
            let mutex = InterProcessMutex::new(&client, "/locks/a").unwrap().with_options(options).unwrap();
            let guard = mutex.acquire().await.unwrap();
            let node = guard.node_path().to_owned();
            guard.release().await.unwrap();
            for _ in 0..5 {
                sleep(TIME - A_MOMENT).await;
                assert!(world.servers().node(&node).is_some());
                let guard = mutex.acquire().await.unwrap();
                assert_eq!(guard.node_path(), node);
                // However long it is held.
                sleep(2 * TIME).await;
                guard.release().await.unwrap();
            }
            sleep(TIME - A_MOMENT).await;
            assert!(world.servers().node(&node).is_some());
            sleep(2 * A_MOMENT).await;
            assert!(world.servers().node(&node).is_none());
            assert_ne!(mutex.acquire().await.unwrap().node_path(), node);
            sleep(TIME).await;
            ends(&world, [client]).await;
        })
    });
}
