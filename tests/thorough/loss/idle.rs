//! What a client costs that has nothing to do.

use std::time::Duration;

use futures_util::future::join_all;
use zk_recipes::InterProcessMutex;
use zk_recipes::testing::{FaultProxy, Request};

use crate::SESSION_TIMEOUT;
use crate::support::{Server, builder, watches_with_holders};

/// For how long it is looked at.
const SPAN: Duration = Duration::from_secs(4);

pub(crate) async fn cost() {
    let server = Server::start().await.unwrap();
    println!("a client with nothing to do, session of {SESSION_TIMEOUT:?}, requests and pings a second:");
    let mut beats = Vec::new();
    for locks in [0, 1, 1000] {
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let builder = builder().session_timeout(SESSION_TIMEOUT);
        let client = builder.connect(&proxy.connect_string()).await.unwrap();
        let held = join_all((0..locks).map(|lock| {
            let mutex = InterProcessMutex::new(&client, &format!("/idle/{lock}")).unwrap();
            async move { mutex.acquire().await.unwrap() }
        }))
        .await;
        // Once, when a hold is a second old.
        watches_with_holders(&server, locks as u64).await;
        proxy.take_requests();
        let pings = proxy.pings_seen();
        tokio::time::sleep(SPAN).await;
        let pings = proxy.pings_seen() - pings;
        let requests = proxy.take_requests();
        assert!(requests.iter().all(|request| *request == Request::Confirm), "{requests:?}");
        assert!(held.iter().all(|guard| guard.is_valid()));
        let per_second = |count: usize| count as f64 / SPAN.as_secs_f64();
        println!("  {locks} locks: {:.1} and {:.1}", per_second(requests.len()), per_second(pings));
        beats.push(requests.len());
        join_all(held.into_iter().map(|guard| guard.release())).await;
        client.close().await;
    }
    assert_eq!(beats[0], 0, "nobody depends on the session");
    assert!(beats[1] > 0 && beats[2] <= beats[1] + 2, "{beats:?}: as much for a thousand locks as for one");
}
