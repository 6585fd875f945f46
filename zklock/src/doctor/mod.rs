//! `zklock doctor`: whether the servers are fit for locks.

mod finding;
mod probe;
mod servers;
mod version;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use zk_recipes::{Acl, Client, Permission, zookeeper_client as zk};

use crate::args::{Connection, Doctor};
use crate::exit::{Failure, UNHEALTHY, print};
use crate::json;
use crate::tree::full_path;

use self::finding::{Finding, Level, as_text, worst};
use self::servers::Server;

/// How long a server has for a four-letter word.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) async fn doctor(connection: &Connection, args: &Doctor) -> Result<ExitCode, Failure> {
    let patience = PATIENCE.min(connection.connect_timeout);
    let servers = Server::all(connection.servers()?, patience, connection.is_encrypted()).await;
    let mut findings = servers::judge(&servers);
    match connection.connect().await {
        Ok(client) => {
            let looked = look(&client, connection, args, &servers).await;
            client.close().await;
            findings.extend(looked);
        }
        // Wrong arguments are no finding.
        Err(failure) if failure.code() == crate::exit::USAGE => return Err(failure),
        Err(failure) => findings.push(Finding::problem("session", failure.to_string())),
    }
    let text = match args.json {
        true => {
            let findings: Vec<_> = findings.iter().map(Finding::as_json).collect();
            json::document(&json!({ "findings": findings }))
        }
        false => as_text(&findings),
    };
    print(&text)?;
    Ok(if worst(&findings) == Level::Problem { UNHEALTHY.into() } else { ExitCode::SUCCESS })
}

async fn look(client: &Client, connection: &Connection, args: &Doctor, servers: &[Server]) -> Vec<Finding> {
    let mut findings = vec![session(client, connection, servers).await];
    findings.extend(probe::findings(client, connection).await);
    for path in &args.paths {
        let acl = acl(client, path).await.unwrap_or_else(|error| Finding::failed("acl", &*error));
        findings.push(acl.of(path));
    }
    findings
}

/// The timeout that the servers grant.
async fn session(client: &Client, connection: &Connection, servers: &[Server]) -> Finding {
    const CHECK: &str = "session";
    let granted = match client.zookeeper().await {
        Ok(zookeeper) => zookeeper.session_timeout(),
        Err(error) => return Finding::failed(CHECK, &error),
    };
    let wanted = connection.session_timeout;
    if granted == wanted {
        return Finding::ok(CHECK, format!("a timeout of {granted:?}, as asked for"));
    }
    let limits = match servers::session_limits(servers) {
        Some((least, most)) => format!("they allow {least}ms to {most}ms"),
        None => "minSessionTimeout and maxSessionTimeout bound it".into(),
    };
    Finding::warning(
        CHECK,
        format!("asked for a timeout of {wanted:?}, the servers grant {granted:?}: {limits}"),
    )
}

/// Who may do more than look at a path.
async fn acl(client: &Client, path: &str) -> Result<Finding, Box<dyn Error>> {
    const CHECK: &str = "acl";
    let full_path = full_path(client, path)?;
    let zookeeper = client.zookeeper().await?;
    let mut at = &*full_path;
    let acl = loop {
        match zookeeper.get_acl(at).await {
            Ok((acl, _)) => break acl,
            Err(zk::Error::NoNode) if at != "/" => {
                at = at.rsplit_once('/').map(|(parent, _)| parent).filter(|at| !at.is_empty()).unwrap_or("/");
            }
            Err(zk::Error::NoAuth) => {
                let text =
                    format!("{at} may be read only by others: authenticate with --auth-file to see its ACL");
                return Ok(Finding::ok(CHECK, text));
            }
            Err(error) => return Err(error.into()),
        }
    };
    let whose = if at == full_path { String::new() } else { format!("does not exist; at {at}, ") };
    let anyone = acl.iter().filter(|acl| acl.scheme() == "world");
    let open = anyone.fold(Permission::NONE, |open, acl| open | acl.permission());
    let beyond = [Permission::WRITE, Permission::CREATE, Permission::DELETE, Permission::ADMIN]
        .into_iter()
        .filter(|permission| open.has(*permission))
        .fold(Permission::NONE, |beyond, permission| beyond | permission);
    if beyond != Permission::NONE {
        let text = format!(
            "{whose}everyone who reaches the servers may {beyond}: they can take locks, and keep them from others"
        );
        return Ok(Finding::warning(CHECK, text));
    }
    let who: Vec<_> = acl.iter().map(|acl| format!("{} may {}", identity(acl), acl.permission())).collect();
    Ok(Finding::ok(CHECK, format!("{whose}{}", who.join(", "))))
}

/// An identity without what it is proven by.
fn identity(acl: &Acl) -> String {
    let id = match acl.scheme() {
        "digest" => acl.id().split(':').next().unwrap_or_default(),
        _ => acl.id(),
    };
    format!("{}:{id}", acl.scheme())
}
