//! The requests of a cache, on one connection.

use std::sync::Arc;

use zookeeper_client::{self as zk, MultiReadResult};

use super::pure::{Found, Op};
use crate::client::{Client, Read, Session, decompressed};

/// What the reads of a request have found, or why it has failed.
pub(super) type Reply = Result<Vec<(Op, Found)>, (Vec<Op>, zk::Error)>;

/// Makes reads, in one request. Paths are below the client's namespace.
pub(super) async fn read(client: Client, session: Arc<Session>, ops: Vec<Op>, decompresses: bool) -> Reply {
    match find(&client, &session, &ops).await {
        Ok(found) => {
            let found = found.into_iter().map(|found| match found {
                Found::Node(data, stat) if decompresses => Found::Node(data.map(decompress), stat),
                found => found,
            });
            Ok(ops.into_iter().zip(found).collect())
        }
        Err(error) => Err((ops, error)),
    }
}

async fn find(client: &Client, session: &Session, ops: &[Op]) -> Result<Vec<Found>, zk::Error> {
    let paths = ops.iter().map(|op| client.in_namespace(op.path())).collect::<Vec<_>>();
    let found = match (ops, &paths[..]) {
        ([Op::Stat(_)], [path]) => {
            let stat = session.stat(path).await;
            stat.map(|stat| stat.map_or(Found::Nothing, |stat| Found::Node(None, stat)))
        }
        ([Op::Data(_)], [path]) => session.data(path).await.map(|(data, stat)| Found::Node(Some(data), stat)),
        ([Op::Children(_)], [path]) => session.list(path).await.map(Found::Children),
        _ => {
            let reads = ops.iter().zip(&paths).map(|(op, path)| match op {
                Op::Children(_) => Read::Children(path),
                Op::Data(_) | Op::Stat(_) => Read::Data(path),
            });
            let reads = reads.collect::<Vec<_>>();
            return session.read_many(&reads).await?.into_iter().map(self::found).collect();
        }
    };
    Ok(vec![found.or_else(absent)?])
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
