//! A server whose sequence numbers or versions begin where one likes, such as right before they end.

use std::path::Path;

use zk_recipes::testing::TestingServer;
use zookeeper_client as zk;

use super::{Server, anyone, bystander_of};

/// Types of transactions.
const CREATE: i32 = 1;
const SET_DATA: i32 = 5;
const CREATE2: i32 = 15;

/// Starts a server on which the next numbered child of `parent` gets this number.
pub async fn server_counting_from(parent: &str, number: i32) -> Server {
    let (mut server, zookeeper) = server_without_digest().await;
    let child = format!("{parent}/a");
    zookeeper.mkdir(parent, &anyone(zk::CreateMode::Persistent)).await.unwrap();
    zookeeper.create(&child, b"", &anyone(zk::CreateMode::Persistent)).await.unwrap();
    zookeeper.delete(&child, None).await.unwrap();
    drop(zookeeper);
    // Behind the path: the length of the data, one entry of an access list, and whether it is ephemeral.
    let up_to_counter = 4 + (4 + 4 + 4 + "world".len() + 4 + "anyone".len()) + 1;
    rewrite_history(&mut server, &[CREATE, CREATE2], &child, up_to_counter, number).await;
    server.into()
}

/// Starts a server on which the data of the node at `path` has this version, and one byte.
pub async fn server_with_version(path: &str, version: i32) -> Server {
    let (mut server, zookeeper) = server_without_digest().await;
    zookeeper.create(path, b"", &anyone(zk::CreateMode::Persistent)).await.unwrap();
    zookeeper.set_data(path, b"x", None).await.unwrap();
    drop(zookeeper);
    // Behind the path: the length of the data, and the data.
    rewrite_history(&mut server, &[SET_DATA], path, 4 + 1, version).await;
    server.into()
}

async fn server_without_digest() -> (TestingServer, zk::Client) {
    let starting = TestingServer::builder().system_property("zookeeper.digest.enabled", "false").start();
    let server = starting.await.unwrap();
    let zookeeper = bystander_of(&server.connect_string()).await;
    (server, zookeeper)
}

/// Changes a number that was 1, this far behind the path in a transaction of one of these kinds. Nothing but as many
/// requests could bring it there: so the log of the server tells it of them.
async fn rewrite_history(server: &mut TestingServer, kinds: &[i32], path: &str, behind: usize, number: i32) {
    server.kill().await.unwrap();
    let logs = server.data_dir().join("version-2").read_dir().unwrap().map(|file| file.unwrap().path());
    let is_log = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with("log.");
    assert!(logs.filter(|path| is_log(path)).any(|log| set_number(&log, kinds, path, behind, number)));
    server.restart().await.unwrap();
}

/// Answers whether it was found.
fn set_number(log: &Path, kinds: &[i32], path: &str, behind: usize, number: i32) -> bool {
    let up_to_counter = path.len() + behind;
    let mut bytes = std::fs::read(log).unwrap();
    let number_at = |bytes: &[u8], at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut at = 16; // behind the header of the file
    while at + 12 <= bytes.len() && number_at(&bytes, at + 8) > 0 {
        let transaction = at + 12;
        let end = transaction + number_at(&bytes, at + 8) as usize;
        let kind = number_at(&bytes, transaction + 28);
        let named = bytes[transaction..end].windows(path.len()).position(|text| text == path.as_bytes());
        if let (true, Some(named)) = (kinds.contains(&kind), named) {
            let counter = transaction + named + up_to_counter;
            assert_eq!(number_at(&bytes, counter), 1, "the first");
            bytes[counter..counter + 4].copy_from_slice(&number.to_be_bytes());
            let checksum = adler32(&bytes[transaction..end]);
            bytes[at..at + 8].copy_from_slice(&u64::from(checksum).to_be_bytes());
            std::fs::write(log, bytes).unwrap();
            return true;
        }
        at = end + 1;
    }
    false
}

fn adler32(bytes: &[u8]) -> u32 {
    let sums = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    sums.1 << 16 | sums.0
}
