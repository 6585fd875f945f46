//! How this process is shown to others, and whether it outlives the one that has started it.

use std::ffi::OsStr;
use std::path::Path;

use crate::args::{Command, Shown};
use crate::exit::Failure;

impl Command {
    /// What others call this process, if it is to be shown.
    pub(crate) fn name(&self) -> Option<String> {
        let command = match self {
            Self::Run(run) => run.supervised.command(),
            Self::Elect(elect) => elect.supervised.command(),
            _ => Vec::new(),
        };
        let program = command.first().map_or(OsStr::new("zklock"), |program| program);
        let program = Path::new(program).file_name().unwrap_or(program).display();
        let by_default = || format!("{}:{program}", user());
        self.shown().map(|shown| shown.name.clone().unwrap_or_else(by_default))
    }

    /// Has the system tell this process when the one dies that has started it, if that is wanted.
    pub(crate) fn bind_to_parent(&self) -> Result<(), Failure> {
        match self.shown() {
            Some(shown) if shown.die_with_parent => die_with_parent(),
            _ => Ok(()),
        }
    }

    fn shown(&self) -> Option<&Shown> {
        match self {
            Self::Run(run) => Some(&run.supervised.shown),
            Self::Hold(hold) => Some(&hold.shown),
            Self::Elect(elect) => Some(&elect.supervised.shown),
            _ => None,
        }
    }
}

fn user() -> String {
    let name = ["LOGNAME", "USER"].iter().filter_map(|variable| std::env::var(variable).ok());
    let mut named = name.filter(|name| !name.is_empty());
    named.next().unwrap_or_else(|| rustix::process::getuid().as_raw().to_string())
}

#[cfg(target_os = "linux")]
fn die_with_parent() -> Result<(), Failure> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| {
        Failure::other(format!("cannot end with the process that started this one: {error}"))
    })?;
    if getppid() != parent {
        return Err(Failure::other("the process that has started this one is dead"));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> Result<(), Failure> {
    Err(Failure::usage("--die-with-parent: only Linux can do that"))
}
