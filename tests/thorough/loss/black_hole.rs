//! Holders that the network cuts off without a word.

use futures_util::future::join_all;
use tokio::time::Instant;
use zk_recipes::testing::{FaultProxy, Traffic};
use zk_recipes::{Client, ConnectionState, LossReason};

use crate::SESSION_TIMEOUT;
use crate::contest::hold_before_next;
use crate::figures::{Distances, seconds_between};
use crate::support::{Server, builder, within};

const HOLDERS: usize = 40;

/// What was seen of one holder.
struct Seen {
    lost: Instant,
    /// When Curator says `LOST`: a session timeout after the connection was noticed to be gone.
    lost_by_curator: Instant,
    granted: Instant,
}

pub(crate) async fn rounds() {
    println!("holders in a black hole, sessions of {SESSION_TIMEOUT:?}, from the loss to the next grant:");
    let server = Server::start().await.unwrap();
    let waiting = Client::connect(&server.connect_string()).await.unwrap();
    for (ways, traffic, rounds, is_unheard) in [
        ("both ways", Traffic::black_hole(), 3, true),
        ("to the server", Traffic::black_hole_to_server(), 1, true),
        // The servers hear its attempts to connect again, and keep the session that long.
        ("to the client", Traffic::black_hole_to_client(), 1, false),
    ] {
        let mut ours = Distances::default();
        let mut curators = Distances::default();
        for round in 0..rounds {
            let seen = join_all((0..HOLDERS).map(|holder| {
                let lock = format!("/black-hole/{ways}/{round}/{holder}");
                lose(&server, &waiting, lock, traffic)
            }));
            for Seen { lost, lost_by_curator, granted } in seen.await {
                ours.push(seconds_between(lost, granted));
                curators.push(seconds_between(lost_by_curator, granted));
            }
        }
        println!("  {ways}, {}: {ours}", ours.len());
        println!("    without margin, by the rule of Curator: {curators}");
        assert_eq!(ours.overlaps(), 0, "another had the lock before its holder knew");
        let told_apart = curators.overlaps() == curators.len();
        assert!(told_apart || !is_unheard, "the rounds cannot tell a good rule from a bad one");
    }
}

async fn lose(server: &Server, waiting: &Client, lock: String, traffic: Traffic) -> Seen {
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = builder().session_timeout(SESSION_TIMEOUT).connect(&proxy.connect_string()).await.unwrap();
    let (guard, next) = hold_before_next(&client, waiting, &lock).await;
    // At any point between two signs of life.
    tokio::time::sleep(SESSION_TIMEOUT.mul_f64(fastrand::f64() / 3.0)).await;
    assert!(guard.is_valid());
    proxy.set_traffic(traffic);

    let mut state = client.watch_connection();
    let lost = async {
        let reason = guard.lost().await;
        (reason, Instant::now())
    };
    let suspended = async {
        state.wait_for(|state| *state == ConnectionState::Suspended).await.unwrap();
        Instant::now()
    };
    let ((reason, lost), suspended, (granted, next)) =
        within(async { tokio::join!(lost, suspended, async { next.await.unwrap() }) }).await;
    assert_eq!(reason, LossReason::Expired);
    assert!(next.fencing_token() > guard.fencing_token());
    Seen { lost, lost_by_curator: suspended + SESSION_TIMEOUT, granted }
}
