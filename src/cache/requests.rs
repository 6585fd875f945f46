//! The requests of a cache, on one connection.

use std::sync::Arc;

use zookeeper_client::{self as zk, MultiReadResult};

use super::pure::{Found, Op};
use crate::client::{Client, Read, Session, decompressed};
use crate::failure::Failure;

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum Reply {
    Read(Vec<(Op, Found)>),
    /// The connection is to blame, or has ended.
    Lost,
    /// The server refuses to do that.
    Refused(Vec<Op>, zk::Error),
}

/// Makes reads, in one request. Paths are below the client's namespace.
pub(super) async fn read(client: Client, session: Arc<Session>, ops: Vec<Op>, decompresses: bool) -> Reply {
    match find(&client, &session, &ops).await {
        Ok(found) => {
            let found = found.into_iter().map(|found| match found {
                Found::Node(data, stat) if decompresses => Found::Node(data.map(decompress), stat),
                found => found,
            });
            Reply::Read(ops.into_iter().zip(found).collect())
        }
        Err(error) if Failure::of(&error) == Failure::Refused => Reply::Refused(ops, error),
        Err(_) => Reply::Lost,
    }
}

async fn find(client: &Client, session: &Session, ops: &[Op]) -> Result<Vec<Found>, zk::Error> {
    let paths = ops.iter().map(|op| client.in_namespace(op.path())).collect::<Vec<_>>();
    match (ops, &paths[..]) {
        ([Op::Stat(_)], [path]) => match session.stat(path).await {
            Ok(stat) => Ok(vec![stat.map_or(Found::Nothing, |stat| Found::Node(None, stat))]),
            Err(error) => absent(error).map(|found| vec![found]),
        },
        ([Op::Data(_)], [path]) => match session.data(path).await {
            Ok((data, stat)) => Ok(vec![Found::Node(Some(data), stat)]),
            Err(error) => absent(error).map(|found| vec![found]),
        },
        ([Op::Children(_)], [path]) => match session.list(path).await {
            Ok(names) => Ok(vec![Found::Children(names)]),
            Err(error) => absent(error).map(|found| vec![found]),
        },
        _ => {
            let reads = ops.iter().zip(&paths).map(|(op, path)| match op {
                Op::Children(_) => Read::Children(path),
                Op::Data(_) | Op::Stat(_) => Read::Data(path),
            });
            let reads = reads.collect::<Vec<_>>();
            session.read_many(&reads).await?.into_iter().map(found).collect()
        }
    }
}

fn found(read: MultiReadResult) -> Result<Found, zk::Error> {
    match read {
        MultiReadResult::Data { data, stat } => Ok(Found::Node(Some(data), stat)),
        MultiReadResult::Children { children } => Ok(Found::Children(children)),
        MultiReadResult::Error { err } => absent(err),
        _ => Err(zk::Error::MarshallingError),
    }
}

fn absent(error: zk::Error) -> Result<Found, zk::Error> {
    match error {
        zk::Error::NoNode => Ok(Found::Nothing),
        zk::Error::NoAuth => Ok(Found::Forbidden),
        error => Err(error),
    }
}

fn decompress(data: Vec<u8>) -> Vec<u8> {
    decompressed(&data).unwrap_or(data)
}
