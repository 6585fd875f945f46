//! Everything there is, and what happens to it.

use super::client::{Answer, Client, Message, Request, Watch, What};
use super::driver::Shown;
use super::games::{Faults, Game, Player};
use super::grants::Breach;
use super::lag::Lag;
use super::linger::Lingering;
use super::queue::name::{Kind, LATCH, Names};
use super::shared::Shared;
use super::steps::Step;
use super::task::Task;
use super::zookeeper::{Child, ClientId, Fired, Owner, Path, ZooKeeper, number};

#[derive(Clone, Hash)]
pub(crate) struct World {
    pub(crate) server: Shared<ZooKeeper>,
    pub(crate) clients: Vec<Shared<Client>>,
    pub(crate) foreigners: Vec<Foreigner>,
    pub(crate) may_read_own: bool,
    /// Those that may yet happen.
    pub(crate) faults: Faults,
    /// What should not have happened.
    pub(crate) breach: Option<Breach>,
}

/// A contender of another library, or of another recipe. It holds at the very moment in which its node is the first that counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Foreigner {
    pub(crate) kind: Kind,
    pub(crate) has_come: bool,
}

impl World {
    pub(crate) fn new(game: &Game) -> Self {
        let client = |(id, tasks): (usize, &&[Player])| {
            let tasks = tasks.iter().map(|(kind, rounds)| Task::new(game.names, *kind, *rounds));
            let mut tasks: Vec<Task> = tasks.collect();
            tasks[0].is_ticket = game.has_ticket && id == 0;
            Client::new(id, game.names, tasks).into()
        };
        let foreigner = |kind: &Kind| Foreigner { kind: *kind, has_come: false };
        let mut world = Self {
            server: ZooKeeper::new(game.first_number).into(),
            clients: game.clients.iter().enumerate().map(client).collect(),
            foreigners: game.foreigners.iter().map(foreigner).collect(),
            may_read_own: game.may_read_own,
            faults: game.faults,
            breach: None,
        };
        for client in &mut world.clients {
            client.creates_parent = game.creates_parent;
            client.lingers = game.lingers;
            client.cohort = game.cohort;
        }
        if game.is_new {
            *world.server = ZooKeeper::without_parent();
        }
        if game.is_known {
            world.server.watch(0, &Path::Parent);
            world.clients[0].know_up_to(game.first_number - 1);
        }
        if world.faults.lag > 0 {
            for client in &mut world.clients {
                client.lag = Lag::Possible { server: (*world.server).clone(), since: Vec::new(), seen: 0 };
            }
        }
        world
    }

    pub(crate) fn names(&self) -> &'static Names {
        self.clients[0].names
    }

    pub(crate) fn nodes_of(&self, foreigner: usize) -> impl Iterator<Item = &Child> {
        self.server.children.iter().filter(move |child| child.owner == Owner::Foreigner(foreigner))
    }

    /// Whether it is a node of somebody who waits or holds by it.
    pub(crate) fn is_claimed(&self, child: &Child) -> bool {
        match child.owner {
            Owner::Task { client, task } => {
                self.clients[client].tasks[task].claims(&child.name) || self.lingers_by(child)
            }
            Owner::Foreigner(_) => true,
        }
    }

    /// Whether it is a node that lingers, by which nobody holds.
    pub(crate) fn lingers_by(&self, child: &Child) -> bool {
        let by_it = |lingering: &Lingering| lingering.is_idle() && lingering.name == child.name;
        self.clients.iter().any(|client| client.lingering.as_ref().is_some_and(by_it))
    }

    /// Takes a step. Answers what it has shown, if a task took it.
    pub(crate) fn take(&mut self, step: Step) -> Shown {
        let mut shown = Shown::default();
        match step {
            Step::Enter(client, task) => {
                shown = self.clients[client].enter(task);
                self.judge(client, task, shown);
            }
            Step::Serve(client) => {
                let request = self.clients[client].requests.pop_front().expect("there is one");
                let answer = self.serve(client, &request, &mut shown);
                self.spread();
                if let Some(message) = Client::message(&request) {
                    self.clients[client].inbox.push_back(message);
                } else if let Some(answer) = answer {
                    let Request { task, slot, .. } = request;
                    let client = &mut self.clients[client];
                    let seen = client.lag.seen();
                    client.inbox.push_back(Message::Answer { task, slot, answer, seen });
                }
            }
            Step::Deliver { client, messages } => self.clients[client].deliver(messages),
            Step::DeliverMissed(client, missed) => self.clients[client].deliver_missed(&missed),
            Step::Poll { client, task, between } => {
                let node = self.clients[client].tasks[task].node.as_ref().map(|node| node.id.clone());
                shown = self.clients[client].poll(task, between);
                if shown.is_refused {
                    self.judge_refusal(node);
                }
                self.judge(client, task, shown);
            }
            Step::Release(client, task) => self.clients[client].release(task),
            Step::ReleaseWriter(client, task) => self.clients[client].release_writer(task),
            Step::HearExpiry(client) => self.clients[client].hear_expiry(),
            Step::ForeignEnter(index) => self.enter_foreigner(index),
            Step::ForeignRelease(index) => self.foreigner_leaves(index),
            Step::ForeignGiveUp(index) => {
                self.faults.cancel -= 1;
                self.foreigner_leaves(index);
            }
            Step::ForeignDowngrade(index) => {
                self.faults.downgrade -= 1;
                let writer = self.nodes_of(index).next().expect("it holds").name.clone();
                let (names, marker) = (self.names(), self.names().marker(Kind::Shared));
                let name = format!("f{index}r-{marker}{:010}", number(names, &writer));
                self.server.create_reader(&name, &writer);
            }
            Step::Downgrade(client, task) => {
                self.faults.downgrade -= 1;
                self.clients[client].downgrade(task);
            }
            Step::Lose(client, task) => {
                self.faults.lose -= 1;
                self.clients[client].lose(task);
            }
            Step::Transact(client, task) => {
                self.faults.transact -= 1;
                self.clients[client].transact(task);
            }
            Step::Cancel(client, task) => {
                self.faults.cancel -= 1;
                self.clients[client].end(task);
            }
            Step::Expire(client) => self.expire(client),
            Step::Reconnect { client, late } => self.reconnect(client, late),
            Step::ServeLate(client, index) => self.serve_late(client, index),
            Step::Refuse(client) => self.refuse(client),
            Step::DeleteAgain(client) => self.delete_again(client),
            Step::Resume(client, task) => self.clients[client].resume(task),
            Step::Mind(client, task) => self.clients[client].mind(task),
            Step::Attend(client) => self.clients[client].attend(),
            Step::Lapse(client) => {
                self.faults.lapse -= 1;
                self.clients[client].lapse();
            }
            Step::LapseCohort(client) => {
                self.faults.lapse -= 1;
                self.clients[client].lapse_cohort();
            }
            Step::Ask(client) => {
                self.faults.ask -= 1;
                self.clients[client].hear_request();
            }
            Step::Wipe => self.wipe(),
            Step::FallBehind(client) => self.fall_behind(client),
            Step::CatchUp(client) => self.catch_up(client),
            Step::Rob(name) => self.rob(&name),
            Step::Touch(name) => {
                self.faults.touch -= 1;
                let fired = self.server.touch(&name);
                self.announce(fired);
            }
            Step::Reap => {
                self.faults.reap -= 1;
                let fired = self.server.reap();
                self.announce(fired);
            }
        }
        self.spread();
        self.tidy();
        shown
    }

    pub(crate) fn announce(&mut self, fired: Vec<Fired>) {
        for Fired { client, path, change } in fired {
            self.clients[client].inbox.push_back(Message::Event { path, change });
        }
    }

    /// Does what a request asks for.
    pub(crate) fn serve(&mut self, client: ClientId, request: &Request, shown: &mut Shown) -> Option<Answer> {
        let owner = Owner::Task { client, task: request.task };
        if let What::Create { id } | What::CreateWithParent { id } = &request.what {
            self.clients[client].tasks[request.task].created_under(id, self.server.parents);
        }
        if request.what.is_read() {
            return Some(self.read(client, request));
        }
        // What changes something, or is there for that, is answered by a server that has caught up.
        while self.clients[client].lag.is_behind() {
            self.catch_up(client);
        }
        let server = &mut self.server;
        Some(match &request.what {
            What::CatchUp => Answer::Done,
            What::Create { id } => {
                let kind = self.clients[client].tasks[request.task].kind;
                let prefix = format!("{id}{}", self.clients[client].names.marker(kind));
                server.create(&prefix, kind, owner).map_or(Answer::Missing, Answer::Created)
            }
            What::CreateWithParent { id } => {
                let kind = self.clients[client].tasks[request.task].kind;
                let prefix = format!("{id}{}", self.clients[client].names.marker(kind));
                server
                    .create_with_parent(&prefix, kind, owner)
                    .map_or(Answer::Exists, Answer::CreatedWithParent)
            }
            What::CreateReader { name, writer } => {
                if server.create_reader(name, writer) {
                    Answer::Done
                } else {
                    Answer::Missing
                }
            }
            What::MakeParent => {
                server.make_parent();
                Answer::Done
            }
            What::List | What::Date { .. } | What::Watch(_) | What::Look { .. } => return None,
            What::Find { id } => Answer::Found(server.find(id).map(|child| child.name.clone())),
            What::Commit { node } => {
                self.commit(client, request.task, node, shown);
                return None;
            }
            What::Delete { name } | What::DeleteAndTell { name, .. } => {
                let fired = server.delete(name);
                self.announce(fired);
                return None;
            }
            What::Sweep { id } => {
                let fired = server.delete_all(|child| child.name.starts_with(id));
                self.announce(fired);
                return None;
            }
        })
    }

    /// Answers what the server of the client can answer by itself, which may lag behind.
    fn read(&mut self, client: ClientId, request: &Request) -> Answer {
        let owner = Owner::Task { client, task: request.task };
        let server = self.clients[client].lag.server().unwrap_or(&mut self.server);
        match &request.what {
            What::List => Answer::Listed(server.list()),
            What::Date { undated, .. } => Answer::Dated(server.dates(undated)),
            What::Watch(Path::Child(name))
                if !self.may_read_own && server.child(name).is_some_and(|child| child.owner == owner) =>
            {
                Answer::Refused
            }
            What::Look { node } if server.watch(client, &Path::Children) => {
                Answer::Looked { node: node.clone(), children: server.list() }
            }
            What::Watch(path) if server.watch(client, path) => Answer::Watched(Watch::default()),
            _ => Answer::Missing,
        }
    }

    fn enter_foreigner(&mut self, index: usize) {
        let Foreigner { kind, has_come } = &mut self.foreigners[index];
        *has_come = true;
        let marker = match kind {
            // Whatever recipe is played, that is another one.
            Kind::Foreign(_) => LATCH.marker(Kind::Exclusive),
            Kind::Exclusive | Kind::Shared => self.clients[0].names.marker(*kind),
        };
        let prefix = format!("f{index}-{marker}");
        self.server.make_parent();
        self.server.create(&prefix, *kind, Owner::Foreigner(index));
    }

    /// It deletes its first node, which is the writer's if it has become a reader.
    fn foreigner_leaves(&mut self, index: usize) {
        let name = self.nodes_of(index).next().expect("it is there").name.clone();
        let fired = self.server.delete(&name);
        self.announce(fired);
    }

    fn tidy(&mut self) {
        for client in self.clients.iter_mut().filter(|client| !client.is_tidy()) {
            client.tidy();
        }
        let is_heard = |(client, path): &(ClientId, Path)| self.clients[*client].listens_to(path);
        if !self.server.watches.iter().all(is_heard) {
            self.server.watches.retain(is_heard);
        }
    }
}
