//! What goes wrong between machines and servers.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Latency, Link, NETWORK};

/// Which connections a fault meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    All,
    /// One of them, by chance.
    Any,
    Of {
        machine: usize,
    },
    At {
        address: String,
    },
    Between {
        machine: usize,
        address: String,
    },
}

/// What becomes of what is on its way to the server when a connection is cut. The client sees the end at once, and no
/// reply that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    Lost,
    /// They arrive, perhaps long after the client has connected again.
    Arrive {
        after: Duration,
    },
}

/// Which direction is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Requests,
    Replies,
    Both,
}

/// Cuts connections. Returns how many.
pub fn cut(which: &Which, requests: Requests) -> usize {
    let links = take(which);
    for link in &links {
        link.replies.reset();
        match requests {
            Requests::Lost => link.requests.reset(),
            Requests::Arrive { after } => {
                link.requests.close();
                link.requests.hold(Instant::now() + after);
            }
        }
    }
    links.len()
}

/// Lets nothing arrive for a time. The connections stay. Returns how many are silent.
pub fn silence(which: &Which, direction: Direction, time: Duration) -> usize {
    let until = Instant::now() + time;
    let links = find(which);
    for (_, link) in &links {
        if direction != Direction::Replies {
            link.requests.hold(until);
        }
        if direction != Direction::Requests {
            link.replies.hold(until);
        }
    }
    links.len()
}

/// Returns the addresses to which a machine is connected.
pub fn addresses_of(machine: usize) -> Vec<String> {
    find(&Which::Of { machine }).into_iter().map(|(_, link)| link.address).collect()
}

/// Sets whether an address refuses connections.
pub fn refuse(address: &str, refuses: bool) {
    NETWORK.with_borrow_mut(|network| match refuses {
        true => drop(network.refused.insert(address.to_owned())),
        false => drop(network.refused.remove(address)),
    });
}

/// Sets how long everything takes.
pub fn slow(latency: Latency) {
    NETWORK.with_borrow_mut(|network| network.latency = latency);
}

fn take(which: &Which) -> Vec<Link> {
    let links = find(which);
    NETWORK.with_borrow_mut(|network| {
        for (number, _) in &links {
            network.links.remove(number);
        }
    });
    links.into_iter().map(|(_, link)| link).collect()
}

fn find(which: &Which) -> Vec<(u64, Link)> {
    NETWORK.with_borrow_mut(|network| {
        let meets = |link: &Link| match which {
            Which::All | Which::Any => true,
            Which::Of { machine } => link.machine == *machine,
            Which::At { address } => link.address == *address,
            Which::Between { machine, address } => link.machine == *machine && link.address == *address,
        };
        let links = network.links.iter().filter(|(_, link)| meets(link));
        let mut links: Vec<_> = links.map(|(number, link)| (*number, link.clone())).collect();
        if *which == Which::Any && !links.is_empty() {
            let one = network.rng.usize(..links.len());
            links = vec![links.swap_remove(one)];
        }
        links
    })
}
