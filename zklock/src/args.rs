//! The command line.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::{BUSY, TABLE};
use crate::time::parse_duration;

const EXAMPLES: &str = "\
Examples:
  export ZK_CONNECT=zk1:2181,zk2:2181,zk3:2181
  zklock run /locks/backup -- ./backup.sh           one at a time, on all machines
  zklock run --timeout 0 /locks/nightly -- make     only if nobody else does
  zklock run --shared /locks/catalogue -- ./report  beside other readers, and
  zklock run --exclusive /locks/catalogue -- ./fill  not beside them
  zklock run --permits 4 /licences/cad -- ./render  at most four
  zklock hold /locks/backup                         without a command, until Ctrl-C
  zklock show /locks/backup                         who holds it, and who waits
  zklock ls /locks                                  all locks below a path
  zklock ls --all /app                              groups, services, counters and others as well
  zklock watch /locks/backup                        what `show` prints, live
  zklock top /locks                                 the longest waits and holds, live
  zklock deadlocks /locks                           sessions that wait for one another
  zklock doctor /locks                              whether the servers are fit for locks
  zklock ask /locks/backup                          asks the holder to give it back
  zklock kick /locks/backup                         takes it away";

/// Runs commands under ZooKeeper locks that programs on Curator, kazoo, go-zookeeper and zk-recipes share.
#[derive(Debug, Parser)]
#[command(name = "zklock", version, after_help = format!("{EXAMPLES}\n\n{TABLE}"))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// What others call this process.
    #[arg(skip)]
    pub(crate) name: Option<String>,
    /// The servers: `host:port[,host:port...][/chroot]`
    #[arg(long, global = true, value_name = "SERVERS", env = "ZK_CONNECT", hide_env_values = true)]
    pub(crate) connect: Option<String>,
    /// What all paths are below of, as Curator's namespace
    #[arg(long, global = true, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) namespace: String,
    /// A file with user:password for digest authentication; by default, what is in ZKLOCK_AUTH
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
    /// Uses these credentials for SASL with DIGEST-MD5, in place of digest authentication
    #[arg(long, global = true)]
    pub(crate) sasl: bool,
    /// Encrypts, and trusts the certificates in this PEM file only
    #[arg(long, global = true, value_name = "FILE", env = "ZKLOCK_TLS_CA", hide_env_values = true)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The certificate of this client, as PEM
    #[arg(long, global = true, value_name = "FILE", requires_all = ["tls_ca", "tls_key"], env = "ZKLOCK_TLS_CERT", hide_env_values = true)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        requires = "tls_cert",
        env = "ZKLOCK_TLS_KEY",
        hide_env_values = true
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// Only clients with the same authentication may use the nodes that are created
    #[arg(long, global = true)]
    pub(crate) creator_only: bool,
    /// How long the servers keep a lock whose holder is silent
    #[arg(long, global = true, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    pub(crate) session_timeout: Duration,
    /// How long an attempt to reach the servers may take
    #[arg(long, global = true, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    pub(crate) connect_timeout: Duration,
}

// Each is described where its arguments are: a description here would replace it. Those with arguments that are required
// have their usage written out: that of an error would show `--connect` as required, too, once it is given.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Hold(Hold),
    Elect(Elect),
    Show(Show),
    Ls(Ls),
    Watch(Watch),
    Top(Top),
    Deadlocks(Deadlocks),
    Doctor(Doctor),
    Ask(Ask),
    Kick(Kick),
    Completions(Completions),
}

/// Runs a command under a lock
///
/// Exits with the status of the command. The command finds its fencing token in ZKLOCK_TOKEN and the path of the
/// lock in ZKLOCK_PATH. A lock that an outer zklock holds, by ZKLOCK_HELD, is refused. It is run without a shell. SIGALRM,
/// SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 and SIGWINCH are forwarded to it; while zklock waits for the
/// lock, SIGHUP, SIGINT, SIGQUIT and SIGTERM end the wait, and the others do nothing.
///
/// After a wait of 2s, a line on the terminal says who holds the lock, for how long, and how many wait before this one.
///
/// Without a controlling terminal, the command has a process group of its own, and signals are sent to the whole
/// group. With one it stays in the group of zklock, so that it can use the terminal; then it gets what is typed, such
/// as Ctrl-C, from the terminal only, and other signals go to the command but not to its children.
///
/// If the lock is lost, the command gets SIGTERM, and SIGKILL after --grace. The next holder may be at work by then:
/// have what the lock protects refuse old tokens.
#[derive(Debug, Args)]
#[command(after_help = TABLE, override_usage = "zklock run [OPTIONS] <PATH> -- <COMMAND>...\n       zklock run [OPTIONS] <PATH> -c <SCRIPT>")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    #[command(flatten)]
    pub(crate) supervised: Supervised,
}

/// Holds a lock without a command
///
/// Once it has the lock, it prints a line with the fencing token and the node. It gives the lock back on SIGHUP, SIGINT,
/// SIGQUIT or SIGTERM, or when its standard input ends, unless that is a terminal: exit code 0. If the lock is lost, it
/// ends at once.
#[derive(Debug, Args)]
#[command(after_help = TABLE, override_usage = "zklock hold [OPTIONS] <PATH>")]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    #[command(flatten)]
    pub(crate) shown: Shown,
    /// The path of the lock
    #[arg(value_parser = path)]
    pub(crate) path: String,
}

// A lock, and how it is waited for. A description would replace that of what contains it.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// How long to wait for the lock, such as 5s or 1m30s; 0 tries once. Without it, waits without end
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// The exit code if the lock was not free within --timeout
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = BUSY)]
    pub(crate) conflict_exit_code: u8,
    /// Says nothing while it waits
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Says without a terminal, too, what it waits for
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Takes the read lock of a read/write lock, beside other readers
    #[arg(long, conflicts_with_all = ["exclusive", "permits"])]
    pub(crate) shared: bool,
    /// Takes the write lock of a read/write lock, alone
    #[arg(long, conflicts_with = "permits")]
    pub(crate) exclusive: bool,
    /// Takes one of N permits; N must be the same everywhere
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) permits: Option<u32>,
}

// How this process is shown to others, and when it ends with them. A description would replace that of what contains it.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// What `show`, `ls`, `top` and `deadlocks` call this process; by default the user and the command
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Ends as by SIGTERM when the process dies that has started this one
    #[arg(long)]
    pub(crate) die_with_parent: bool,
}

// A command, and the path under which it runs. A description would replace that of what contains it.
#[derive(Debug, Args)]
pub(crate) struct Supervised {
    /// How long the command has after SIGTERM when the lock is lost or the leadership ends
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) grace: Duration,
    #[command(flatten)]
    pub(crate) shown: Shown,
    /// Runs this by `sh -c` in place of a command
    #[arg(short = 'c', long = "shell", value_name = "SCRIPT", conflicts_with = "command")]
    script: Option<OsString>,
    /// The path of the lock or election
    #[arg(value_parser = path)]
    pub(crate) path: String,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "script", value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Supervised {
    /// The program and its arguments.
    pub(crate) fn command(&self) -> Vec<OsString> {
        match &self.script {
            Some(script) => vec!["sh".into(), "-c".into(), script.clone()],
            None => self.command.clone(),
        }
    }
}

/// Runs a command for as long as this process is the elected leader, each time it is
///
/// Stands for election at a path, with the latch of Curator and zk-recipes.
///
/// When the leadership ends, the command gets SIGTERM, and SIGKILL after --grace; then zklock stands for election
/// again. When the command ends by itself, zklock resigns and ends with its exit status. Signals and the environment of
/// the command are those of `zklock run`.
#[derive(Debug, Args)]
#[command(after_help = TABLE, override_usage = "zklock elect [OPTIONS] <PATH> -- <COMMAND>...\n       zklock elect [OPTIONS] <PATH> -c <SCRIPT>")]
pub(crate) struct Elect {
    #[command(flatten)]
    pub(crate) supervised: Supervised,
}

/// Shows who holds a lock and who waits for it
///
/// They are in the order of the queue.
/// A path that does not exist is an error. Servers remove the path of a lock that has been unused for a while.
#[derive(Debug, Args)]
#[command(override_usage = "zklock show [OPTIONS] <PATH>")]
pub(crate) struct Show {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The path of a lock, semaphore or election
    #[arg(value_parser = path)]
    pub(crate) path: String,
}

/// Lists the locks, semaphores and elections below a path
///
/// Those that somebody holds or waits for.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Also lists groups, barriers, services, counters, TTL nodes and other data, as far as they can be told apart
    #[arg(long)]
    pub(crate) all: bool,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Stops after having listed this many nodes
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = limit)]
    pub(crate) limit: usize,
    /// Where to begin
    #[arg(default_value = "/", value_parser = path)]
    pub(crate) path: String,
}

/// Shows who holds a lock and who waits for it, live
///
/// Press q, Esc or Ctrl-C to end.
#[derive(Debug, Args)]
#[command(override_usage = "zklock watch [OPTIONS] <PATH>")]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) live: Live,
    /// The path of a lock, semaphore or election
    #[arg(value_parser = path)]
    pub(crate) path: String,
}

/// Shows the longest waits and holds below a path, live
///
/// The longest waits come first, then the longest holds. Press q, Esc or Ctrl-C to end.
#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) live: Live,
    /// Lists at most this many nodes each time
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = limit)]
    pub(crate) limit: usize,
    /// Where to begin
    #[arg(default_value = "/", value_parser = path)]
    pub(crate) path: String,
}

// What is shown again and again. A description would replace that of what contains it.
#[derive(Debug, Args)]
pub(crate) struct Live {
    /// How long to wait before reading again
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) every: Duration,
    /// Prints a line of JSON now and at each change, also without a terminal
    #[arg(long)]
    pub(crate) json: bool,
}

/// Finds sessions that wait for one another
///
/// Reads the locks and semaphores below the paths twice, and prints each cycle that it finds both times, with its
/// holders and waiters. A session counts as one task, since nodes do not tell which task created them; in a
/// program with independent tasks, a cycle may be no deadlock. Leader latches are left out, as candidates wait in
/// several elections at once; leader selectors cannot be told from mutexes. Runs below one another have a session each,
/// so their deadlocks are not seen. Exits with 119 if there is a cycle.
#[derive(Debug, Args)]
pub(crate) struct Deadlocks {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Stops after having listed this many nodes below each path
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = limit)]
    pub(crate) limit: usize,
    /// How long to wait between the two reads
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) confirm_after: Duration,
    /// Where to look
    #[arg(default_value = "/", value_parser = path)]
    pub(crate) paths: Vec<String>,
}

/// Checks whether the servers are fit for locks
///
/// Looks at versions, settings and load, as far as the servers tell; the session timeout; a lock on a throwaway path;
/// clocks; and who may change the given paths. Exits with 118 if there is a problem.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Whose ACLs to check
    #[arg(value_parser = path)]
    pub(crate) paths: Vec<String>,
}

/// Prints a script by which a shell completes commands and options
///
/// For example: zklock completions bash > ~/.local/share/bash-completion/completions/zklock
#[derive(Debug, Args)]
#[command(override_usage = "zklock completions [OPTIONS] <SHELL>")]
pub(crate) struct Completions {
    /// Which one
    pub(crate) shell: Shell,
}

/// Shells that can complete.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Asks the holders of a lock to give it back
///
/// They decide: leaders resign, others must have been written for it.
#[derive(Debug, Args)]
#[command(override_usage = "zklock ask [OPTIONS] <PATH>")]
pub(crate) struct Ask {
    /// Also holders that are not of this library: the request overwrites their names, and they may never answer
    #[arg(long)]
    pub(crate) force: bool,
    /// The path of a lock, semaphore or election
    #[arg(value_parser = path)]
    pub(crate) path: String,
}

/// Takes a lock away from its holders, or from one participant
///
/// Deletes the node. A holder that still works may not notice at once, while the next one begins. Without a terminal, --yes is needed.
#[derive(Debug, Args)]
#[command(override_usage = "zklock kick [OPTIONS] <PATH>")]
pub(crate) struct Kick {
    /// Only this one, a holder or a waiter: the name of its node, as `zklock show` prints it
    #[arg(long, value_name = "NODE")]
    pub(crate) participant: Option<String>,
    /// Does not ask first
    #[arg(long)]
    pub(crate) yes: bool,
    /// The path of a lock, semaphore or election
    #[arg(value_parser = path)]
    pub(crate) path: String,
}

/// A slash at the end is what shells complete.
#[expect(clippy::unnecessary_wraps, reason = "clap takes it so")]
fn path(text: &str) -> Result<String, Infallible> {
    Ok(text.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(text).to_owned())
}

/// No look follows another one at once.
fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    parse_duration(text).and_then(|time| match time >= LEAST {
        true => Ok(time),
        false => Err("give at least 100ms".into()),
    })
}

fn limit(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| "give a number of at least 1".into())
}
