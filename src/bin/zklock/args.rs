//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::exit::TABLE;
use crate::time::parse_duration;

const EXAMPLES: &str = "\
Examples:
  export ZK_CONNECT=zk1:2181,zk2:2181,zk3:2181
  zklock run /locks/backup -- ./backup.sh           one at a time, on all machines
  zklock run --timeout 0 /locks/nightly -- make     only if nobody else does
  zklock run --shared /locks/catalogue -- ./report  beside other readers
  zklock run --permits 4 /licences/cad -- ./render  at most four
  zklock show /locks/backup                         who holds it, and who waits
  zklock ls /locks                                  all locks below a path
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
    /// The servers: `host:port[,host:port...][/chroot]`
    #[arg(long, global = true, value_name = "SERVERS", env = "ZK_CONNECT", hide_env_values = true)]
    pub(crate) connect: Option<String>,
    /// What all paths are below of, as Curator's namespace
    #[arg(long, global = true, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) namespace: String,
    /// A file with user:password for digest authentication; by default, what is in ZKLOCK_AUTH
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command under a lock
    Run(Run),
    /// Runs a command for as long as this process is the elected leader, each time it is
    Elect(Elect),
    /// Shows who holds a lock and who waits for it
    Show(Show),
    /// Lists the locks and elections below a path
    Ls(Ls),
    /// Asks the holders of a lock to give it back
    Ask(Ask),
    /// Takes a lock away from its holders
    Kick(Kick),
}

/// Runs a command under a lock. Its exit status is that of zklock.
///
/// The command finds its fencing token in ZKLOCK_TOKEN and the path of the lock in ZKLOCK_PATH. It is run without a
/// shell. All signals that can be caught are forwarded to it; while zklock waits for the lock, SIGHUP, SIGINT,
/// SIGQUIT and SIGTERM end the wait, and others are ignored.
///
/// Without a controlling terminal, the command has a process group of its own, and signals are sent to the whole
/// group. With one it stays in the group of zklock, so that it can use the terminal; then it gets what is typed, such
/// as Ctrl-C, from the terminal only, and other signals go to the command but not to its children.
///
/// If the lock is lost, the command gets SIGTERM, and SIGKILL after --grace. The next holder may be at work by then:
/// have what the lock protects refuse old tokens.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct Run {
    /// How long to wait for the lock, such as 5s or 500ms; 0 tries once. Without it, waits without end
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Takes the read lock of a read/write lock, beside other readers
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,
    /// Takes one of N permits; N must be the same everywhere
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) permits: Option<u32>,
    /// How long the command has after SIGTERM when the lock is lost
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) grace: Duration,
    /// The path of the lock
    pub(crate) path: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Stands for election at a path, with the latch of Curator and zk-recipes, and runs a command while it leads.
///
/// When the leadership ends, the command gets SIGTERM, and SIGKILL after --grace; then zklock stands for election
/// again. When the command ends by itself, zklock resigns and ends with its exit status. Signals and the environment of
/// the command are those of `zklock run`.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct Elect {
    /// How long the command has after SIGTERM when the leadership ends
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) grace: Duration,
    /// The path of the election
    pub(crate) path: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Shows who holds a lock and who waits for it, in the order of the queue.
///
/// A path that does not exist is an error. Servers remove the path of a lock that has been unused for a while.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The path of a lock, semaphore or election
    pub(crate) path: String,
}

/// Lists the locks, semaphores and elections below a path that somebody holds or waits for.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Stops after having listed this many nodes
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = limit)]
    pub(crate) limit: usize,
    /// Where to begin
    #[arg(default_value = "/")]
    pub(crate) path: String,
}

/// Asks the holders of a lock to give it back. They decide: leaders resign, others must have been written for it.
#[derive(Debug, Args)]
pub(crate) struct Ask {
    /// The path of a lock, semaphore or election
    pub(crate) path: String,
}

/// Takes a lock away from its holders, or from one participant, by deleting the node.
///
/// A holder that still works may not notice at once, while the next one begins. Without a terminal, --yes is needed.
#[derive(Debug, Args)]
pub(crate) struct Kick {
    /// Only this one, a holder or a waiter: the name of its node, as `zklock show` prints it
    #[arg(long, value_name = "NODE")]
    pub(crate) participant: Option<String>,
    /// Does not ask first
    #[arg(long)]
    pub(crate) yes: bool,
    /// The path of a lock, semaphore or election
    pub(crate) path: String,
}

fn limit(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| "give a number of at least 1".into())
}
