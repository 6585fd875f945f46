//! Caches for threads.

use zk_recipes::blocking::Client;
use zk_recipes::blocking::cache::Cache;

use super::*;

#[test]
fn a_thread_follows_a_cache() {
    let server = MemoryServer::start().unwrap();
    let client = Client::connect(&server.connect_string()).unwrap();
    let count = zk_recipes::blocking::shared::SharedCount::new(&client, "/count", 1).unwrap();
    assert_eq!(count.get(), Ok(1));
    let cache = Cache::start(&client, "/count", CacheOptions::node()).unwrap();
    assert_eq!(cache.wait_current().unwrap().len(), 1);
    let mut changes = cache.changes();
    assert!(matches!(changes.next(), Ok(Some(CacheEvent::Reset(_)))));
    assert!(changes.next_within(ms(10)).unwrap().is_none());
    count.set(2).unwrap();
    let two = 2_i32.to_be_bytes();
    let snapshot = cache.wait_until(|snapshot| snapshot.data("/count") == Some(&two)).unwrap();
    assert_eq!(snapshot.len(), 1);
    let change = changes.next().unwrap();
    assert!(matches!(change, Some(CacheEvent::Change(Change::Changed { .. }))), "{change:?}");
    let root = Cache::start(&client, "/", CacheOptions::children()).unwrap();
    assert!(root.wait_current().unwrap().children("/").any(|node| node.path() == "/count"));
    client.close().unwrap();
    assert!(changes.next().unwrap().is_none());
    assert_eq!(cache.wait_until(|snapshot| snapshot.len() == 7).unwrap_err(), Error::Closed);
}
