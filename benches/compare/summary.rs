//! The figures of one participant in one case.

use crate::load::Outcome;
use crate::meter::Usage;

/// All rounds of it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    cycles: u64,
    latencies: Vec<u64>,
    /// Cycles per second of each round.
    rates: Vec<f64>,
    /// Of each contender.
    grants: Vec<u64>,
    usage: Usage,
    pub(crate) traffic: Option<Traffic>,
    pub(crate) bytes_per_waiter: Option<f64>,
}

/// Bytes of one cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) to_server: f64,
    pub(crate) to_client: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) participant: &'static str,
    /// In nanoseconds; none where only memory is looked at.
    pub(crate) latency: Option<Latency>,
    /// Cycles per second, the median of the rounds: one may be spoilt by something else on the machine.
    pub(crate) rate: Option<f64>,
    pub(crate) cost: Option<Cost>,
    pub(crate) traffic: Option<Traffic>,
    /// The fewest and the most grants of a contender.
    pub(crate) spread: Option<[u64; 2]>,
    pub(crate) bytes_per_waiter: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) samples: usize,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Of one cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) requests: f64,
    pub(crate) replies: f64,
    /// In microseconds of CPU time.
    pub(crate) client: f64,
    pub(crate) server: f64,
}

impl Gathered {
    pub(crate) fn add(&mut self, outcome: Outcome, usage: Usage) {
        self.cycles += outcome.cycles;
        let counted = if outcome.grants.is_empty() { outcome.cycles } else { outcome.grants.iter().sum() };
        self.rates.push(counted as f64 / outcome.elapsed.as_secs_f64());
        self.latencies.extend(outcome.latencies);
        self.grants.resize(outcome.grants.len(), 0);
        // Whose it is does not matter, but each round has its own lucky ones.
        let mut grants = outcome.grants;
        grants.sort_unstable();
        for (sum, grants) in self.grants.iter_mut().zip(grants) {
            *sum += grants;
        }
        self.usage += usage;
    }

    pub(crate) fn figures(mut self, participant: &'static str) -> Figures {
        self.latencies.sort_unstable();
        self.rates.sort_by(f64::total_cmp);
        let percentile = |part: f64| {
            let index = (self.latencies.len() as f64 * part) as usize;
            self.latencies.get(index).map(|nanoseconds| *nanoseconds as f64)
        };
        let latency = percentile(0.5).zip(percentile(0.99));
        let cycles = self.cycles as f64;
        let has_run = self.cycles > 0 && self.bytes_per_waiter.is_none();
        Figures {
            participant,
            latency: latency.map(|(p50, p99)| Latency { samples: self.latencies.len(), p50, p99 }),
            rate: self.rates.get(self.rates.len() / 2).copied(),
            cost: has_run.then(|| Cost {
                requests: self.usage.requests / cycles,
                replies: self.usage.replies / cycles,
                client: self.usage.client_cpu.as_secs_f64() * 1e6 / cycles,
                server: self.usage.server_cpu.as_secs_f64() * 1e6 / cycles,
            }),
            traffic: self.traffic,
            spread: self.grants.first().zip(self.grants.last()).map(|(min, max)| [*min, *max]),
            bytes_per_waiter: self.bytes_per_waiter,
        }
    }
}
