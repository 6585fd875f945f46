//! `zklock run`: what it says while it waits.

use zk_recipes::LockOptions;

use crate::live::Shown;
use crate::support::{
    acquire_in_task, bystander, connect, connect_many, empty_server, mutex, queue_of, within,
};
use crate::zklock::{Running, done};

const WIPED: &str = "\r\u{1b}[K";

#[tokio::test]
async fn on_a_terminal_a_line_says_who_holds_the_lock_and_how_many_are_before_us() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [holder, other] = connect_many(&server).await;
    let named = mutex(&holder).with_options(LockOptions::new().node_data("web-3")).unwrap();
    let guard = named.acquire().await.unwrap();
    let second = acquire_in_task(&mutex(&other));
    queue_of(&zookeeper, "/locks/a", 2).await;
    let mut terminal = Shown::start(&server, &["run", "/locks/a", "--", "echo", "done"]);
    terminal.shows("waits for /locks/a: 1 waiter before us; held for ").await;
    terminal.shows(" by web-3").await;
    // In the same place.
    guard.release().await.unwrap();
    let second = within(second).await.unwrap().unwrap();
    terminal.shows(&format!("{WIPED}\u{1b}[?7lzklock: waits")).await;
    terminal.shows("we are next; ").await;
    // It is gone before the command says anything.
    second.release().await.unwrap();
    assert_eq!(terminal.exit_code().await, Some(0));
    terminal.shows(&format!("{WIPED}done\r\n")).await;
}

#[tokio::test]
async fn without_a_terminal_it_says_so_only_if_it_is_asked_to() {
    let server = empty_server().await;
    let [holder] = connect_many(&server).await;
    let guard = mutex(&holder).acquire().await.unwrap();
    let ended = done(&server, &["run", "--timeout", "3s", "/locks/a", "--", "true"]).await;
    assert_eq!((ended.code, ended.errors.lines().count()), (Some(124), 1), "{ended:?}");
    assert!(!ended.errors.contains("waits for "), "{ended:?}");
    // A line for each change.
    let waiting = Running::script(&server, &["--verbose", "/locks/a"], "exit 7");
    waiting.complains("waits for /locks/a: we are next; held for ").await;
    guard.release().await.unwrap();
    let ended = waiting.ended().await;
    let lines = ended.errors.lines().filter(|line| line.contains("we are next; held for ")).count();
    assert_eq!((ended.code, lines), (Some(7), 1), "{ended:?}");
    assert!(!ended.errors.contains('\u{1b}'), "{ended:?}");
}

#[tokio::test]
async fn who_waits_for_a_permit_says_so() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let guard = zk_recipes::Semaphore::new(&client, "/permits", 1).unwrap().acquire().await.unwrap();
    let waiting = Running::script(&server, &["--verbose", "--permits=1", "/permits"], "exit 7");
    waiting.complains("waits for /permits: we are next; held for ").await;
    guard.release().await.unwrap();
    assert_eq!(waiting.ended().await.code, Some(7));
}

#[tokio::test]
async fn it_can_be_quiet() {
    let server = empty_server().await;
    let [holder] = connect_many(&server).await;
    let _guard = mutex(&holder).acquire().await.unwrap();
    let mut terminal =
        Shown::start(&server, &["run", "--quiet", "--timeout", "3s", "/locks/a", "--", "true"]);
    assert_eq!(terminal.exit_code().await, Some(124));
    terminal.shows("cannot acquire").await;
    assert!(!terminal.screen.lock().unwrap().contains("waits for"), "{:?}", terminal.screen);
}
