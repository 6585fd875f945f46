//! Random requests, and their replies as text.

use std::fmt::Write as _;

use fastrand::Rng;

use crate::memory::wire::{Body, Parts, Reply};

/// The requests: their codes, their names, and how often each is drawn.
macro_rules! requests {
    ($($code:ident = $number:literal, $name:literal, $times:literal;)*) => {
        $(pub(crate) const $code: i32 = $number;)*

        const REQUESTS: &[(i32, &str, usize)] = &[$(($code, $name, $times)),*];
    };
}

requests! {
    CREATE = 1, "create", 3;
    CREATE_2 = 15, "create2", 2;
    CREATE_CONTAINER = 19, "createContainer", 1;
    CREATE_TTL = 21, "createTTL", 1;
    DELETE = 2, "delete", 3;
    EXISTS = 3, "exists", 2;
    GET_DATA = 4, "getData", 3;
    SET_DATA = 5, "setData", 3;
    GET_ACL = 6, "getACL", 1;
    SET_ACL = 7, "setACL", 1;
    GET_CHILDREN = 8, "getChildren", 1;
    GET_CHILDREN_2 = 12, "getChildren2", 2;
    SYNC = 9, "sync", 1;
    MULTI = 14, "multi", 3;
    CHECK_WATCHES = 17, "checkWatches", 1;
    REMOVE_WATCHES = 18, "removeWatches", 1;
    MULTI_READ = 22, "multiRead", 1;
    AUTH = 100, "auth", 1;
    GET_EPHEMERALS = 103, "getEphemerals", 1;
    GET_ALL_CHILDREN_NUMBER = 104, "getAllChildrenNumber", 1;
    ADD_WATCH = 106, "addWatch", 2;
    WHO_AM_I = 107, "whoAmI", 1;
    RECONFIG = 16, "reconfig", 1;
    CHECK = 13, "check", 0;
    SET_WATCHES = 101, "setWatches", 0;
    SET_WATCHES_2 = 105, "setWatches", 0;
}

/// The users that clients authenticate as. The digest is that of "u1:p1".
const USERS: [&str; 2] = ["u1:p1", "u2:p2"];
const DIGEST_OF_U1: &str = "u1:fpT/y03U+EjItKZOSLGvjnJlyng=";

/// Between bars.
const ODD_PATHS: &str =
    "|a|/|//|/a/|/a//b|/a/../b|/.|/zookeeper|/zookeeper/config|/a\u{1}|/\u{e000}|/no/such/node";

/// A request, and how it reads in a report.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) code: i32,
    pub(crate) body: Vec<u8>,
    pub(crate) text: String,
}

/// What a history may contain, since versions of ZooKeeper treat the rest differently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) one_shot_watches: bool,
    pub(crate) lasting_watches: bool,
    /// Whether watches of several modes may be at the same path.
    pub(crate) mixed_watches: bool,
    /// Whether the version is one that returns when a transaction has created its nodes, numbers no request that it
    /// cannot decode, hides the existence of what may not be read, and tells whose watch it is.
    pub(crate) current: bool,
    /// Whether both sides answer alike to a create in a transaction that asks for a stat.
    pub(crate) stats_in_multi: bool,
    /// Whether nodes may be hidden from some of the clients.
    pub(crate) acls: bool,
}

pub(crate) struct Generator<'a> {
    pub(crate) random: &'a mut Rng,
    /// What paths are made of, all below one root.
    pub(crate) paths: &'a [String],
    pub(crate) scope: Scope,
    pub(crate) zxid: i64,
}

fn header(body: Body, code: i32) -> Body {
    body.int(code).bool(false).int(-1)
}

fn end(body: Body) -> Body {
    body.int(-1).bool(true).int(-1)
}

impl Generator<'_> {
    fn one_in(&mut self, count: usize) -> bool {
        self.random.usize(..count) == 0
    }

    pub(crate) fn path(&mut self) -> String {
        if self.one_in(15) {
            return self.random.choice(ODD_PATHS.split('|').collect::<Vec<_>>()).unwrap().into();
        }
        self.random.choice(self.paths).unwrap().clone()
    }

    fn watch(&mut self) -> bool {
        self.scope.one_shot_watches && self.random.bool()
    }

    fn version(&mut self) -> i32 {
        if self.one_in(2) { -1 } else { self.random.i32(0..3) }
    }

    fn data(&mut self) -> Vec<u8> {
        let length = self.random.usize(..4);
        (0..length).map(|_| self.random.u8(b'a'..=b'z')).collect()
    }

    fn acl(&mut self, body: Body) -> Body {
        let lists: [&[(i32, &str, &str)]; 12] = [
            &[(1, "world", "anyone")],
            &[(31, "auth", "")],
            &[(31, "digest", DIGEST_OF_U1)],
            &[(1, "world", "anyone"), (31, "digest", DIGEST_OF_U1)],
            &[(12, "world", "anyone"), (16, "ip", "127.0.0.1"), (3, "ip", "10.0.0.0/8")],
            &[(31, "ip", "127.0.0.0/8"), (31, "ip", "127.0.0.0/8")],
            &[],
            &[(31, "world", "nobody")],
            &[(31, "digest", "u1")],
            &[(31, "ip", "300.0.0.1")],
            &[(31, "x509", "CN=somebody")],
            &[(31, "world", "anyone"), (31, "auth", "")],
        ];
        let everyone: &[_] = &[(31, "world", "anyone")];
        let list =
            if self.scope.acls && self.one_in(4) { *self.random.choice(&lists).unwrap() } else { everyone };
        list.iter().fold(body.int(list.len() as i32), |body, (permissions, scheme, id)| {
            body.int(*permissions).text(scheme).text(id)
        })
    }

    fn create(&mut self, code: i32) -> Body {
        let path = self.path();
        let body = Body::default().text(&path).bytes(&self.data());
        let body = self.acl(body);
        match code {
            CREATE_CONTAINER => body.int(4),
            CREATE_TTL => {
                let flags = *self.random.choice(&[5, 5, 6]).unwrap();
                let ttl = *self.random.choice(&[3_600_000, 1 << 39, 0, -5, 1 << 40]).unwrap();
                body.int(flags).long(ttl)
            }
            _ => {
                let flags = if self.scope.current && self.one_in(30) { 9 } else { self.random.i32(0..4) };
                body.int(flags)
            }
        }
    }

    fn write(&mut self, code: i32) -> Body {
        match code {
            CREATE | CREATE_2 | CREATE_CONTAINER | CREATE_TTL => self.create(code),
            SET_DATA => Body::default().text(&self.path()).bytes(&self.data()).int(self.version()),
            _ => {
                let path = self.path();
                // Without the root of the history, there would be nothing to do in it.
                let path = if code == DELETE && path == self.paths[0] { "/" } else { &path };
                Body::default().text(path).int(self.version())
            }
        }
    }

    fn multi(&mut self) -> Body {
        let mut body = Body::default();
        for _ in 0..self.random.usize(..5) {
            let codes =
                [CREATE, CREATE_2, CREATE, CREATE_CONTAINER, CREATE_TTL, DELETE, SET_DATA, CHECK, SET_DATA];
            let mut code = *self.random.choice(&codes).unwrap();
            if code == CREATE_2 && !self.scope.stats_in_multi {
                code = CREATE;
            }
            body = header(body, code);
            body.0.extend(self.write(code).0);
        }
        end(body)
    }

    fn multi_read(&mut self) -> Body {
        let mut body = Body::default();
        for _ in 0..self.random.usize(..4) {
            let code = *self.random.choice(&[GET_DATA, GET_CHILDREN]).unwrap();
            body = header(body, code).text(&self.path()).bool(false);
        }
        end(body)
    }

    /// The watches of a client that has reconnected.
    pub(crate) fn set_watches(&mut self) -> Operation {
        let code = *self.random.choice(&[SET_WATCHES, SET_WATCHES_2]).unwrap();
        let mut lists = Vec::new();
        let has_lasting = code == SET_WATCHES_2;
        for index in 0..if has_lasting { 5 } else { 3 } {
            let is_wanted = if index < 3 { self.scope.one_shot_watches } else { self.scope.lasting_watches };
            let count = if is_wanted { self.random.usize(..3) } else { 0 };
            let mut list: Vec<_> =
                (0..count).map(|_| self.random.choice(self.paths).unwrap().clone()).collect();
            list.retain(|path| index < 3 || self.scope.mixed_watches || is_recursive(path) == (index == 4));
            lists.push(list);
        }
        let zxid = self.zxid - self.random.i64(0..12);
        let body = lists.iter().fold(Body::default().long(zxid), |body, list| body.texts(list));
        Operation { code, body: body.0, text: format!("set watches since {zxid}: {lists:?}") }
    }

    /// Any request but those that end or change a session.
    pub(crate) fn operation(&mut self) -> Operation {
        let codes = REQUESTS.iter().flat_map(|(code, _, times)| std::iter::repeat_n(*code, *times));
        let codes: Vec<i32> = codes.collect();
        let mut code = *self.random.choice(&codes).unwrap();
        if code == ADD_WATCH && !self.scope.lasting_watches {
            code = GET_DATA;
        }
        let is_different = code == CHECK_WATCHES || code == EXISTS && self.scope.acls;
        if is_different && !self.scope.current {
            code = GET_DATA;
        }
        let path = self.path();
        let body = Body::default().text(&path);
        let body = match code {
            CREATE | CREATE_2 | CREATE_CONTAINER | CREATE_TTL | DELETE | SET_DATA => self.write(code),
            EXISTS | GET_DATA | GET_CHILDREN | GET_CHILDREN_2 => body.bool(self.watch()),
            SET_ACL => {
                // Else the rest of this history, and those after it, might be rows of refusals.
                let is_shared = path == "/" || path.starts_with("/zookeeper");
                let path = if is_shared { "/nowhere" } else { &path };
                let body = self.acl(Body::default().text(path));
                body.int(self.version())
            }
            MULTI => self.multi(),
            MULTI_READ => self.multi_read(),
            CHECK_WATCHES | REMOVE_WATCHES => {
                let target = if self.scope.mixed_watches { self.random.i32(1..7) } else { 3 };
                body.int(target)
            }
            ADD_WATCH => {
                let is_recursive =
                    if self.scope.mixed_watches { self.random.bool() } else { is_recursive(&path) };
                body.int(is_recursive.into())
            }
            AUTH => {
                let user = *self.random.choice(&USERS).unwrap();
                let scheme = if self.one_in(8) { "nonsense" } else { "digest" };
                Body::default().int(0).text(scheme).text(user)
            }
            WHO_AM_I => Body::default(),
            RECONFIG => Body::default().text("").text("").text("").long(-1),
            _ => body,
        };
        let mut body = body.0;
        let mut text = format!("{} {}", name(code), body.escape_ascii());
        if self.scope.current && self.one_in(40) {
            body.truncate(self.random.usize(..=body.len()));
            text = format!("truncated {} {}", name(code), body.escape_ascii());
        }
        Operation { code, body, text }
    }
}

/// Of the lasting watches at one path, all have the same mode where the version of the server cannot tell them apart.
fn is_recursive(path: &str) -> bool {
    path.len().is_multiple_of(2)
}

fn name(code: i32) -> &'static str {
    REQUESTS.iter().find(|request| request.0 == code).map_or("?", |request| request.1)
}

/// Describes a reply such that the same reply of two servers reads the same: without times, with the names of
/// sessions instead of their ids, and with lists in order whose order means nothing.
pub(crate) fn describe(operation: &Operation, reply: &Reply, name_of: &dyn Fn(i64) -> String) -> String {
    let mut text = format!("zxid {} error {}", reply.zxid, reply.error);
    let mut parts = Parts(&reply.body);
    if reply.error == 0 {
        match operation.code {
            MULTI | MULTI_READ => loop {
                let (code, is_end, error) = (parts.int(), parts.bool(), parts.int());
                let _ = write!(text, "\n      {} {is_end} {error}: ", name(code));
                if is_end {
                    break;
                }
                if code == -1 {
                    let _ = write!(text, "{}", parts.int());
                } else {
                    result(&mut text, code, &mut parts, name_of);
                }
            },
            code => result(&mut text, code, &mut parts, name_of),
        }
    }
    if !parts.0.is_empty() {
        let _ = write!(text, " rest {:?}", parts.0);
    }
    text
}

fn result(text: &mut String, code: i32, parts: &mut Parts<'_>, name_of: &dyn Fn(i64) -> String) {
    let _ = match code {
        CREATE | SYNC => write!(text, " {}", parts.text()),
        CREATE_2 | CREATE_CONTAINER | CREATE_TTL => {
            write!(text, " {} {}", parts.text(), stat(parts, name_of))
        }
        EXISTS | SET_DATA | SET_ACL => write!(text, " {}", stat(parts, name_of)),
        GET_DATA => {
            let data = parts.bytes().map(|data| data.escape_ascii().to_string());
            write!(text, " {data:?} {}", stat(parts, name_of))
        }
        GET_CHILDREN | GET_EPHEMERALS => write!(text, " {:?}", sorted(parts.list(Parts::text))),
        GET_CHILDREN_2 => {
            write!(text, " {:?} {}", sorted(parts.list(Parts::text)), stat(parts, name_of))
        }
        GET_ACL => {
            let list = sorted(parts.list(|parts| (parts.int(), parts.text(), parts.text())));
            write!(text, " {list:?} {}", stat(parts, name_of))
        }
        WHO_AM_I => write!(text, " {:?}", sorted(parts.list(|parts| (parts.text(), parts.text())))),
        GET_ALL_CHILDREN_NUMBER | ADD_WATCH => write!(text, " {}", parts.int()),
        _ => Ok(()),
    };
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list
}

fn stat(parts: &mut Parts<'_>, name_of: &dyn Fn(i64) -> String) -> String {
    let (czxid, mzxid) = (parts.long(), parts.long());
    let (ctime, mtime) = (parts.long(), parts.long());
    let [version, cversion, aversion] = [parts.int(), parts.int(), parts.int()];
    let owner = parts.long();
    let [length, children] = [parts.int(), parts.int()];
    let pzxid = parts.long();
    assert!(ctime <= mtime && (czxid != mzxid || ctime == mtime), "{ctime} {mtime}");
    let owner = name_of(owner);
    format!(
        "c{czxid} m{mzxid} p{pzxid} v{version} cv{cversion} av{aversion} owner {owner} {length}B {children}n"
    )
}
