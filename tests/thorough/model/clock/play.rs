//! Plays the sessions: in all ways.

use std::process::ExitCode;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::world::{Change, Server, Session};

/// Of which the others differ in something.
const AT_A_LEADER: Session =
    Session { server: Server::Leader, requests: 2, moves: false, reconnects: None, grants: false, latest: 2 };

const AT_A_FOLLOWER: Session = Session { server: Server::Follower, ..AT_A_LEADER };

const SESSIONS: &[Session] = &[
    AT_A_LEADER,
    AT_A_FOLLOWER,
    Session { moves: true, ..AT_A_FOLLOWER },
    Session { reconnects: Some(Change::Shorten), ..AT_A_LEADER },
    Session { reconnects: Some(Change::Shorten), ..AT_A_FOLLOWER },
    Session { reconnects: Some(Change::Replace), ..AT_A_LEADER },
    Session { reconnects: Some(Change::Replace), ..AT_A_FOLLOWER },
    Session { grants: true, latest: 4, ..AT_A_LEADER },
    Session { grants: true, latest: 4, ..AT_A_FOLLOWER },
    Session { reconnects: Some(Change::Nothing), ..AT_A_LEADER },
    Session { reconnects: Some(Change::Lengthen), ..AT_A_FOLLOWER },
];

/// Plays all of them, and prints figures. Answers whether all is well.
pub(crate) fn all(threads: usize) -> bool {
    SESSIONS.iter().all(|session| play(session, threads).is_none())
}

/// Plays one after the other until something is wrong, and prints what. Fails if that is nothing.
pub(crate) fn until_noticed(threads: usize) -> ExitCode {
    let noticed = SESSIONS.iter().find_map(|session| play(session, threads));
    if noticed.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Answers what is wrong.
fn play(session: &Session, threads: usize) -> Option<&'static str> {
    let start = Instant::now();
    let Session { server, requests, moves, reconnects, grants, latest } = *session;
    let checker = Session { server, requests, moves, reconnects, grants, latest }.checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "{:>9} states, {:>8} unique, depth {:>3}, {:>5.1} s: a session at a {}, {requests} requests{}{}{}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f64(),
        if server == Server::Leader { "leader" } else { "follower" },
        if moves { ", and another server" } else { "" },
        match reconnects {
            None => "",
            Some(Change::Nothing) => ", and another connection",
            Some(Change::Shorten) => ", and a shorter timeout",
            Some(Change::Lengthen) => ", and a longer timeout",
            Some(Change::Replace) => ", and another session",
        },
        if grants { ", and a lock that is handed out" } else { "" },
    );
    for property in checker.model().properties() {
        let discovery = checker.discovery(property.name);
        let is_right = discovery.is_some() == (property.expectation == stateright::Expectation::Sometimes);
        if !is_right {
            println!("wrong: {}", property.name);
            for step in discovery.into_iter().flat_map(|path| path.into_actions()) {
                println!("    {step:?}");
            }
            return Some(property.name);
        }
    }
    None
}
