//! A few licences for many workplaces, and one more while somebody waits:
//! `./zk-docker/with-zookeeper cargo run --example semaphore`

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_recipes::shared::SharedCount;
use zk_recipes::{Client, Participant, Semaphore};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const LICENCES: i32 = 2;
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<()> {
    let root = format!("/examples/semaphore-{:08x}", fastrand::u32(..));
    let office = connect("Office").await?;
    let bought = bought(&office, &root)?;
    let day = async {
        one_more(&root, &bought).await?;
        rush_hour(&root).await
    };
    let day = timeout(PATIENCE, day).await.unwrap_or_else(|_| Err("somebody waits for ever".into()));
    // The number stays until somebody removes it; the rest goes by itself.
    let removed = office.zookeeper().await?.delete(bought.path(), None).await;
    day?;
    Ok(removed?)
}

/// Each workplace has a client with a session of its own, which stands for a process.
async fn connect(name: &str) -> Result<Client> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    Ok(Client::builder().identity(name).connect(&servers).await?)
}

/// How many licences there are: a number in ZooKeeper.
fn bought(client: &Client, root: &str) -> Result<SharedCount> {
    Ok(SharedCount::new(client, &format!("{root}/bought"), LICENCES)?)
}

async fn workplace(name: &str, root: &str) -> Result<Semaphore> {
    let client = connect(name).await?;
    let bought = bought(&client, root)?;
    Ok(Semaphore::with_shared_count(&client, &format!("{root}/licences"), &bought)?)
}

/// Somebody waits, and is let in by another licence, not by another's leaving.
async fn one_more(root: &str, bought: &SharedCount) -> Result<()> {
    let ann = workplace("Ann", root).await?.acquire().await?;
    let bob = workplace("Bob", root).await?.acquire().await?;
    let licences = workplace("Carol", root).await?;
    assert!(licences.try_acquire().await?.is_none(), "there are only {LICENCES}");

    let carol = licences.clone();
    let carol = tokio::spawn(async move { carol.acquire().await });
    while licences.participants().await?.len() < 3 {
        sleep(Duration::from_millis(5)).await;
    }
    println!("{LICENCES} licences: {}", who(&licences.participants().await?));

    let raised = Instant::now();
    bought.set(LICENCES + 1).await?;
    let carol = carol.await??;
    let after = raised.elapsed();
    let participants = licences.participants().await?;
    println!("{} licences, {after:.1?} later: {}", LICENCES + 1, who(&participants));
    assert_eq!(participants.iter().filter(|participant| participant.is_holder()).count(), 3);
    for licence in [ann, bob, carol] {
        licence.release().await?;
    }
    Ok(())
}

fn who(participants: &[Participant]) -> String {
    let one = |participant: &Participant| {
        let name = String::from_utf8_lossy(participant.identity().unwrap_or(b"somebody"));
        format!("{name} {}", if participant.is_holder() { "has one" } else { "waits" })
    };
    participants.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Everybody wants some at once, and some want two.
async fn rush_hour(root: &str) -> Result<()> {
    let (in_use, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut people = JoinSet::new();
    for person in 0..6 {
        let licences = workplace(&format!("person {person}"), root).await?;
        let (in_use, most) = (in_use.clone(), most.clone());
        people.spawn(async move {
            for job in 0..5 {
                let wanted = 1 + (person + job) % 2;
                // All of them or none: nobody sits on one and waits for the other.
                let held = licences.many(wanted)?.acquire().await?;
                most.fetch_max(in_use.fetch_add(wanted, SeqCst) + wanted, SeqCst);
                sleep(Duration::from_millis(fastrand::u64(5..20))).await;
                in_use.fetch_sub(wanted, SeqCst);
                held.release().await?;
            }
            Ok(())
        });
    }
    people.join_all().await.into_iter().collect::<Result<()>>()?;
    let (all, most) = (LICENCES as u32 + 1, most.load(SeqCst));
    let free = workplace("Office", root).await?.available_permits().await?;
    println!(
        "30 jobs of 6 people, some with two licences: at most {most} in use, and {free} free in the end"
    );
    assert_eq!((most, free), (all, all), "all licences are to be used, and no more");
    Ok(())
}
