//! Holders whose server is cut off from its leader, and goes on answering.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, interval};
use zk_recipes::testing::{TestingCluster, TestingServer};
use zk_recipes::{Client, ConnectionState};

use crate::contest::hold_before_next;
use crate::figures::{Distances, seconds_between};
use crate::support::{builder, within};

const HOLDERS: usize = 20;
const ROUNDS: usize = 2;

/// Shorter than the time for which a follower goes on without its leader: two seconds.
const SESSION_TIMEOUT: Duration = Duration::from_millis(1500);

/// What was seen of one holder.
struct Seen {
    lost: Instant,
    /// When it would have been lost if reads were taken for signs of life.
    lost_by_reads: Instant,
    granted: Instant,
}

pub(crate) async fn rounds() {
    let cluster = TestingCluster::builder(3).isolatable().start().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    let [leading, following] = [leader, follower].map(|index| &cluster.servers()[index]);
    let waiting = Client::connect(&leading.connect_string()).await.unwrap();
    let mut ours = Distances::default();
    let mut by_reads = Distances::default();
    for round in 0..ROUNDS {
        let holders =
            (0..HOLDERS).map(|holder| hold(following, &waiting, format!("/partition/{round}/{holder}")));
        let holders = join_all(holders).await;
        cluster.isolate(follower);
        for Seen { lost, lost_by_reads, granted } in within(join_all(holders)).await {
            ours.push(seconds_between(lost, granted));
            by_reads.push(seconds_between(lost_by_reads, granted));
        }
        cluster.rejoin(follower);
        // When it serves again, a client can connect to it.
        drop(within(connect(following)).await);
    }
    println!(
        "{} holders at a follower that its leader does not hear, sessions of {SESSION_TIMEOUT:?}, from the \
         loss to the next grant:",
        ours.len()
    );
    println!("  {ours}");
    println!("  if answers to reads were signs of life: {by_reads}");
    assert_eq!(ours.overlaps(), 0, "another had the lock before its holder knew");
    assert_eq!(by_reads.overlaps(), by_reads.len(), "the rounds cannot tell a good rule from a bad one");
}

async fn connect(server: &TestingServer) -> Client {
    let builder = builder().session_timeout(SESSION_TIMEOUT);
    builder.connect(&server.connect_string()).await.unwrap()
}

/// Holds, with somebody waiting. What it answers watches it lose the lock.
async fn hold(server: &TestingServer, waiting: &Client, lock: String) -> impl Future<Output = Seen> {
    // Reads of one that holds would be answered only after its own signs of life, which are not.
    let (client, reader) = tokio::join!(connect(server), connect(server));
    let (guard, next) = hold_before_next(&client, waiting, &lock).await;
    async move {
        let lost = async {
            guard.lost().await;
            Instant::now()
        };
        let (lost, last_read, (granted, _next)) =
            tokio::join!(lost, read_until_suspended(&reader, &lock), async { next.await.unwrap() });
        Seen { lost, lost_by_reads: last_read + SESSION_TIMEOUT.mul_f64(2.0 / 3.0), granted }
    }
}

/// Reads for as long as the server answers; says when the last answered request was sent.
async fn read_until_suspended(client: &Client, path: &str) -> Instant {
    let zookeeper = client.zookeeper().await.unwrap();
    let mut state = client.watch_connection();
    let mut last = Instant::now();
    let mut ticks = interval(SESSION_TIMEOUT / 20);
    let reading = async {
        loop {
            ticks.tick().await;
            let sent = Instant::now();
            if zookeeper.check_stat(path).await.is_ok() {
                last = sent;
            }
        }
    };
    tokio::select! {
        never = reading => never,
        _ = state.wait_for(|state| *state == ConnectionState::Suspended) => {}
    }
    last
}
