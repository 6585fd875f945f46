//! A cache that processes share. Whoever finds it stale refreshes it, alone, and then reads on beside the others:
//! `./zk-docker/with-zookeeper cargo run --example read_write`

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_recipes::{Client, ReadWriteLock};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Each a client with a session of its own, which stands for a process.
const READERS: usize = 6;
const LOOK_UPS: usize = 25;
const FRESH_FOR: Duration = Duration::from_millis(150);

#[tokio::main]
async fn main() -> Result<()> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    let file = std::env::temp_dir().join(format!("read-write-{:08x}", fastrand::u32(..)));
    let cache = Arc::new(Cache { file, ..Cache::default() });
    let mut readers = JoinSet::new();
    for reader in 1..=READERS {
        let client = Client::connect(&servers).await?;
        let lock = ReadWriteLock::new(&client, "/examples/read-write")?;
        let cache = cache.clone();
        readers.spawn(async move {
            for _ in 0..LOOK_UPS {
                look_up(&lock, &cache, reader).await?;
                sleep(Duration::from_millis(fastrand::u64(5..15))).await;
            }
            Ok(())
        });
    }
    let all = async { readers.join_all().await.into_iter().collect::<Result<()>>() };
    timeout(Duration::from_secs(30), all).await.expect("nobody waits for ever")?;

    let (last, fetched) = (cache.edition().await?, cache.fetched.load(SeqCst));
    let most = cache.most_readers.load(SeqCst);
    fs::remove_file(&cache.file).await?;
    assert_eq!(last, fetched, "an edition was fetched twice");
    assert!(most > 1, "nobody has shared");
    println!("{} look-ups, up to {most} at once; {fetched} editions, each fetched once", READERS * LOOK_UPS);
    Ok(())
}

async fn look_up(lock: &ReadWriteLock, cache: &Cache, reader: usize) -> Result<()> {
    loop {
        let reading = lock.read().acquire().await?;
        if cache.is_fresh().await {
            cache.read().await?;
            return Ok(reading.release().await?);
        }
        // A reader cannot become a writer: two who want to would wait for each other.
        reading.release().await?;
        let writing = lock.write().acquire().await?;
        assert_eq!(cache.readers.load(SeqCst), 0, "somebody reads beside a writer");
        if cache.is_fresh().await {
            writing.release().await?; // Another one was faster.
            continue;
        }
        let edition = cache.fetch().await?;
        let others = lock.write().participants().await?.len() - 1;
        println!("reader {reader} has fetched edition {edition}; in line to do the same: {others}");
        // But a writer can become a reader, and none of those in line gets in between.
        let reading = lock.read().acquire().await?;
        writing.release().await?;
        assert_eq!(cache.read().await?, edition, "it reads what it wrote");
        return Ok(reading.release().await?);
    }
}

/// A file that is written in place and slowly: who reads it meanwhile gets a part.
#[derive(Default)]
struct Cache {
    file: PathBuf,
    fetched: AtomicUsize,
    readers: AtomicUsize,
    most_readers: AtomicUsize,
}

impl Cache {
    async fn is_fresh(&self) -> bool {
        let written = fs::metadata(&self.file).await.and_then(|metadata| metadata.modified());
        written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < FRESH_FOR))
    }

    async fn fetch(&self) -> Result<usize> {
        let edition = if self.file.exists() { self.edition().await? + 1 } else { 1 };
        let mut file = File::create(&self.file).await?;
        for line in ["begins", "ends"] {
            file.write_all(format!("edition {edition} {line}\n").as_bytes()).await?;
            sleep(Duration::from_millis(20)).await;
        }
        file.flush().await?;
        self.fetched.fetch_add(1, SeqCst);
        Ok(edition)
    }

    /// Takes a while, in which nobody may write.
    async fn read(&self) -> Result<usize> {
        self.most_readers.fetch_max(self.readers.fetch_add(1, SeqCst) + 1, SeqCst);
        let edition = self.edition().await?;
        sleep(Duration::from_millis(10)).await;
        assert_eq!(self.edition().await?, edition, "it was written to while it was read");
        self.readers.fetch_sub(1, SeqCst);
        Ok(edition)
    }

    async fn edition(&self) -> Result<usize> {
        let text = fs::read_to_string(&self.file).await?;
        let edition = text.split(' ').nth(1).unwrap_or_default();
        assert_eq!(text, format!("edition {edition} begins\nedition {edition} ends\n"), "a part of it");
        Ok(edition.parse()?)
    }
}
