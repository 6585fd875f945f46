//! `zklock completions`: scripts for shells.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::{generate, shells};

use crate::args::{Cli, Completions, Shell};
use crate::exit::{Failure, print};

const NAME: &str = "zklock";

pub(crate) fn completions(args: &Completions) -> Result<ExitCode, Failure> {
    let mut command = Cli::command();
    let mut script = Vec::new();
    match args.shell {
        Shell::Bash => generate(shells::Bash, &mut command, NAME, &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut command, NAME, &mut script),
        Shell::Fish => generate(shells::Fish, &mut command, NAME, &mut script),
    }
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
