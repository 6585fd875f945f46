//! Lock libraries side by side: `cargo bench -p zk-recipes-benches --bench compare`, with `-- --help` for more.
//!
//! Every participant is a process of its own that is told by lines what to do (`load.rs`): this program itself for the
//! libraries in Rust (`native`), `ComparePeer.java` for Curator, `compare_peer.py` for kazoo. They work on the same
//! server in alternating rounds, so that whatever slows the machine down slows all of them.

mod arena;
mod cases;
mod child;
mod load;
mod meter;
mod native;
mod options;
mod participants;
mod peers;
mod queue;
mod report;
mod rounds;
mod servers;
mod summary;

use std::process::ExitCode;

use self::options::{Options, Request};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let request = match Options::parse(std::env::args().skip(1)) {
        Ok(request) => request,
        Err(message) => {
            eprintln!("compare: {message}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let done = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| match request {
        Request::Nothing => Ok(()),
        Request::Help => {
            println!("{}", options::USAGE);
            Ok(())
        }
        Request::List => {
            cases::names().for_each(|name| println!("{name}"));
            Ok(())
        }
        Request::TakePart(name) => runtime.block_on(native::take_part(&name)),
        Request::Compare(options) => runtime.block_on(compare(&options)),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn compare(options: &Options) -> Result<()> {
    // From where the options name files; cargo has started it in the folder of the benches.
    std::env::set_current_dir(peers::repository())?;
    let mut comparison = report::Comparison::new(options);
    for &servers in &options.servers {
        rounds::run_all(options, servers, &mut comparison).await?;
    }
    print!("{}", report::table(&comparison));
    for file in report::write_files(&comparison)? {
        println!("{}", file.display());
    }
    Ok(())
}
