//! What was seen, in numbers.

use crate::history::{Deed, Library};
use crate::verdict::{Change, Verdict};

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// The median and the greatest.
fn summary(times: impl Iterator<Item = u64>) -> String {
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    match times.last() {
        Some(longest) => {
            format!("{:.1} ms (at most {:.1} ms)", millis(times[times.len() / 2]), millis(*longest))
        }
        None => "-".to_owned(),
    }
}

pub(crate) fn print(group: &str, verdict: &Verdict) {
    let Verdict { faults, excused, mere_beliefs, among_peers, unaware, peers_unaware, changes, .. } = verdict;
    println!("{group}: {} changes of the leader", changes.len());
    for deed in Deed::CHANGES {
        let by = |change: &&Change| change.deed == deed;
        let all = || changes.iter().filter(by);
        let [ours, peers] =
            Library::ALL.map(|library| all().filter(|change| change.library == library).count());
        let gaps = summary(all().map(|change| change.gap));
        let deed = format!("{deed:?}");
        print!("  {deed:11} {ours:3} of ours, {peers:3} of Curator's; nobody led for {gaps}");
        match deed.as_str() {
            "KillSession" | "KillProcess" => {
                let since_deletion = all().filter_map(|change| change.since_deletion);
                println!(", for {} after the node was deleted", summary(since_deletion));
            }
            _ => println!(),
        }
    }
    let (longest_gap, between) = &verdict.longest_gap;
    println!("  {} faults; the nodes of {} in {} terms were seen", faults.len(), verdict.seen, verdict.terms);
    println!(
        "  nobody led for {:.1} ms at most while the server ran, between {between}",
        millis(*longest_gap)
    );
    let beside =
        |lengths: &[u64]| format!("{} times, for {}", lengths.len(), summary(lengths.iter().copied()));
    println!(
        "  ours believed to lead although their session was killed, without a node, {}",
        beside(unaware)
    );
    println!("    beside another one, {}", beside(excused));
    let longest = peers_unaware.iter().max().map_or("nobody", |(_, candidate)| candidate);
    let lengths: Vec<u64> = peers_unaware.iter().map(|(length, _)| *length).collect();
    println!("  Curator's believed to lead without a node {}; longest {longest}", beside(&lengths));
    println!("    beside one of ours, {}", beside(mere_beliefs));
    println!("    beside another one of Curator's, {}", beside(among_peers));
}
