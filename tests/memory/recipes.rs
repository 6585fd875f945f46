//! A server in memory beside a paused clock, and with kazoo. The recipes of this library are tested on it in the other programs.

use tokio::process::Command;
use zk_recipes::testing::MemoryServer;
use zk_recipes::{Client, InterProcessMutex};

use crate::installed::{Generation, Peers};
use crate::support::BOUND;

/// The server does not share the clock of the test, nor its thread.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_stop_it() {
    let server = MemoryServer::start().unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    let mutex = InterProcessMutex::new(&client, "/locks/a").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
}

/// kazoo's lock, its sequence numbers, its watches and its transactions.
const KAZOO: &str = r#"
import sys
from kazoo.client import KazooClient
one, other = [KazooClient(hosts=sys.argv[1]) for _ in range(2)]
one.start(); other.start()
changes = []
@other.ChildrenWatch("/kazoo", allow_session_lost=False) if other.ensure_path("/kazoo") else None
def changed(children): changes.append(sorted(children))
with one.Lock("/kazoo/lock", "one"):
    assert not other.Lock("/kazoo/lock", "other").acquire(blocking=False)
    assert one.Lock("/kazoo/lock").contenders() == ["one"]
transaction = one.transaction()
transaction.create("/kazoo/a", b"1"); transaction.check("/kazoo", 5); transaction.delete("/kazoo/a")
print([type(result).__name__ for result in transaction.commit()])
one.create("/kazoo/n-", b"", sequence=True, ephemeral=True)
one.stop()
other.sync("/kazoo")
print(other.get_children("/kazoo"), "watched" if changes else "not watched")
other.stop()
"#;

#[tokio::test]
async fn kazoo_can_use_it() {
    let Some(peers) = Peers::if_installed(Generation::Current) else { return };
    let server = MemoryServer::start().unwrap();
    let output = Command::new(peers.python).args(["-c", KAZOO, &server.connect_string()]).output();
    let output = tokio::time::timeout(BOUND, output).await.expect("in time").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = "['RolledBackError', 'BadVersionError', 'RuntimeInconsistency']\n['lock'] watched\n";
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&output.stderr));
}
