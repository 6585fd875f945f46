use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use zookeeper_client as zk;

use super::super::clock::Moment;
use super::super::validity::{Terms, Validity};
use super::super::write::Write;
use super::{NewNode, Session, Sharing};

/// Of requests that are polled one after another, a later one must not overtake an earlier one that waits.
#[test]
fn a_request_without_a_connection_fails_when_it_is_polled_first() {
    let validity = Validity::new(Duration::from_secs(10), Terms::default(), Moment::now(), true);
    let session = Arc::new(Session::new(1, 1, validity));
    let node = || NewNode { path: "/a/b".into(), numbered: true, data: b"".into(), acl: Cow::Borrowed(&[]) };
    let check = [Write::Check { path: "/", version: None }];
    let multi = |error: Option<zk::MultiWriteError>| error.map(zk::Error::from);
    let outcomes = [
        session.create(&node(), Sharing::None).now_or_never().map(Result::err),
        session.create_together(None, None, &[node()]).now_or_never().map(Result::err),
        session.commit(&check).now_or_never().map(|committed| multi(committed.err())),
        session.create_persistent("/a", b"", &[]).now_or_never().map(Result::err),
        session.create_container("/a", &[]).now_or_never().map(Result::err),
        session.list("/a").now_or_never().map(Result::err),
        session.sync("/").now_or_never().map(Result::err),
        session.confirm().now_or_never().map(Result::err),
        session.own_nodes("/a", |_| true).now_or_never().map(Result::err),
        session.stat("/a").now_or_never().map(Result::err),
        session.data("/a").now_or_never().map(Result::err),
        session.watch_data("/a").now_or_never().map(Result::err),
        session.watch_existence("/a").now_or_never().map(Result::err),
        session.watch_list("/a").now_or_never().map(Result::err),
        session.set_data("/a", b"", None).now_or_never().map(Result::err),
        session.delete("/a").now_or_never().map(Result::err),
    ];
    for (nth, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome, Some(Some(zk::Error::ConnectionLoss)), "request {nth}");
    }
    assert!(session.ready().now_or_never().is_none());
    session.end();
    assert_eq!(session.list("/a").now_or_never(), Some(Err(zk::Error::SessionExpired)));
    assert!(session.ready().now_or_never().is_some());
}
