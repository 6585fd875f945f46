//! One direction of a connection.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use tokio::time::{Instant, Sleep};

#[derive(Clone, Debug, Default)]
pub(crate) struct Pipe(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What is on its way, and when it arrives.
    chunks: VecDeque<(Instant, Vec<u8>)>,
    /// When the last one arrives, or the silence ends.
    arrives: Option<Instant>,
    ended: Option<End>,
    reader: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// What is on its way arrives.
    Closed,
    Reset,
}

/// The side that reads.
#[derive(Debug)]
pub(crate) struct Reader {
    pipe: Pipe,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Pipe {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("one thread")
    }

    /// Sends something. Returns when it arrives.
    pub(crate) fn send(&self, bytes: &[u8], arrives: Instant) -> io::Result<Instant> {
        let mut state = self.state();
        if state.ended.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let arrives = state.arrives.map_or(arrives, |last| last.max(arrives));
        state.arrives = Some(arrives);
        state.chunks.push_back((arrives, bytes.to_vec()));
        state.wake();
        Ok(arrives)
    }

    /// What is on its way arrives, and nothing after it.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.ended.get_or_insert(End::Closed);
        state.wake();
    }

    /// The reader sees the end at once. What is on its way is lost.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        state.ended = Some(End::Reset);
        state.chunks.clear();
        state.wake();
    }

    /// Nothing arrives before this moment.
    pub(crate) fn hold(&self, until: Instant) {
        let mut state = self.state();
        for (arrives, _) in &mut state.chunks {
            *arrives = until.max(*arrives);
        }
        state.arrives = state.arrives.max(Some(until));
        state.wake();
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Reader {
    pub(crate) fn new(pipe: Pipe) -> Self {
        Self { pipe, sleep: None }
    }

    pub(crate) fn pipe(&self) -> &Pipe {
        &self.pipe
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let arrives = {
                let mut state = self.pipe.state();
                let state = &mut *state;
                match state.chunks.front_mut() {
                    _ if state.ended == Some(End::Reset) => {
                        return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                    }
                    Some((arrives, chunk)) if *arrives <= Instant::now() => {
                        let length = buffer.len().min(chunk.len());
                        buffer[..length].copy_from_slice(&chunk[..length]);
                        chunk.drain(..length);
                        if chunk.is_empty() {
                            state.chunks.pop_front();
                        }
                        return Poll::Ready(Ok(length));
                    }
                    None if state.ended.is_some() => return Poll::Ready(Ok(0)),
                    waiting => {
                        state.reader = Some(cx.waker().clone());
                        waiting.map(|(arrives, _)| *arrives)
                    }
                }
            };
            let Some(arrives) = arrives else { return Poll::Pending };
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(arrives)));
            if sleep.deadline() != arrives {
                sleep.as_mut().reset(arrives);
            }
            ready!(sleep.as_mut().poll(cx));
        }
    }
}
