//! The system calls that ask for the time and for random bytes, answered by the simulation on its threads.
//!
//! This is what the crate `mad-turmoil` does for `turmoil`; here the machines of one thread differ in their clocks.

use std::cell::{Cell, RefCell};
use std::slice;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

thread_local! {
    static SYSTEM: Cell<Option<System>> = const { Cell::new(None) };
    static RANDOM: RefCell<Option<Rng>> = const { RefCell::new(None) };
    static CLOCKS: Cell<Clocks> = const { Cell::new(Clocks::TRUE) };
}

/// What all monotonic clocks show at first.
const START: Duration = Duration::from_secs(1_000_000);
/// What wall clocks show at first: 2026-01-01, in seconds since 1970.
const DATE: u64 = 1_767_225_600;

#[derive(Clone, Copy, Debug)]
struct System {
    /// `None` before the runtime has started.
    start: Option<Instant>,
}

/// How the clocks of the machine whose task is polled differ from the true ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// How much the wall clock is ahead, in milliseconds.
    pub(crate) ahead: i64,
    /// How long the machine was suspended: only the clock that counts suspensions shows it.
    pub(crate) suspended: Duration,
}

impl Clocks {
    pub(crate) const TRUE: Self = Self { ahead: 0, suspended: Duration::ZERO };
}

/// While this lives, the time of its thread is that of tokio's paused clock, and random bytes come from a seed.
#[derive(Debug)]
pub(crate) struct Simulated(());

impl Simulated {
    pub(crate) fn of_seed(seed: u64) -> Self {
        fastrand::seed(seed);
        RANDOM.set(Some(Rng::with_seed(!seed)));
        SYSTEM.set(Some(System { start: None }));
        Self(())
    }

    /// Lets the clock run. Must be called on the runtime.
    pub(crate) fn start(&self) {
        let start = Instant::now();
        SYSTEM.set(Some(System { start: Some(start) }));
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        SYSTEM.set(None);
        RANDOM.set(None);
        CLOCKS.set(Clocks::TRUE);
    }
}

/// Returns the time since the start.
pub(crate) fn elapsed() -> Duration {
    let start = SYSTEM.get().and_then(|system| system.start);
    start.map_or(Duration::ZERO, |start| truly(|| start.elapsed()))
}

/// Sets the clocks that are read from now on. Returns those before.
pub(crate) fn set_clocks(clocks: Clocks) -> Clocks {
    CLOCKS.replace(clocks)
}

/// Runs something while the system calls are those of the real system: tokio's clock is paused, so it does not ask.
fn truly<T>(work: impl FnOnce() -> T) -> T {
    let system = SYSTEM.take();
    let done = work();
    SYSTEM.set(system);
    done
}

/// What a clock shows, or `None` if this thread is not simulated.
fn reading(clock: libc::clockid_t) -> Option<Duration> {
    SYSTEM.try_with(Cell::get).ok().flatten()?;
    let clocks = CLOCKS.get();
    Some(match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
            let time = Duration::from_secs(DATE) + elapsed();
            let ahead = Duration::from_millis(clocks.ahead.unsigned_abs());
            if clocks.ahead < 0 { time.saturating_sub(ahead) } else { time + ahead }
        }
        libc::CLOCK_BOOTTIME => START + elapsed() + clocks.suspended,
        _ => START + elapsed(),
    })
}

fn fill(buffer: &mut [u8]) -> bool {
    let filled = RANDOM.try_with(|random| {
        let mut random = random.try_borrow_mut().ok()?;
        random.as_mut()?.fill(buffer);
        Some(())
    });
    filled.ok().flatten().is_some()
}

/// # Safety
/// That of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    match reading(clock) {
        Some(reading) => {
            // SAFETY: the caller passes a place for the time.
            let time = unsafe { &mut *time };
            time.tv_sec = reading.as_secs().cast_signed();
            time.tv_nsec = reading.subsec_nanos().into();
            0
        }
        // SAFETY: the arguments are those of the caller.
        None => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int },
    }
}

/// # Safety
/// That of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(
    buffer: *mut libc::c_void,
    length: libc::size_t,
    flags: libc::c_uint,
) -> libc::ssize_t {
    if !buffer.is_null() {
        // SAFETY: the caller passes a buffer of this length.
        let bytes = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
        if fill(bytes) {
            return length.cast_signed();
        }
    }
    // SAFETY: the arguments are those of the caller.
    unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as libc::ssize_t }
}
