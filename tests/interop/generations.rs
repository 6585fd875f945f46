//! The scenarios that are run on both generations of the servers, each as a test that is ignored where these are missing.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

use crate::installed::{Generation, Peers, are_required};

/// Each scenario on both generations.
macro_rules! on_each_generation {
    ($($kind:ident: $($scenario:ident),+;)+) => {
        vec![$($(
            crate::generations::trial("debian", stringify!($scenario), Debian, crate::$kind::$scenario),
            crate::generations::trial("current", stringify!($scenario), Current, crate::$kind::$scenario),
        )+)+]
    };
}

pub(crate) fn trial<F: Future<Output = ()> + 'static>(
    module: &str,
    name: &str,
    generation: Generation,
    play: fn(Generation) -> F,
) -> Trial {
    Trial::ignorable_test(format!("{module}::{name}"), move || {
        match Peers::find(generation) {
            Err(missing) if are_required() => return Err(missing.into()),
            Err(missing) => return Ok(Completion::ignored_with(missing)),
            Ok(_) => {}
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(play(generation));
        Ok(Completion::Completed)
    })
}

pub(crate) fn run(trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // As the usual harness does.
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    arguments.test_threads = arguments.test_threads.or(threads);
    libtest_mimic::run(&arguments, trials).exit_code()
}
