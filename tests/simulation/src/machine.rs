//! Machines, on which processes of users run.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use zk_recipes::{Client, ClientBuilder};

use crate::chance;
use crate::system::{self, Clocks};

/// A machine. All tasks of its processes, and those of their clients, are polled by its clocks, and late if it is busy.
#[derive(Clone)]
pub struct Machine(Arc<Shared>);

struct Shared {
    number: usize,
    servers: String,
    session_timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    clocks: Clocks,
    late: Lateness,
    /// Nothing is polled before.
    stands_until: Option<Instant>,
    life: CancellationToken,
}

/// How often tasks are polled late, and by how much.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Of 256 polls.
    pub of_256: u8,
    pub most: Duration,
}

impl Machine {
    pub(crate) fn new(number: usize, servers: String, session_timeout: Duration) -> Self {
        let state = State {
            clocks: Clocks::TRUE,
            late: Lateness::default(),
            stands_until: None,
            life: CancellationToken::new(),
        };
        Self(Arc::new(Shared { number, servers, session_timeout, state: Mutex::new(state) }))
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.state.lock().expect("one thread"))
    }

    /// Returns the number of the machine, from 0.
    pub fn number(&self) -> usize {
        self.0.number
    }

    /// Configures a client of this machine.
    pub fn builder(&self) -> ClientBuilder {
        let machine = self.clone();
        Client::builder()
            .runtime(Handle::current())
            .identity(format!("machine {}", self.0.number))
            .session_timeout(self.0.session_timeout)
            .wrap_tasks(move |task| Box::pin(machine.runs(task).map(drop)))
    }

    /// Connects a client, however long it takes.
    pub async fn client(&self) -> Client {
        self.connect(self.builder(), &self.0.servers.clone()).await
    }

    /// Connects a client to some of the servers, however long it takes.
    pub async fn connect(&self, builder: ClientBuilder, servers: &str) -> Client {
        loop {
            match builder.clone().connect(servers).await {
                Ok(client) => return client,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Runs a task of a process on this machine. It ends without a result if the machine crashes.
    pub fn spawn<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> JoinHandle<Option<T>> {
        tokio::task::spawn_local(self.runs(task))
    }

    fn runs<F: Future>(&self, task: F) -> Running<F> {
        let life = self.with(|state| state.life.clone());
        let task = Box::pin(task);
        Running {
            machine: self.clone(),
            life: Box::pin(life.cancelled_owned()),
            task: Some(task),
            sleep: None,
        }
    }

    /// Runs a process, and runs it again whenever the machine has crashed.
    pub(crate) fn boots<F>(&self, process: impl Fn() -> F + 'static) -> JoinHandle<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        let machine = self.clone();
        tokio::task::spawn_local(async move {
            loop {
                match machine.spawn(process()).await {
                    Ok(Some(done)) => return done,
                    Ok(None) => {}
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                }
            }
        })
    }

    /// Ends all processes without any farewell.
    pub(crate) fn crash(&self) {
        let life = self.with(|state| std::mem::take(&mut state.life));
        life.cancel();
    }

    /// Lets nothing run for a time, as a virtual machine that is moved.
    pub fn stand_still(&self, time: Duration) {
        self.with(|state| state.stands_until = Some(Instant::now() + time));
    }

    pub(crate) fn set_late(&self, late: Lateness) {
        self.with(|state| state.late = late);
    }

    /// Sets how much the wall clock is ahead, in milliseconds.
    pub(crate) fn set_ahead(&self, ahead: i64) {
        self.with(|state| state.clocks.ahead = ahead);
    }

    /// Lets the clock that counts suspensions jump, as if the machine had been suspended.
    pub(crate) fn suspend(&self, time: Duration) {
        self.with(|state| state.clocks.suspended += time);
    }

    /// Returns when the next poll takes place, if it does not now.
    fn delays(&self) -> Option<Instant> {
        let now = Instant::now();
        self.with(|state| {
            if let Some(until) = state.stands_until {
                if until > now {
                    return Some(until);
                }
                state.stands_until = None;
            }
            let Lateness { of_256, most } = state.late;
            if !chance(of_256) {
                return None;
            }
            // Most delays are short.
            let most = if chance(240) { most / 20 } else { most };
            Some(now + Duration::from_micros(fastrand::u64(0..=most.as_micros() as u64)))
        })
    }

    /// Busy machines now and then poll what nothing has woken.
    fn polls_needlessly(&self) -> bool {
        self.with(|state| state.late.of_256 > 0) && chance(4)
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("number", &self.0.number).finish_non_exhaustive()
    }
}

/// A task of a machine.
struct Running<F: Future> {
    machine: Machine,
    life: Pin<Box<tokio_util::sync::WaitForCancellationFutureOwned>>,
    /// `None` when the machine has crashed.
    task: Option<Pin<Box<F>>>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Running<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.life.as_mut().poll(cx).is_ready() {
            this.task = None;
            return Poll::Ready(None);
        }
        if this.sleep.is_none() {
            this.sleep = this.machine.delays().map(|until| Box::pin(tokio::time::sleep_until(until)));
        }
        if let Some(sleep) = &mut this.sleep {
            ready!(sleep.as_mut().poll(cx));
            this.sleep = None;
        }
        let Some(task) = &mut this.task else { return Poll::Ready(None) };
        let _here = Here::on(&this.machine);
        let polled = task.as_mut().poll(cx);
        if polled.is_pending() && this.machine.polls_needlessly() {
            cx.waker().wake_by_ref();
        }
        polled.map(Some)
    }
}

impl<F: Future> Drop for Running<F> {
    fn drop(&mut self) {
        // What a drop asks for is asked for here, too.
        let _here = Here::on(&self.machine);
        self.task = None;
    }
}

/// While this lives, the clocks and connections are those of a machine.
struct Here {
    machine: usize,
    clocks: Clocks,
}

impl Here {
    fn on(machine: &Machine) -> Self {
        let clocks = machine.with(|state| state.clocks);
        Self { machine: network::set_machine(machine.0.number), clocks: system::set_clocks(clocks) }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        network::set_machine(self.machine);
        system::set_clocks(self.clocks);
    }
}
