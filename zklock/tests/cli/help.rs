//! `zklock --help`.

use crate::zklock::{Running, zklock};

async fn help(arguments: &[&str]) -> String {
    let ended = Running::start(zklock("nowhere", arguments)).ended().await;
    assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{ended:?}");
    ended.output
}

#[tokio::test]
async fn each_command_is_described() {
    let short = help(&["--help"]).await;
    for (command, line, more) in [
        ("run", "Runs a command under a lock", "ZKLOCK_TOKEN"),
        ("hold", "Holds a lock without a command", "the fencing token and the node"),
        ("elect", "Runs a command for as long as this process is the elected leader", "the latch of Curator"),
        ("show", "Shows who holds a lock and who waits for it", "A path that does not exist is an error"),
        ("ls", "Lists the locks, semaphores and elections below a path", "holds or waits for"),
        ("watch", "Shows who holds a lock and who waits for it, live", "Esc or Ctrl-C"),
        ("top", "Shows the longest waits and holds below a path, live", "Esc or Ctrl-C"),
        ("deadlocks", "Finds sessions that wait for one another", "with independent tasks"),
        ("doctor", "Checks whether the servers are fit for locks", "throwaway path"),
        ("ask", "Asks the holders of a lock to give it back", "leaders resign"),
        ("kick", "Takes a lock away from its holders, or from one participant", "may not notice at once"),
        ("completions", "Prints a script by which a shell completes", "bash-completion"),
    ] {
        assert!(
            short
                .lines()
                .any(|shown| shown.trim().starts_with(&format!("{command} ")) && shown.contains(line)),
            "{short}"
        );
        let long = help(&[command, "--help"]).await;
        assert!(long.starts_with(line) && long.contains(more), "{long}");
    }
    assert!(
        short.contains("119  deadlocks found one")
            && help(&["run", "--help"]).await.contains("127  the command was not found")
    );
}

/// What the servers are can be said by the environment, and is an option in any case.
#[tokio::test]
async fn options_do_not_look_required() {
    for command in ["run", "hold", "elect", "show", "watch", "ask", "kick", "completions"] {
        let ended = Running::start(zklock("nowhere", &[command, "--connect", "nowhere"])).ended().await;
        let usage = ended.errors.lines().find(|line| line.starts_with("Usage: "));
        let of_help = help(&[command, "--help"]).await;
        let of_help = of_help.lines().find(|line| line.starts_with("Usage: ")).map(str::to_owned);
        assert_eq!(usage, of_help.as_deref(), "{ended:?}");
        assert!(usage.unwrap().starts_with(&format!("Usage: zklock {command} [OPTIONS] <")), "{ended:?}");
    }
}
