//! Shows that each judge finds what is wrong: all play for a while without trouble, which is right; then a saboteur does what
//! no recipe would.

use std::time::Duration;

use zk_recipes::barriers::DoubleBarrier;
use zk_recipes::cache::{CacheEvent, Change};
use zk_recipes::testing::Traffic;
use zookeeper_client as zk;

use crate::barriers::{MEMBERS, Passage, Round};
use crate::caches::{self, Followed};
use crate::kept::{Node, Nodes, group_path};
use crate::numbers::{Draw, Kind, Outcome, Source};
use crate::scene::{Scene, Show};
use crate::stage::Library;
use crate::support::{eventually, within};
use crate::{barriers_verdict, clock, kept_verdict, outcome, texts};

const DURATION: Duration = Duration::from_secs(2);

/// More than all blocks in hand.
const AGAIN: i64 = 60;

/// A path that nobody else plays at.
const ROOT: &str = "/self-check";

pub(crate) async fn finds_planted_faults(scene: &Scene) {
    let mut show = scene.open(ROOT).await;
    show.crew.work_for(DURATION).await;
    let unserved = show.crew.serve_all().await;
    assert!(unserved.is_empty(), "they do not even get on without trouble: {unserved:?}");
    show.crew.stop().await;
    show.living.refresh_theirs().await;
    let right = outcome::settled(scene, &show).await;
    assert!(right.faults.is_empty() && right.of_peers.is_empty(), "{right:#?}");

    numbers(scene, &show).await;
    texts(scene, &show).await;
    kept(scene, &show).await;
    barriers(scene).await;
    caches(scene).await;
    show.close().await;
}

fn assert_found(faults: &[String], wanted: &str) {
    let found = faults.iter().find(|fault| fault.contains(wanted));
    let found = found.unwrap_or_else(|| panic!("{wanted:?} was planted, and found is {faults:?}"));
    let shown: String = found.chars().take(100).collect();
    println!("self-check: found: {shown}");
}

/// Sets numbers back, and ahead.
async fn numbers(scene: &Scene, show: &Show) {
    let (_, client) = &scene.ours[0];
    for draws in &show.numbers {
        let path = draws.kind.path(ROOT);
        let (data, _) = scene.bystander.get_data(&path).await.unwrap();
        let moved = |by: i64| match <[u8; 4]>::try_from(&*data) {
            Ok(count) => (i32::from_be_bytes(count) + by as i32).to_be_bytes().to_vec(),
            Err(_) => (i64::from_be_bytes(data.clone().try_into().unwrap()) + by).to_be_bytes().to_vec(),
        };
        scene.bystander.set_data(&path, &moved(-1000), None).await.unwrap();
        assert_found(&outcome::number(&scene.bystander, draws, ROOT).await, "but the last is");
        if draws.kind == Kind::Ours {
            scene.bystander.set_data(&path, &moved(1000), None).await.unwrap();
            assert_found(
                &outcome::number(&scene.bystander, draws, ROOT).await,
                "are unknown, but the last is",
            );
        }
        // Somebody draws the last numbers again. Those that are left of blocks were not drawn before.
        scene.bystander.set_data(&path, &moved(-AGAIN), None).await.unwrap();
        let sources = Source::all_of(draws.kind, client, ROOT);
        let asked = clock::now();
        let mut again = Vec::new();
        for _ in 0..AGAIN {
            let number = within(sources[0].next()).await.unwrap();
            again.push(Draw {
                by: "saboteur".into(),
                library: Library::Ours,
                asked,
                answered: clock::now(),
                outcome: Outcome::Drawn(number),
                is_single: true,
            });
        }
        scene.bystander.set_data(&path, &data, None).await.unwrap();
        draws.draws.lock().unwrap().extend(again);
        let faults = outcome::number(&scene.bystander, draws, ROOT).await;
        assert_found(&faults, "was drawn twice");
        assert_found(&faults, "comes after");
    }
}

/// Removes something, and repeats something.
async fn texts(scene: &Scene, show: &Show) {
    let path = show.texts.path(0);
    let (data, _) = scene.bystander.get_data(&path).await.unwrap();
    let text = String::from_utf8(data).unwrap();
    let appends = show.texts.appends.lock().unwrap().clone();
    let done = |append: &&texts::Append| append.text == 0 && append.outcome == texts::Outcome::Done;
    let id = appends.iter().find(done).map(|append| append.id.clone()).expect("somebody has appended");
    let without = text.split_inclusive(',').filter(|part| part.trim_end_matches(',') != id).collect();
    for (text, wanted) in
        [(without, "0 times"), (format!("{text}{id},"), "2 times"), (format!("{text}x,"), "nobody")]
    {
        scene.bystander.set_data(&path, text.as_bytes(), None).await.unwrap();
        assert_found(&outcome::texts(&scene.bystander, show).await, wanted);
    }
}

/// Leaves something behind, of which those who watch are not told.
async fn kept(scene: &Scene, show: &Show) {
    let (participant, _) = &scene.ours[0];
    let stray = format!("{}/rust-stray", group_path(ROOT));
    participant.proxy.set_traffic(Traffic::black_hole());
    create(&scene.bystander, &stray).await;
    let (mut faults, mut of_peers) = (Vec::new(), Vec::new());
    outcome::nodes(scene, show, &mut faults, &mut of_peers).await;
    assert_found(&faults, &format!("{stray} is left behind"));
    assert_found(&faults, &format!("{} sees the members", participant.name));
    let tree = eventually("the nodes", async || caches::tree(&scene.bystander, ROOT).await).await;
    assert_found(&show.caches[0].faults(&tree), &stray);
    participant.proxy.set_traffic(Traffic::pass());
    scene.bystander.delete(&stray, None).await.unwrap();

    let one = |data: &str, created| {
        let node = Node { data: data.to_owned(), created: Some(created) };
        Nodes::from([("/rust-a".to_owned(), node)])
    };
    let none = Nodes::new();
    let judge = |living: Nodes, there: Nodes| kept_verdict::judge(&living, &none, &there).faults;
    assert_found(&judge(one("1", 1), none.clone()), "missing");
    assert_found(&judge(one("1", 1), one("2", 1)), "is Node { data: \"2\"");
    assert_found(&judge(one("1", 1), one("1", 2)), "created: Some(2)");
}

/// Lets somebody in before the others have come.
async fn barriers(scene: &Scene) {
    let (_, client) = &scene.ours[0];
    let path = format!("{ROOT}/barriers/early");
    create(&scene.bystander, &path).await;
    for stranger in 1..MEMBERS {
        create(&scene.bystander, &format!("{path}/{stranger}")).await;
    }
    let barrier = DoubleBarrier::new(client, &path, MEMBERS).unwrap();
    let came = vec![clock::now()];
    let entered = within(barrier.enter()).await.unwrap();
    let early = Passage { came, entered: Some(clock::now()), ..Passage::default() };
    drop(entered);
    let round = Round { path: path.clone(), passages: vec![early] };
    assert_found(&barriers_verdict::judge(&[round]), "early");

    let passage = |leaves, left| Passage {
        came: vec![1],
        entered: Some(2),
        leaves: Some(leaves),
        left: Some(left),
        ..Passage::default()
    };
    let round =
        |last| Round { path: path.clone(), passages: vec![passage(3, 6), passage(4, 7), passage(last, 8)] };
    assert!(barriers_verdict::judge(&[round(5)]).is_empty());
    assert_found(&barriers_verdict::judge(&[round(7)]), "early");
}

/// Keeps something from a reader.
async fn caches(scene: &Scene) {
    let (_, client) = &scene.ours[0];
    let root = format!("{ROOT}/cache");
    create(&scene.bystander, &root).await;
    let secret = format!("{root}/secret");
    let is_heard = {
        let secret = secret.clone();
        move |event: &CacheEvent| !matches!(event, CacheEvent::Change(Change::Created(node)) if node.path() == secret)
    };
    let followed = Followed::start_with(client, "saboteur".into(), &root, 1024, is_heard);
    within(followed.cache.wait_current()).await.unwrap();
    eventually("it is heard", async || (followed.resets() > 0).then_some(())).await;
    create(&scene.bystander, &secret).await;
    within(followed.cache.wait_until(|snapshot| snapshot.get(&secret).is_some())).await.unwrap();
    let tree = eventually("the nodes", async || caches::tree(&scene.bystander, &root).await).await;
    let faults = followed.faults(&tree);
    assert_found(&faults, &format!("told: {secret}"));
    assert_eq!(faults.len(), 1, "{faults:?}");
}

async fn create(bystander: &zk::Client, path: &str) {
    let mode = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    bystander.create(path, b"", &mode).await.unwrap();
}
