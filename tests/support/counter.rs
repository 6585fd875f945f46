//! A server whose sequence numbers begin where one likes, such as right before they end.

use std::path::Path;

use zk_recipes::testing::TestingServer;
use zookeeper_client as zk;

/// Types of transactions.
const CREATE: i32 = 1;
const CREATE2: i32 = 15;

/// Starts a server on which the next numbered child of `parent` gets this number.
pub async fn server_counting_from(parent: &str, number: i32) -> TestingServer {
    let starting = TestingServer::builder().system_property("zookeeper.digest.enabled", "false").start();
    let mut server = starting.await.unwrap();
    let zookeeper = zk::Client::connect(&server.connect_string()).await.unwrap();
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    let child = format!("{parent}/a");
    zookeeper.mkdir(parent, &persistent).await.unwrap();
    zookeeper.create(&child, b"", &persistent).await.unwrap();
    zookeeper.delete(&child, None).await.unwrap();
    drop(zookeeper);
    server.kill().await.unwrap();
    // Nothing but as many creates could bring it there: so the log of the server tells it of them.
    let logs = server.data_dir().join("version-2").read_dir().unwrap().map(|file| file.unwrap().path());
    let is_log = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with("log.");
    assert!(logs.filter(|path| is_log(path)).any(|log| set_counter(&log, &child, number)));
    server.restart().await.unwrap();
    server
}

/// Changes what the create of a child says about the counter of its parent. Answers whether it was found.
fn set_counter(log: &Path, child: &str, number: i32) -> bool {
    // Behind the path: the length of the data, one entry of an access list, and whether it is ephemeral.
    let up_to_counter = child.len() + 4 + (4 + 4 + 4 + "world".len() + 4 + "anyone".len()) + 1;
    let mut bytes = std::fs::read(log).unwrap();
    let number_at = |bytes: &[u8], at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut at = 16; // behind the header of the file
    while at + 12 <= bytes.len() && number_at(&bytes, at + 8) > 0 {
        let transaction = at + 12;
        let end = transaction + number_at(&bytes, at + 8) as usize;
        let kind = number_at(&bytes, transaction + 28);
        let named = bytes[transaction..end].windows(child.len()).position(|text| text == child.as_bytes());
        if let (CREATE | CREATE2, Some(named)) = (kind, named) {
            let counter = transaction + named + up_to_counter;
            assert_eq!(number_at(&bytes, counter), 1, "the first child");
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
