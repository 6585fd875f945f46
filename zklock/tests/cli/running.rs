//! `zklock run`: what the command gets and what becomes of its status.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::process::Command;
use zk_recipes::Client;
use zk_recipes::testing::MemoryServer;

use crate::holding::holding;
use crate::support::{bystander, children, connect, empty_server, ephemerals_below, mutex, queue_of, within};
use crate::zklock::{Running, UNTIL_TERM, done, json, zklock};

#[tokio::test]
async fn the_status_of_the_command_is_its_own() {
    let server = empty_server().await;
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -KILL $$", 137)] {
        let ended = done(&server, &["run", "/locks/a", "--", "sh", "-c", script]).await;
        assert_eq!(ended.code, Some(code), "{script}: {ended:?}");
    }
    for (command, code) in [("/nowhere/at-all", 127), ("/etc/passwd", 126), ("/", 126)] {
        let ended = done(&server, &["run", "/locks/a", "--", command]).await;
        assert_eq!(ended.code, Some(code), "{command}: {ended:?}");
        assert!(ended.errors.contains(command), "{ended:?}");
    }
    assert!(children(&bystander(&server).await, "/locks/a").await.is_empty());
}

#[tokio::test]
async fn arguments_are_those_of_no_shell() {
    let server = empty_server().await;
    let ended =
        done(&server, &["run", "/locks/a", "--", "printf", "%s|", "a b", "$HOME", "*", "--timeout"]).await;
    assert_eq!(ended.output, "a b|$HOME|*|--timeout|\n", "{ended:?}");
}

#[tokio::test]
async fn the_command_is_told_its_token_and_path() {
    let server = empty_server().await;
    let mut last = 0;
    for option in ["--timeout=1m", "--shared", "--permits=2"] {
        let path = format!("/locks/of{option}");
        let script = ["--", "sh", "-c", "echo $ZKLOCK_TOKEN $ZKLOCK_PATH"];
        let ended =
            done(&server, &[&["--namespace", "apps", "run", option, &path], &script[..]].concat()).await;
        let (token, told) = ended.output.trim().split_once(' ').unwrap();
        assert_eq!(told, path);
        let token: i64 = token.parse().unwrap();
        assert!(token > last, "{option}: {token} after {last}");
        last = token;
    }
}

#[tokio::test]
async fn a_lock_that_is_held_is_busy() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let guard = mutex(&client).acquire().await.unwrap();
    for limit in ["0", "300ms"] {
        let ended = done(&server, &["run", "--timeout", limit, "/locks/a", "--", "echo", "ran"]).await;
        assert_eq!((ended.code, &*ended.output), (Some(124), ""), "{limit}: {ended:?}");
        assert_eq!(children(&zookeeper, "/locks/a").await.len(), 1, "{limit}");
    }
    let waiting = Running::script(&server, &["--timeout", "5m", "/locks/a"], "exit 7");
    queue_of(&zookeeper, "/locks/a", 2).await;
    guard.release().await.unwrap();
    assert_eq!(waiting.ended().await.code, Some(7));
}

/// As many as there may be hold, and one more is busy.
async fn hold_together(option: &[&str]) {
    let server = empty_server().await;
    let is_shared = option.contains(&"--shared");
    let options = [option, &["/locks/a"]].concat();
    let mut holders = [(); 2].map(|()| Running::script(&server, &options, UNTIL_TERM));
    for holder in &mut holders {
        holder.says("started").await;
    }
    let other = if is_shared { &[][..] } else { option };
    let one_more = [&["run", "--timeout", "0"], other, &["/locks/a", "--", "true"]].concat();
    // A mutex at the path of a read/write lock is refused, and no permit is free.
    let code = done(&server, &one_more).await.code;
    assert_eq!(code, Some(if is_shared { 125 } else { 124 }));
    for holder in holders {
        holder.send(rustix::process::Signal::TERM);
        assert_eq!(holder.ended().await.code, Some(3));
    }
}

#[tokio::test]
async fn readers_hold_together() {
    hold_together(&["--shared"]).await;
}

#[tokio::test]
async fn a_writer_is_alone() {
    let server = empty_server().await;
    for [held, refused] in [["--shared", "--exclusive"], ["--exclusive", "--shared"], ["--exclusive"; 2]] {
        let mut running = Running::script(&server, &[held, "/rw"], UNTIL_TERM);
        running.says("started").await;
        let tried = done(&server, &["run", "--timeout", "0", refused, "/rw", "--", "true"]).await;
        assert_eq!(tried.code, Some(124), "{tried:?}");
        running.send(Signal::TERM);
        assert_eq!(running.ended().await.code, Some(3));
    }
}

#[tokio::test]
async fn permits_are_held_together() {
    hold_together(&["--permits", "2"]).await;
}

#[tokio::test]
async fn a_lost_lock_stops_the_command() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    // One that obeys, and one that does not.
    let obeys = Running::script(&server, &["/locks/a"], UNTIL_TERM);
    let stubborn = "trap 'echo TERM' TERM; echo started; while :; do sleep 0.05; done";
    let ignores = Running::script(&server, &["--grace", "500ms", "/locks/b"], stubborn);
    for (mut running, path, is_killed) in [(obeys, "/locks/a", false), (ignores, "/locks/b", true)] {
        running.says("started").await;
        let (_, session) = ephemerals_below(&zookeeper, path).await[0];
        server.kill_session(session).await.unwrap();
        running.says("TERM").await;
        let ended = running.ended().await;
        assert_eq!(ended.code, Some(120), "{ended:?}");
        assert!(ended.errors.contains(path), "{ended:?}");
        assert_eq!(ended.errors.contains("SIGKILL"), is_killed, "{ended:?}");
        queue_of(&zookeeper, path, 0).await;
    }
}

#[tokio::test]
async fn a_lock_that_was_taken_away_is_lost_however_the_command_ends() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let mut running =
        Running::script(&server, &["/locks/a"], "trap '' TERM; echo started; sleep 0.5; exit 0");
    running.says("started").await;
    let (node, _) = ephemerals_below(&zookeeper, "/locks/a").await.remove(0);
    within(zookeeper.delete(&node, None)).await.unwrap();
    assert_eq!(running.ended().await.code, Some(120));
}

#[tokio::test]
async fn wrong_arguments_are_told_from_the_status_of_a_command() {
    let server = empty_server().await;
    for arguments in [
        &["run", "/locks/a"][..],
        &["run", "--timeout", "soon", "/locks/a", "--", "true"],
        &["run", "--permits", "0", "/locks/a", "--", "true"],
        &["run", "--shared", "--permits", "2", "/locks/a", "--", "true"],
        &["run", "locks/a", "--", "true"],
        &["kick", "/locks/a"],
        &["ls", "--limit", "0"],
        &["unknown"],
        &[],
    ] {
        let ended = done(&server, arguments).await;
        assert_eq!((ended.code, &*ended.output), (Some(122), ""), "{arguments:?}: {ended:?}");
    }
    let mut nowhere = zklock("", &["ls"]);
    let ended = Running::start({
        nowhere.env("ZK_CONNECT", "");
        nowhere
    })
    .ended()
    .await;
    assert_eq!(ended.code, Some(122), "{ended:?}");
    let help = done(&server, &["--help"]).await;
    assert_eq!(help.code, Some(0));
    assert!(help.output.contains("Exit codes:") && help.output.contains("Examples:"), "{help:?}");
}

/// `zklock run` of a script in which `zklock` is this one, at the same servers.
pub(crate) fn nested(server: &MemoryServer, arguments: &[&str], script: &str) -> Running {
    let mut command = zklock(&server.connect_string(), &[arguments, &["--", "sh", "-c", script]].concat());
    command.env("ZK_CONNECT", server.connect_string()).env("ZKLOCK", env!("CARGO_BIN_EXE_zklock"));
    Running::start(command)
}

#[tokio::test]
async fn a_lock_that_an_outer_run_holds_is_refused() {
    let server = MemoryServer::start().unwrap();
    for (arguments, inner, code) in [
        (&["run", "/a"][..], "run /a", 117),
        (&["run", "/a"], "run /b -- $ZKLOCK run /a", 117),
        (&["--namespace", "apps", "run", "/a"], "run /apps/a", 117),
        (&["run", "--permits=1", "/p"], "run --permits=1 /p", 117),
        (&["elect", "/e"], "elect /e", 117),
        (&["run", "--shared", "/r"], "run --exclusive /r", 117),
        (&["run", "--exclusive", "/r"], "run --shared /r", 117),
        // The limit ends it.
        (&["run", "/a"], "run --timeout=0 /a", 124),
        // There is room.
        (&["run", "--permits=2", "/p"], "run --permits=2 /p", 7),
        (&["run", "--shared", "/r"], "run --shared /r", 7),
        (&["run", "/a"], "run /b", 7),
    ] {
        let script = format!("$ZKLOCK {inner} -- sh -c 'exit 7'");
        let ended = nested(&server, arguments, &script).ended().await;
        assert_eq!(ended.code, Some(code), "{inner}: {ended:?}");
        assert_eq!(ended.errors.contains("outer"), code != 7, "{inner}: {ended:?}");
    }
}

/// It is still told of the holds that it was started under.
#[tokio::test]
async fn what_outlives_an_outer_run_may_take_its_lock() {
    let server = MemoryServer::start().unwrap();
    let outer = nested(&server, &["run", "/a"], "echo \"$ZKLOCK_HELD\"").ended().await;
    assert!(outer.output.starts_with("0x") && outer.output.contains(" /a/"), "{outer:?}");
    let mut later = zklock(&server.connect_string(), &["run", "/a", "--", "true"]);
    let ended = Running::start({
        later.env("ZKLOCK_HELD", outer.output.trim());
        later
    });
    let ended = ended.ended().await;
    assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{ended:?}");
}

#[tokio::test]
async fn a_nested_wait_says_what_is_held_meanwhile() {
    let server = MemoryServer::start().unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    let waiting = nested(&server, &["run", "/outer"], "exec $ZKLOCK run /locks/a -- true");
    waiting.complains("while an outer zklock holds /outer").await;
    guard.release().await.unwrap();
    assert_eq!(waiting.ended().await.code, Some(0));
}

#[tokio::test]
async fn a_script_is_that_of_a_shell() {
    let server = empty_server().await;
    for command in ["run", "elect"] {
        let ended =
            done(&server, &[command, "/locks/a/", "-c", "echo $ZKLOCK_PATH | tr a-z A-Z; exit 7"]).await;
        assert_eq!((ended.code, &*ended.output), (Some(7), "/LOCKS/A\n"), "{ended:?}");
    }
    for both in [&["-c", "true", "--", "true"][..], &[]] {
        let ended = done(&server, &[&["run", "/locks/a"], both].concat()).await;
        assert_eq!(ended.code, Some(122), "{ended:?}");
    }
}

#[tokio::test]
async fn the_exit_code_of_a_conflict_can_be_given() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let _guard = mutex(&client).acquire().await.unwrap();
    let options = ["--conflict-exit-code", "0", "--timeout", "0m0s", "/locks/a"];
    let (holding, _input) = holding(&server, &options);
    for running in [Running::script(&server, &options, "echo ran"), holding] {
        let ended = running.ended().await;
        assert_eq!((ended.code, &*ended.output), (Some(0), ""), "{ended:?}");
        assert!(ended.errors.contains("cannot acquire /locks/a"), "{ended:?}");
    }
}

#[tokio::test]
async fn others_are_told_a_name() {
    let server = empty_server().await;
    let named = Running::script(&server, &["--name", "nightly backup", "/locks/a"], UNTIL_TERM);
    let by_default = Running::script(&server, &["/locks/b"], UNTIL_TERM);
    for (mut running, path, name) in [(named, "/locks/a", "nightly backup"), (by_default, "/locks/b", ":sh")]
    {
        running.says("started").await;
        let shown = json(&server, &["show", "--json", path]).await;
        let program =
            shown["participants"][0]["program"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned();
        assert!(program.ends_with(name), "{program}");
        running.send(Signal::TERM);
        assert_eq!(running.ended().await.code, Some(3));
    }
}

/// The shell that has started it dies, and does not tell it.
#[tokio::test]
async fn it_can_end_with_what_has_started_it() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let command =
        zklock(&server.connect_string(), &["run", "--die-with-parent", "/locks/a", "-c", UNTIL_TERM]);
    // Not its last command, which it would become.
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$@\"; exit 1", "sh"]).arg(command.as_std().get_program());
    shell
        .args(command.as_std().get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut shell = Running::start(shell);
    shell.says("started").await;
    shell.send(Signal::KILL);
    shell.says("TERM").await;
    queue_of(&zookeeper, "/locks/a", 0).await;
}

/// In a container without an init, nothing else reaps what the command has left behind.
#[tokio::test]
async fn what_is_dead_is_not_waited_for_in_a_container() {
    let container = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    // Not every user may make one.
    let tried = Command::new("unshare").args(container).arg("true").stderr(Stdio::null()).status().await;
    if !tried.is_ok_and(|status| status.success()) {
        return;
    }
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let script = "sleep 1000 & echo started; exec sleep 1000";
    let inner =
        zklock(&server.connect_string(), &["run", "--grace=10m", "/locks/a", "--", "sh", "-c", script]);
    let mut command = Command::new("unshare");
    command.args(container).arg(inner.as_std().get_program());
    command.args(inner.as_std().get_args()).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(command);
    running.says("started").await;
    let (_, session) = ephemerals_below(&zookeeper, "/locks/a").await[0];
    server.kill_session(session).await.unwrap();
    let ended = running.ended().await;
    assert_eq!(ended.code, Some(120), "{ended:?}");
}
