//! `zklock run` as the session leader of a terminal, as under `ssh -t`, `docker run -it` or `tmux new`.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, Winsize, tcflow, tcsetwinsize};
use tokio::process::{Child, Command};
use zk_recipes::testing::MemoryServer;
use zk_recipes::{Client, LockGuard};

use crate::support::{bystander_of, empty_server, ephemerals_below, mutex, queue_of, until, within};
use crate::zklock::zklock;

/// A process that leads the session of a terminal.
struct Leader {
    process: Child,
    /// The end of a terminal emulator.
    keyboard: File,
    /// The end of programs.
    terminal: File,
}

impl Leader {
    fn start(command: &Command, columns: u16) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let no_terminal_of_ours = rustix::fs::OFlags::NOCTTY.bits().try_into().unwrap();
        let slave =
            File::options().read(true).write(true).custom_flags(no_terminal_of_ours).open(slave).unwrap();
        tcsetwinsize(&slave, Winsize { ws_row: 20, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut leader = Command::new("setsid");
        leader.arg("--ctty").arg(command.as_std().get_program()).args(command.as_std().get_args());
        let [input, output, errors] = [(); 3].map(|()| slave.try_clone().unwrap());
        leader.stdin(input).stdout(output).stderr(errors).kill_on_drop(true);
        Self { process: leader.spawn().unwrap(), keyboard: master.into(), terminal: slave }
    }

    /// What appears on the terminal.
    fn screen(&self) -> Arc<Mutex<String>> {
        let screen = Arc::<Mutex<String>>::default();
        let (mut output, seen) = (self.keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = output.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        screen
    }

    async fn exit_code(&mut self) -> Option<i32> {
        within(self.process.wait()).await.unwrap().code()
    }
}

/// The kernel tells the session leader only.
#[tokio::test]
async fn the_command_is_told_that_the_terminal_is_gone() {
    let server = empty_server().await;
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("told");
    let script = format!(
        "trap 'echo HUP >>{0}; exit 3' HUP; echo started >{0}; while :; do sleep 0.05; done",
        told.display()
    );
    let run = zklock(&server.connect_string(), &["run", "/locks/a", "--", "sh", "-c", &script]);
    let Leader { mut process, keyboard, .. } = Leader::start(&run, 100);
    let read = || std::fs::read_to_string(&told).unwrap_or_default();
    until("it has started", || read() == "started\n").await;
    drop(keyboard);
    assert_eq!(within(process.wait()).await.unwrap().code(), Some(3));
    assert_eq!(read(), "started\nHUP\n");
}

/// One outlasts an exec, as in `perl -e 'alarm shift; exec @ARGV' 60 zklock run ...`.
#[tokio::test]
async fn an_alarm_of_the_kernel_reaches_the_command() {
    let server = empty_server().await;
    let script = "trap 'echo ALRM; exit 3' ALRM; while :; do sleep 0.05; done";
    let run = zklock(&server.connect_string(), &["run", "/locks/a", "--", "sh", "-c", script]);
    let mut alarmed = Command::new("perl");
    alarmed.args(["-e", "alarm 2; exec @ARGV"]).arg(run.as_std().get_program()).args(run.as_std().get_args());
    let mut leader = Leader::start(&alarmed, 100);
    let _screen = leader.screen();
    assert_eq!(leader.exit_code().await, Some(3));
}

/// As on serial lines, and terminals without an emulator.
#[tokio::test]
async fn a_terminal_of_unknown_size_shows_who_holds_the_lock() {
    let server = empty_server().await;
    let client = crate::support::connect(&server).await;
    let _guard = mutex(&client).acquire().await.unwrap();
    let run = zklock(&server.connect_string(), &["run", "/locks/a", "--", "true"]);
    let leader = Leader::start(&run, 0);
    let screen = leader.screen();
    until("it says so", || screen.lock().unwrap().contains("waits for /locks/a")).await;
}

/// The lock is lost while a terminal that was stopped, as by Ctrl-S, does not show what comes before the command.
#[tokio::test]
async fn nothing_is_run_under_a_lock_that_is_lost_already() {
    let server = MemoryServer::start().unwrap();
    let zookeeper = bystander_of(&server.connect_string()).await;
    let client = Client::connect(&server.connect_string()).await.unwrap();
    // To try to run it gives another exit code.
    let run = zklock(&server.connect_string(), &["run", "/locks/a", "--", "/missing"]);
    let number =
        |guard: &LockGuard| guard.node_path()[guard.node_path().len() - 10..].parse::<u32>().unwrap();
    loop {
        let guard = mutex(&client).acquire().await.unwrap();
        let first = number(&guard);
        let mut leader = Leader::start(&run, 100);
        let screen = leader.screen();
        until("it waits", || screen.lock().unwrap().contains("waits for")).await;
        tcflow(&leader.terminal, Action::OOff).unwrap();
        let start = Instant::now();
        guard.release().await.unwrap();
        queue_of(&zookeeper, "/locks/a", 1).await;
        let (_, session) = ephemerals_below(&zookeeper, "/locks/a").await[0];
        server.kill_session(session).await.unwrap();
        // It has learnt of the end of one session when it has another, beside those of this test.
        let has_another = async || {
            let clients = server.four_letter_word("cons").await.unwrap();
            !clients.contains(&format!("sid={session:#x},")) && clients.matches("sid=").count() == 3
        };
        while !has_another().await && leader.process.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let took = start.elapsed();
        let code = leader.exit_code().await;
        // If it was lost before it was granted, it has queued again; and after a second the command is run.
        let has_queued_once = number(&mutex(&client).acquire().await.unwrap()) == first + 2;
        if has_queued_once && took < Duration::from_millis(500) {
            assert_eq!(code, Some(120), "{screen:?}");
            return;
        }
    }
}
