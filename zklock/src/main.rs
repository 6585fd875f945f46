//! `zklock`: runs commands under locks, and shows and operates locks.
//!
//! It uses nothing but the public API of the library.

#![forbid(unsafe_code)]

mod args;
mod ask;
mod child;
mod completions;
mod connect;
mod deadlocks;
mod doctor;
mod elect;
mod exit;
mod hold;
mod json;
mod kick;
mod live;
mod ls;
mod nested;
mod queue;
mod recipe;
mod run;
mod said;
mod show;
mod shown;
mod signals;
mod table;
mod time;
mod tls;
mod tree;
mod uses;
mod waiting;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::exit::Failure;
use crate::nested::Outer;

fn main() -> ExitCode {
    let code = begin();
    said::wait_until_written();
    code
}

fn begin() -> ExitCode {
    let mut cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Of `--help` and `--version` as well. Nobody is left to tell if it cannot be printed.
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    cli.connection.name = cli.command.name().map(|name| Outer::read().named(&name));
    if let Err(failure) = cli.command.bind_to_parent() {
        return failure.report();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::other(format!("cannot start: {error}")).report(),
    };
    // The client has been closed by then, so no thread of the runtime is waited for.
    let done = runtime.block_on(carry_out(cli));
    runtime.shutdown_background();
    done.unwrap_or_else(Failure::report)
}

async fn carry_out(cli: Cli) -> Result<ExitCode, Failure> {
    let connection = &cli.connection;
    match &cli.command {
        Command::Run(args) => run::run(connection, args).await,
        Command::Hold(args) => hold::hold(connection, args).await,
        Command::Elect(args) => elect::elect(connection, args).await,
        Command::Show(args) => show::show(connection, args).await,
        Command::Ls(args) => ls::ls(connection, args).await,
        Command::Watch(args) => live::watch(connection, args).await,
        Command::Top(args) => live::top(connection, args).await,
        Command::Deadlocks(args) => deadlocks::deadlocks_below(connection, args).await,
        Command::Doctor(args) => doctor::doctor(connection, args).await,
        Command::Completions(args) => completions::completions(args),
        Command::Ask(args) => ask::ask(connection, args).await,
        Command::Kick(args) => kick::kick(connection, args).await,
    }
}
