//! Everything there is, and what happens to it.

use super::super::queue::connection::Connection;
use super::super::queue::local_queue::LocalQueue;
use super::super::queue::permits::Limit;
use super::super::queue::stock::Stock;
use super::driver::{Breach, Shown};
use super::game::{Faults, Game};
use super::server::{AtGate, ClientId, Owner, Path, Server, View};
use super::steps::Step;
use super::task::{Answer, Client, Message, NOBODYS, Phase, Request, Task, Watch, What};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) limit: u32,
    /// Whether leases may be created for which there are no permits.
    pub(crate) may_err: bool,
    pub(crate) server: Server,
    pub(crate) clients: Vec<Client>,
    pub(crate) foreigners: Vec<Foreigner>,
    pub(crate) faults: Faults,
    pub(crate) breach: Option<Breach>,
}

/// A contender that does as Curator's, at the server's pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Foreigner {
    Outside,
    /// Its node stands at the gate, or was deleted there.
    AtGate,
    /// It was first, and has a lease, but has not seen few enough of them.
    HasLease,
    /// It has; and leaves the gate.
    Passed,
    Holding,
    Done,
}

impl World {
    pub(crate) fn new(game: &Game) -> Self {
        let client = |(id, wanted): (usize, &&[u32])| {
            let mut local = LocalQueue::default();
            if game.is_known {
                // Somebody has held and released before.
                let at = local.parent_watched(Connection(1));
                local.clear_up_to(0, at);
            }
            let mut stock = Stock::default();
            if let (true, Some(gate)) = (game.has_stock, local.vacancy(Connection(1))) {
                let leases = if game.is_lowered { game.foreigners } else { 0 };
                stock.taken(gate, leases, Limit::Fixed(game.limit + u32::from(game.is_lowered)));
            }
            let mut leases = LocalQueue::default();
            if game.knows_numbers {
                let at = leases.parent_watched(Connection(1));
                leases.clear_up_to(0, at);
            }
            let tasks = wanted.iter().map(|wanted| Task::new(*wanted)).collect();
            Client {
                id,
                limit: game.limit,
                epoch: 0,
                has_expired: false,
                connection: Connection(1),
                zxid: 0,
                requests: Default::default(),
                inbox: Default::default(),
                late: Vec::new(),
                local,
                stock,
                leases,
                is_parent_gone: false,
                is_leases_parent_gone: false,
                tasks,
            }
        };
        let (first_number, first_lease) = (i32::from(game.is_known), i32::from(game.knows_numbers));
        let mut server = Server::new(game.clients.len(), game.faults.relocate > 0, first_number, first_lease);
        if game.knows_numbers {
            server.watches.extend((0..game.clients.len()).map(|client| (client, Path::LeasesParent)));
        }
        if game.is_known {
            server.watches.extend((0..game.clients.len()).map(|client| (client, Path::Parent)));
        }
        let foreigner = if game.is_lowered { Foreigner::Holding } else { Foreigner::Outside };
        if game.is_lowered {
            (0..game.foreigners).for_each(|index| {
                server.create_leases(Owner::Foreigner(index), None, 1);
            });
        }
        Self {
            limit: game.limit,
            may_err: game.is_lowered || game.faults.reap > 0 || game.faults.late > 0 || game.faults.stray > 0,
            server,
            clients: game.clients.iter().enumerate().map(client).collect(),
            foreigners: vec![foreigner; game.foreigners],
            faults: game.faults,
            breach: None,
        }
    }

    pub(crate) fn take(&mut self, step: Step) -> Shown {
        let mut shown = Shown::default();
        match step {
            Step::Enter(client, task) => self.clients[client].enter(task),
            Step::Serve(client) => {
                let request = self.clients[client].requests.pop_front().expect("there is one");
                self.serve_and_answer(client, request);
            }
            Step::ServeLate(client, index) => {
                let request = self.clients[client].late.remove(index);
                self.serve(client, &request);
                let of = &mut self.clients[client];
                // The janitor looks again when that is over.
                match request.what {
                    What::Take { take, .. } => of.send(request.task, NOBODYS, What::GiveBack(take)),
                    What::CreateWithLeases { id, take, .. } => {
                        of.send(request.task, NOBODYS, What::GiveBack(take));
                        of.send(request.task, NOBODYS, What::Sweep { id });
                    }
                    _ => {}
                }
            }
            Step::Deliver(client) => self.deliver(client),
            Step::Poll(client, task) => {
                shown = self.poll(client, task);
                self.breach = self.breach.or(shown.breach);
            }
            Step::CatchUp(client) => {
                let fired = self.server.catch_up(client);
                self.announce(fired);
            }
            Step::Release(client, task) => self.clients[client].end(task),
            Step::Cancel(client, task) => {
                self.faults.cancel -= 1;
                self.clients[client].end(task);
            }
            Step::Expire(client) => {
                self.faults.expire -= 1;
                self.clients[client].has_expired = true;
                self.server.watches.retain(|(of, _)| *of != client);
                self.change(|now| {
                    now.gate.retain(|node| node.owner != Owner::Client(client));
                    now.leases.retain(|lease| lease.owner != Owner::Client(client));
                });
            }
            Step::HearExpiry(client) => self.clients[client].hear_expiry(),
            Step::Relocate { client, to, keeps_requests, late } => {
                self.faults.relocate -= 1;
                self.faults.late -= u8::from(late);
                self.relocate(client, to, keeps_requests, late);
                self.server.keeps_past = self.faults.relocate > 0;
            }
            Step::Rob(name) => {
                self.faults.rob -= 1;
                self.change(|now| now.gate.retain(|node| node.name != name));
            }
            Step::Reap => {
                self.faults.reap -= 1;
                let fired = self.server.reap();
                self.announce(fired);
            }
            Step::ReapLeases => {
                self.faults.reap -= 1;
                let fired = self.server.reap_leases();
                self.announce(fired);
            }
            Step::Stray(index) => {
                self.faults.stray -= 1;
                let (_, fired) = self.server.create_leases(Owner::Foreigner(index), None, 1);
                self.announce(fired);
                self.foreigners[index] = Foreigner::Holding;
            }
            Step::Foreign(index) => self.foreign(index),
            Step::ForeignGiveUp(index) => {
                self.faults.cancel -= 1;
                self.change(|now| leave(now, Owner::Foreigner(index)));
                self.foreigners[index] = Foreigner::Done;
            }
        }
        self.tidy();
        shown
    }

    /// A foreigner goes on.
    fn foreign(&mut self, index: usize) {
        let owner = Owner::Foreigner(index);
        self.foreigners[index] = match self.foreigners[index] {
            Foreigner::Outside => {
                let (_, fired) = self.server.create(&format!("f{index}-"), owner);
                self.announce(fired);
                Foreigner::AtGate
            }
            Foreigner::AtGate if self.is_first(owner) => {
                let (_, fired) = self.server.create_leases(owner, None, 1);
                self.announce(fired);
                Foreigner::HasLease
            }
            // Robbed before it had anything.
            Foreigner::AtGate => Foreigner::Done,
            Foreigner::HasLease => Foreigner::Passed,
            Foreigner::Passed => {
                self.change(|now| now.gate.retain(|node| node.owner != owner));
                Foreigner::Holding
            }
            Foreigner::Holding | Foreigner::Done => {
                self.change(|now| leave(now, owner));
                Foreigner::Done
            }
        };
    }

    pub(crate) fn is_first(&self, owner: Owner) -> bool {
        self.server.now.gate.first().is_some_and(|first| first.owner == owner)
    }

    fn change(&mut self, change: impl FnOnce(&mut View)) {
        let fired = self.server.commit(change);
        self.announce(fired);
    }

    fn announce(&mut self, fired: Vec<(ClientId, Path)>) {
        for (client, path) in fired {
            self.clients[client].inbox.push_back(Message::Event(path));
        }
    }

    fn serve_and_answer(&mut self, client: ClientId, request: Request) {
        let is_janitors = matches!(request.what, What::Delete { .. } | What::Sweep { .. });
        let answer = self.serve(client, &request);
        if is_janitors {
            return;
        }
        let zxid = self.server.view(client).zxid;
        let Request { task, slot, .. } = request;
        self.clients[client].inbox.push_back(Message::Answer { task, slot, answer, zxid });
    }

    fn serve(&mut self, client: ClientId, request: &Request) -> Answer {
        let owner = Owner::Client(client);
        let reads = matches!(request.what, What::List | What::Watch(_) | What::Count { .. });
        if !reads {
            // Whatever is done, or synced, is done where all was done before.
            let fired = self.server.catch_up(client);
            self.announce(fired);
        }
        let view = self.server.view(client).clone();
        match &request.what {
            What::Create { id, watches_parent } => {
                if *watches_parent {
                    self.server.watches.insert((client, Path::Parent));
                }
                let (name, fired) = self.server.create(id, owner);
                self.announce(fired);
                Answer::Created(name)
            }
            What::CreateWithLeases { id, number, take, wanted, watches_parent } => {
                if *watches_parent {
                    self.server.watches.insert((client, Path::LeasesParent));
                }
                match self.server.create_with_leases(id, *number, owner, *take, *wanted) {
                    Some((name, first, fired)) => {
                        self.announce(fired);
                        Answer::Taken(first, Some(name))
                    }
                    None => Answer::Missing,
                }
            }
            What::List => Answer::Listed(view.list()),
            What::Find { id } => {
                Answer::Found(view.list().into_iter().find(|name| name.starts_with(id.as_str())))
            }
            What::Watch(name) if view.is_at_gate(name) => {
                self.server.watches.insert((client, Path::Gate(name.clone())));
                Answer::Watched(Watch::default())
            }
            What::Watch(_) => Answer::Missing,
            What::Sync => Answer::Done,
            What::Count { watch } => {
                if *watch {
                    self.server.watches.insert((client, Path::Leases));
                }
                Answer::Counted { leases: view.leases, watch: Watch::default() }
            }
            What::Take { gate, take, wanted } => {
                if !view.is_at_gate(gate) {
                    return Answer::Missing;
                }
                let (first, fired) = self.server.create_leases(owner, Some(*take), *wanted);
                self.announce(fired);
                Answer::Taken(first, None)
            }
            What::Delete { name } => {
                self.change(|now| now.gate.retain(|node| node.name != *name));
                Answer::Done
            }
            What::Sweep { id } => {
                self.change(|now| now.gate.retain(|node| !node.name.starts_with(id.as_str())));
                Answer::Done
            }
            What::GiveBack(take) => {
                self.change(|now| now.leases.retain(|lease| lease.take != Some(*take)));
                Answer::Done
            }
        }
    }

    /// The client hears the next message that somebody can act upon, and those before it.
    fn deliver(&mut self, client: ClientId) {
        let client = &mut self.clients[client];
        let Some(message) = client.inbox.pop_front() else { return };
        match message {
            Message::Answer { task, slot, answer, zxid } => {
                client.zxid = client.zxid.max(zxid);
                client.tasks[task].answer(slot, answer);
            }
            Message::Event(Path::Parent) => {
                client.is_parent_gone = true;
                client.local.parent_changed();
            }
            Message::Event(Path::LeasesParent) => {
                client.is_leases_parent_gone = true;
                client.leases.parent_changed();
            }
            Message::Event(path) => {
                for (watched, watch, _) in client.tasks.iter_mut().flat_map(Task::watches) {
                    watch.has_told |= watched == path;
                }
            }
        }
    }

    fn poll(&mut self, client: ClientId, task: usize) -> Shown {
        let mut shown = Shown::default();
        let client = &mut self.clients[client];
        match std::mem::replace(&mut client.tasks[task].phase, Phase::Outside) {
            Phase::Trying(asking) => client.tried(task, asking, &mut shown),
            Phase::AtGate(asking) => client.gate_answered(task, asking, &mut shown),
            Phase::AwaitsGate => client.gate_woken(task, &mut shown),
            Phase::Entering => client.entered(task, &mut shown),
            Phase::AtLeases(asking) => client.leases_answered(task, asking, &mut shown),
            Phase::AwaitsLeases => client.leases_woken(task, &mut shown),
            phase => client.tasks[task].phase = phase,
        }
        shown
    }

    /// The connection is lost, and there is another: to a server that is up to date, or as far as it was then.
    fn relocate(&mut self, id: ClientId, to: Option<usize>, keeps_requests: bool, late: bool) {
        let view = to.map(|index| self.server.past[index].clone());
        let client = &mut self.clients[id];
        client.connection.0 += 1;
        client.inbox.clear();
        let requests: Vec<Request> = client.requests.drain(..).collect();
        // What was not written yet is sent on the next connection; the janitor repeats what is not known to be done.
        let is_janitors = |request: &Request| {
            matches!(request.what, What::Delete { .. } | What::Sweep { .. })
                || matches!(request.what, What::GiveBack(_)) && client.tasks[request.task].is_done()
        };
        let (kept, lost): (Vec<Request>, Vec<Request>) =
            requests.into_iter().partition(|request| keeps_requests || is_janitors(request));
        if late {
            client.late = lost.into_iter().filter(Request::is_take).collect();
        }
        client.requests = kept.into();
        for task in 0..client.tasks.len() {
            let requests = client.requests.clone();
            let is_kept = |slot: usize| requests.iter().any(|kept| kept.task == task && kept.slot == slot);
            client.tasks[task].lose_answers(|slot| !is_kept(slot));
        }
        self.server.watches.retain(|(of, _)| *of != id);
        self.server.lagging[id] = view;
        let view = self.server.view(id).clone();
        for (path, watch, leases) in client.tasks.iter_mut().flat_map(Task::watches) {
            if watch.has_told {
                continue;
            }
            let is_missed = match &path {
                Path::Gate(name) => !view.is_at_gate(name),
                Path::Leases => leases.is_some_and(|leases| leases != view.leases),
                Path::Parent | Path::LeasesParent => false,
            };
            if is_missed {
                client.inbox.push_back(Message::Event(path));
            } else {
                self.server.watches.insert((id, path));
            }
        }
    }

    /// Forgets what makes no difference any more, so that states that are alike are equal.
    fn tidy(&mut self) {
        if self.server.keeps_past {
            let seen = self.clients.iter().map(|client| client.zxid).min().unwrap_or_default();
            while self.server.past.front().is_some_and(|view| view.zxid < seen) {
                self.server.past.pop_front();
            }
        } else {
            self.server.past.clear();
        }
        for client in &mut self.clients {
            for message in std::mem::take(&mut client.inbox) {
                let is_heard = match &message {
                    Message::Answer { task, .. } => !client.tasks[*task].is_done(),
                    Message::Event(Path::Parent | Path::LeasesParent) => true,
                    Message::Event(path) => {
                        let mut watches = client.tasks.iter_mut().flat_map(Task::watches);
                        watches.any(|(watched, ..)| watched == *path)
                            || client.inbox.iter().any(answers_watch)
                    }
                };
                if is_heard {
                    client.inbox.push_back(message);
                }
            }
        }
    }
}

fn answers_watch(message: &Message) -> bool {
    matches!(message, Message::Answer { answer: Answer::Watched(_) | Answer::Counted { .. }, .. })
}

fn leave(now: &mut View, owner: Owner) {
    now.gate.retain(|node: &AtGate| node.owner != owner);
    now.leases.retain(|lease| lease.owner != owner);
}

impl Client {
    /// It hears that its session is over, and there is another.
    fn hear_expiry(&mut self) {
        self.connection.0 += 1;
        self.epoch += 1;
        self.has_expired = false;
        self.inbox.clear();
        self.requests.clear();
        self.late.clear();
        self.local = LocalQueue::default();
        self.stock = Stock::default();
        self.leases = LocalQueue::default();
        for task in 0..self.tasks.len() {
            self.tasks[task].lose_answers(|_| true);
            if matches!(self.tasks[task].phase, Phase::Holding(_)) {
                self.end(task);
            }
        }
    }
}
