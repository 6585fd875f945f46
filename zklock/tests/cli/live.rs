//! `zklock watch` and `zklock top`.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use tokio::process::Child;
use zk_recipes::Client;
use zk_recipes::testing::MemoryServer;

use crate::support::{
    Server, acquire_in_task, bystander, connect, connect_many, empty_server, eventually, mutex, queue_of,
    within,
};
use crate::zklock::{Running, done, zklock};

const OFTEN: [&str; 2] = ["--every", "100ms"];

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[tokio::test]
async fn without_a_terminal_it_refuses() {
    let server = empty_server().await;
    for command in [&["watch", "/locks/a"][..], &["top"]] {
        let ended = done(&server, command).await;
        assert_eq!((ended.code, &*ended.output), (Some(122), ""), "{ended:?}");
        assert!(ended.errors.contains("--json"), "{ended:?}");
    }
}

#[tokio::test]
async fn what_is_not_there_yet_is_waited_for() {
    let server = empty_server().await;
    let start = |arguments: &[&str]| {
        Running::start(zklock(&server.connect_string(), &[arguments, &OFTEN, &["--json"]].concat()))
    };
    let mut lives = [start(&["watch", "/locks/a"]), start(&["top", "/locks"])];
    for live in &mut lives {
        assert_eq!(json(&live.line().await)["exists"], false);
    }
    let _guard = mutex(&connect(&server).await).acquire().await.unwrap();
    for (live, found) in lives.iter_mut().zip(["participants", "locks"]) {
        // Its path may come first.
        loop {
            let line = json(&live.line().await);
            assert_eq!(line["exists"], true, "{line}");
            if line[found].as_array().unwrap().len() == 1 {
                break;
            }
        }
    }
}

#[tokio::test]
async fn each_change_is_a_line_of_json() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let [first, second] = connect_many(&server).await;
    let guard = mutex(&first).acquire().await.unwrap();
    let start = |arguments: &[&str]| {
        Running::start(zklock(&server.connect_string(), &[arguments, &OFTEN, &["--json"]].concat()))
    };
    let mut watch = start(&["watch", "/locks/a"]);
    let mut top = start(&["top", "/locks"]);
    let states = |line: &str| {
        let line = json(line);
        let participants = line["participants"].as_array().unwrap().iter();
        participants.map(|participant| participant["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let counts = |line: &str| {
        let lock = &json(line)["locks"][0];
        ["path", "holders", "waiters"].map(|key| lock[key].to_string())
    };
    assert_eq!(states(&watch.line().await), ["holder"]);
    assert_eq!(counts(&top.line().await), ["\"/locks/a\"", "1", "0"]);
    let waiting = acquire_in_task(&mutex(&second));
    queue_of(&zookeeper, "/locks/a", 2).await;
    assert_eq!(states(&watch.line().await), ["holder", "waiting"]);
    let line = top.line().await;
    assert_eq!(counts(&line), ["\"/locks/a\"", "1", "1"]);
    let lock = &json(&line)["locks"][0];
    assert!(lock["held_ms"].as_u64() >= lock["waited_ms"].as_u64() && lock["waited_ms"].is_u64(), "{lock}");
    guard.release().await.unwrap();
    let _held = within(waiting).await.unwrap().unwrap();
    assert_eq!(states(&watch.line().await), ["holder"]);
    watch.send(Signal::TERM);
    top.send(Signal::INT);
    let (watch, top) = (watch.ended().await, top.ended().await);
    assert_eq!((watch.code, &*watch.output), (Some(143), ""), "{watch:?}");
    assert_eq!(top.code, Some(130), "{top:?}");
}

/// It must not go on for nobody, also where nothing changes: behind a pipe, or a socket as of ssh.
#[tokio::test]
async fn it_ends_with_its_reader() {
    let server = MemoryServer::start().unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    let _guard = mutex(&client).acquire().await.unwrap();
    let command =
        |every| zklock(&server.connect_string(), &["watch", "--json", "/locks/a", "--every", every]);
    for every in ["100ms", "1h"] {
        let mut process = command(every).spawn().unwrap();
        let mut output = tokio::io::BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        within(tokio::io::AsyncBufReadExt::read_line(&mut output, &mut line)).await.unwrap();
        drop(output);
        assert_eq!(within(process.wait()).await.unwrap().code(), Some(0), "{every}");
    }
    let (ours, its) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut process = command("1h").stdout(OwnedFd::from(its)).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(ours), &mut line).unwrap();
    assert!(line.contains("holder"), "{line}");
    assert_eq!(within(process.wait()).await.unwrap().code(), Some(0));
}

/// Long before the session is over, and whether servers end or only keep silent.
#[tokio::test]
async fn what_is_not_known_any_more_is_said() {
    for is_silent in [false, true] {
        let mut server = MemoryServer::start().unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let _guard = mutex(&client).acquire().await.unwrap();
        let patient = ["--session-timeout=5m", "--connect-timeout=5m", "--every=100ms"];
        let mut terminal =
            Shown::start_at(&server.connect_string(), &[&["watch", "/locks/a"], &patient[..]].concat());
        let top = [&["top", "--json"], &patient[..]].concat();
        let mut lines = Running::start(zklock(&server.connect_string(), &top));
        terminal.shows("mutex").await;
        assert!(lines.line().await.contains("/locks/a"));
        if is_silent {
            server.pause().unwrap()
        } else {
            server.stop().await.unwrap()
        }
        terminal.shows("old: ").await;
        lines.complains("old").await;
        if is_silent {
            server.resume().unwrap()
        } else {
            server.restart().await.unwrap()
        }
        lines.complains("answer again").await;
        terminal.types(b"q");
        assert_eq!(terminal.ended().await, Some(0));
    }
}

/// A terminal with the command in it.
pub(crate) struct Shown {
    process: Child,
    /// The end of a terminal emulator.
    keyboard: File,
    /// The end of the command, to see the modes.
    slave: File,
    pub(crate) screen: Arc<Mutex<String>>,
}

impl Shown {
    pub(crate) fn start(server: &Server, arguments: &[&str]) -> Self {
        Self::start_at(&server.connect_string(), arguments)
    }

    fn start_at(connect: &str, arguments: &[&str]) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(slave).unwrap();
        tcsetwinsize(&slave, Winsize { ws_row: 20, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut command = zklock(connect, arguments);
        let [input, output, errors] = [(); 3].map(|()| slave.try_clone().unwrap());
        command.stdin(input).stdout(output).stderr(errors);
        let process = command.env("TERM", "xterm").spawn().unwrap();
        let screen = Arc::<Mutex<String>>::default();
        let keyboard = File::from(master);
        let (mut output, seen) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = output.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { process, keyboard, slave, screen }
    }

    pub(crate) async fn shows(&self, text: &str) {
        eventually(text, || async { self.screen.lock().unwrap().contains(text).then_some(()) }).await;
    }

    pub(crate) fn types(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    pub(crate) fn send(&self, signal: Signal) {
        let id = self.process.id().unwrap().try_into().unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        within(self.process.wait()).await.unwrap().code()
    }

    /// Its exit code, with the terminal as it was.
    async fn ended(mut self) -> Option<i32> {
        let code = self.exit_code().await;
        self.shows("\u{1b}[?1049l").await;
        assert!(!self.is_raw(), "{:?}", self.screen);
        code
    }
}

#[tokio::test]
async fn it_is_shown_until_the_user_ends_it() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let _guard = mutex(&client).acquire().await.unwrap();
    for (arguments, shown) in
        [(&["watch", "/locks/a"][..], "/locks/a: mutex, 1 holder, 0 waiters"), (&["top"], "/: 1 lock in use")]
    {
        for key in [&b"q"[..], b"\x03", b"\x1b"] {
            let mut terminal = Shown::start(&server, arguments);
            terminal.shows(shown).await;
            assert!(terminal.is_raw());
            terminal.types(key);
            assert_eq!(terminal.ended().await, Some(0), "{key:?}");
        }
    }
}

#[tokio::test]
async fn the_terminal_is_restored_after_signals_and_outages() {
    let mut server = empty_server().await;
    let client = connect(&server).await;
    let _guard = mutex(&client).acquire().await.unwrap();
    let terminal = Shown::start(&server, &["watch", "/locks/a"]);
    terminal.shows("mutex").await;
    let pid = Pid::from_raw(terminal.process.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(terminal.ended().await, Some(143));

    let impatient = ["--session-timeout=2s", "--connect-timeout=300ms", "watch", "/locks/a"];
    let mut terminal = Shown::start(&server, &[&impatient[..], &OFTEN].concat());
    terminal.shows("mutex").await;
    server.kill().await.unwrap();
    terminal.shows("old: ").await;
    terminal.types(b"q");
    assert_eq!(terminal.ended().await, Some(0));
}
