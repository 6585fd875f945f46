//! The recipes other than locks, of our clients and of Curator's on the same paths, while connections are cut, requests
//! and replies are lost, clients are cut off for longer than their sessions, sessions are killed, and the server is paused
//! and restarted.
//!
//! Nobody may draw a number that another one has, nothing that was written may be lost or be there twice, whoever lives
//! must be there and nobody else, all must enter and leave barriers together, and caches must show what there is. All must
//! get on when the trouble is over.
//!
//! Without the usual harness, since its figures are to be seen. `RECIPES_IN_CHAOS_SECONDS` says how long the trouble lasts.
//!
//! The peers are those of the interoperation tests; without them our clients are among themselves.

mod barriers;
mod barriers_verdict;
mod caches;
mod figures;
mod kept;
mod kept_verdict;
mod numbers;
mod numbers_verdict;
mod outcome;
mod run;
mod scene;
mod self_check;
mod servers;
mod texts;
mod texts_verdict;

#[allow(dead_code, reason = "each test target uses a part")]
#[path = "../chaos/clock.rs"]
mod clock;
#[path = "../../interop/installed.rs"]
mod installed;
#[path = "../../interop/peer.rs"]
mod peer;
#[allow(dead_code, reason = "each test target uses a part")]
#[path = "../../recipes/cache/reader.rs"]
mod reader;
#[path = "../chaos/stage.rs"]
mod stage;
#[path = "../../support/mod.rs"]
mod support;
#[path = "../chaos/trouble.rs"]
mod trouble;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::installed::Generation;
use crate::scene::Scene;
use crate::servers::Ephemerals;

const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// Whoever waits longer waits for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(90);

/// What takes shorter need not have had trouble of each kind.
const LONG: Duration = Duration::from_secs(15);

const ROOT: &str = "/recipes";

fn main() {
    // Of a runner that wants to know what tests there are.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let number = |name: &str| std::env::var(name).map(|text| text.parse::<u64>().expect("a number"));
    let seconds = number("RECIPES_IN_CHAOS_SECONDS").unwrap_or(20);
    // With the peers, it is that of Curator 5.9, or of 5.4.
    let server = match std::env::var("RECIPES_IN_CHAOS_SERVER").as_deref() {
        Ok("3.8") => Generation::Debian,
        Ok("3.9") | Err(_) => Generation::Current,
        Ok(other) => panic!("RECIPES_IN_CHAOS_SERVER={other}: there are 3.8 and 3.9"),
    };
    let seed = number("RECIPES_IN_CHAOS_SEED").unwrap_or_else(|_| fastrand::u64(..1 << 40));
    println!("RECIPES_IN_CHAOS_SEED={seed}");
    // Whatever is decided at random on one of its threads.
    let seeds = std::sync::Mutex::new(fastrand::Rng::with_seed(seed));
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(move || fastrand::seed(seeds.lock().unwrap().u64(..)))
        .build()
        .unwrap();
    runtime.block_on(async {
        let scene = Scene::set(server).await;
        self_check::finds_planted_faults(&scene).await;
        compete(&scene, Duration::from_secs(seconds)).await;
        scene.leave().await;
    });
}

/// Lets all compete, in trouble and for a while after it, and judges what they did.
async fn compete(scene: &Scene, duration: Duration) {
    let mut show = scene.open(ROOT).await;
    let (server, bystander) = (scene.server.clone(), scene.bystander.clone());
    let participants = scene.participants();
    let ephemerals =
        Ephemerals { server: server.clone(), bystander: bystander.clone(), root: ROOT.to_owned() };
    let network = trouble::Trouble::new(participants.clone(), ephemerals);
    let figures = servers::Figures::default();
    let servers = servers::Trouble { server, bystander, root: ROOT.to_owned(), participants, figures };
    let end = CancellationToken::new();
    let troubled = async {
        show.crew.work_for(duration).await;
        end.cancel();
    };
    tokio::join!(troubled, network.make(&end), servers.make(&end));
    let unserved = show.crew.serve_all().await;
    assert!(unserved.is_empty(), "they do not get on after the trouble: {unserved:?}");
    show.crew.stop().await;
    show.living.refresh_theirs().await;

    let outcome = outcome::settled(scene, &show).await;
    figures::print(&network.figures, &servers.figures, &show, &outcome);
    figures::assert_enough(&network.figures, &servers.figures, &show, duration >= LONG, scene.has_peers());
    assert!(outcome.faults.is_empty(), "{:#?}", outcome.faults);
    show.close().await;
    outcome::nothing_is_kept(scene, ROOT).await;
}
