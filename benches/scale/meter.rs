//! What the process and its server have used so far.

use std::time::Duration;

use zk_recipes::testing::TestingServer;

use crate::Result;

/// The memory of this process, in bytes.
pub(crate) fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024
}

/// Waits until the server has received nothing for as long as that. Returns how many packets it has received so far.
pub(crate) async fn packets_when_quiet(server: &TestingServer, quiet: Duration) -> Result<u64> {
    let mut before = packets(server).await?;
    loop {
        tokio::time::sleep(quiet).await;
        let now = packets(server).await?;
        if now <= before + 1 {
            return Ok(now);
        }
        before = now;
    }
}

/// How many packets the server has received. The question is one of them.
pub(crate) async fn packets(server: &TestingServer) -> Result<u64> {
    Ok(server.packets_received().await?)
}

/// The median of what was measured.
pub(crate) fn median(mut measured: Vec<Duration>) -> Duration {
    measured.sort_unstable();
    measured.get(measured.len() / 2).copied().unwrap_or_default()
}
