//! Servers that answer a connection, but leave out one reply. ZooKeeper does that to a create whose outcome it takes from
//! a late write of an earlier connection with the same xid.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zk_recipes::shared::SharedValue;
use zk_recipes::testing::{Fate, Request};
use zk_recipes::{Client, Error, Owner, Semaphore};
use zk_recipes_simulation::world::World;

use super::queue::*;
use super::{A_MOMENT, Proxy, ends, play, within};

/// By then, a later request has been answered: the keep-alive makes one every seventh of the session timeout.
const NOTICED: Duration = Duration::from_secs(2);

async fn through(proxy: &Proxy, world: &World) -> Client {
    proxy.client(world, |builder| builder.session_timeout(SESSION)).await
}

#[test]
fn a_create_without_a_reply_holds_up_no_one() {
    play(async |world| {
        let servers = world.servers();
        let proxy = Proxy::before(&world, 0).await;
        let [client, other] = [through(&proxy, &world).await, connect(&world, 1).await];
        let session = session_id(&client).await;
        visit(&mutex(&other)).await;
        for is_behind_a_holder in [false, true] {
            let held = match is_behind_a_holder {
                true => Some(mutex(&other).acquire().await.unwrap()),
                false => None,
            };
            let omitted = proxy.intercept(Request::Create, Fate::OmitReply);
            let start = Instant::now();
            let first = waiter(&mutex(&client)).await;
            within(omitted.happened()).await;
            let second = waiter(&mutex(&other)).await;
            if let Some(held) = held {
                held.release().await.unwrap();
            }
            let guard = granted(first).await;
            assert!(start.elapsed() < NOTICED, "{:?}", start.elapsed());
            let queue = nodes(servers, PATH);
            assert_eq!((queue.len(), &*queue[0]), (2, guard.node_path()), "one node for one acquire");
            assert_eq!(guard.fencing_token(), servers.node(guard.node_path()).unwrap().czxid);
            guard.release().await.unwrap();
            granted(second).await.release().await.unwrap();
        }
        assert_eq!(session_id(&client).await, session);
        nothing_is_left(servers).await;
        ends(&world, [client, other]).await;
    });
}
