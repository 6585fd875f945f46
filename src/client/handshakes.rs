//! Handshakes with SASL, each on a thread of its own.
//!
//! `zookeeper-client` parses the challenge of the server within the poll of the handshake, and loops for ever or panics at
//! some challenges ("Challenges of DIGEST-MD5" in `docs/upstream.md`). The thread that polls is lost then; it must not be one
//! that others need.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};
use zookeeper_client as zk;

/// How many threads of one session run handshakes at once. One that loops cannot be stopped.
const MOST_THREADS: usize = 2;

/// Runs the handshakes of one session.
#[derive(Debug)]
pub(super) struct Handshakes(Arc<Semaphore>);

impl Default for Handshakes {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_THREADS)))
    }
}

impl Handshakes {
    /// Runs a handshake, up to that time.
    ///
    /// # Errors
    /// Same as of the handshake; [`NoHosts`](zk::Error::NoHosts) if it does not end in time; and
    /// [`UnexpectedError`](zk::Error::UnexpectedError) if it panics, or if it cannot begin since earlier ones never end.
    ///
    /// # Cancel safety
    /// The handshake is given up, if it can be.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        patience: Duration,
        handshake: impl Future<Output = Result<T, zk::Error>> + Send + 'static,
    ) -> Result<T, zk::Error> {
        let deadline = Instant::now() + patience;
        let failed = |reason: &str| Err(zk::Error::UnexpectedError(format!("SASL: {reason}")));
        // Never closed. It waits for those that are being given up.
        let Ok(Ok(place)) = timeout_at(deadline, self.0.clone().acquire_owned()).await else {
            return failed("earlier handshakes do not end, at what the servers answered; no more are begun");
        };
        let (mut sender, outcome) = oneshot::channel();
        let run = move || {
            let _place = place;
            let Ok(runtime) = Builder::new_current_thread().build() else { return };
            runtime.block_on(async {
                tokio::select! {
                    shaken = handshake => drop(sender.send(shaken)),
                    () = sender.closed() => {}
                }
            });
        };
        if let Err(error) = thread::Builder::new().name("zk-recipes-sasl".into()).spawn(run) {
            return failed(&format!("cannot start a thread for the handshake: {error}"));
        }
        match timeout_at(deadline, outcome).await {
            Ok(Ok(shaken)) => shaken,
            Ok(Err(_)) => failed("the handshake panicked at what the server answered"),
            Err(_) => Err(zk::Error::NoHosts),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_handshake_that_never_ends_stops_nothing_but_its_thread() {
        let handshakes = Handshakes::default();
        let mut stops = Vec::new();
        for _ in 0..MOST_THREADS {
            assert_eq!(handshakes.run(LONG, ready(Ok(1))).await, Ok(1), "a thread is left");
            let (begun, has_begun) = oneshot::channel();
            let (stop, stopped) = mpsc::channel::<()>();
            stops.push(stop);
            // Blocks its thread, as a loop does, but without computing.
            let endless = async move {
                begun.send(()).unwrap();
                stopped.recv().unwrap_or_default();
                Ok(())
            };
            tokio::select! {
                _ = handshakes.run(LONG, endless) => panic!("it has ended"),
                begun = has_begun => begun.unwrap(),
            }
        }
        let refused = handshakes.run(SHORT, ready(Ok(1))).await.unwrap_err();
        assert!(refused.to_string().contains("earlier handshakes do not end"), "{refused}");
        drop(stops);
        assert_eq!(handshakes.run(LONG, ready(Ok(1))).await, Ok(1));
    }

    #[tokio::test]
    async fn a_handshake_that_panics_has_failed() {
        let handshakes = Handshakes::default();
        for _ in 0..2 * MOST_THREADS {
            let panics = async { panic!("as it is meant to") };
            let failed = handshakes.run::<()>(LONG, panics).await.unwrap_err();
            assert!(failed.to_string().contains("panicked"), "{failed}");
        }
    }

    #[tokio::test]
    async fn a_handshake_that_is_given_up_leaves_its_thread_to_others() {
        let handshakes = Handshakes::default();
        for _ in 0..2 * MOST_THREADS {
            assert_eq!(handshakes.run::<()>(LONG, pending()).now_or_never(), None);
        }
        assert_eq!(handshakes.run(LONG, ready(Ok(1))).await, Ok(1));
    }
}
