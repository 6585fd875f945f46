//! The proxies between the servers of a cluster.

use std::io;

use super::config::Member;
use super::fault_proxy::{FaultProxy, Traffic};

/// A link from each server to each other one, with a proxy for each port.
#[derive(Debug)]
pub(super) struct Links(Vec<Link>);

#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    quorum: FaultProxy,
    election: FaultProxy,
}

impl Links {
    pub(super) fn between(members: &[Member]) -> io::Result<Self> {
        let mut links = Vec::new();
        for from in 0..members.len() {
            for (to, member) in members.iter().enumerate().filter(|(to, _)| *to != from) {
                let proxy = |port: u16| FaultProxy::start_opaque(format!("127.0.0.1:{port}"));
                let [quorum, election] = [proxy(member.quorum_port)?, proxy(member.election_port)?];
                links.push(Link { from, to, quorum, election });
            }
        }
        Ok(Self(links))
    }

    /// Returns the ports at which one server finds the others.
    pub(super) fn seen_by(&self, server: usize, members: &[Member]) -> Vec<Member> {
        let mut seen = members.to_vec();
        for link in self.0.iter().filter(|link| link.from == server) {
            seen[link.to] = Member { quorum_port: link.quorum.port(), election_port: link.election.port() };
        }
        seen
    }

    /// Sets the traffic between one server and all others.
    pub(super) fn set_traffic(&self, server: usize, traffic: Traffic) {
        for link in self.0.iter().filter(|link| link.from == server || link.to == server) {
            link.quorum.set_traffic(traffic);
            link.election.set_traffic(traffic);
        }
    }
}
