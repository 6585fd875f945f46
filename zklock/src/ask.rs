//! `zklock ask`: a request to give a lock back.

use std::process::ExitCode;

use zk_recipes::{Client, Participant, operate};

use crate::args::{Ask, Connection};
use crate::exit::{Failure, print};
use crate::queue::{Queue, identity, printable};
use crate::recipe::Recipe;

pub(crate) async fn ask(connection: &Connection, args: &Ask) -> Result<ExitCode, Failure> {
    let asked = connection.with_client(async |client| ask_holders(client, args).await).await?;
    let mut text = String::new();
    for holder in &asked {
        text += &format!("asked {}, {}\n", printable(holder.node_path()), identity(holder));
    }
    if asked.is_empty() {
        text = format!("{}: nobody holds it\n", printable(&args.path));
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the holders, and returns them.
///
/// # Errors
/// One of them would lose its name by it and may never answer, besides those of [`operate::ask_participant`].
async fn ask_holders(client: &Client, args: &Ask) -> Result<Vec<Participant>, Failure> {
    let Queue { recipe, participants, .. } = Queue::read(client, &args.path).await?;
    let holders: Vec<_> = participants.into_iter().filter(Participant::is_holder).collect();
    // What is asked of a latch is not written to its node. This library writes its name again.
    let is_of_others = |holder: &&Participant| holder.pid().is_none() && !holder.is_revoke_requested();
    if !args.force
        && recipe != Some(Recipe::Latch)
        && let Some(other) = holders.iter().find(is_of_others)
    {
        return Err(Failure::other(format!(
            "did not ask {}, which is not of this library: the request overwrites its name, {}, and only a program that has called Curator's makeRevocable answers; with --force it is asked",
            other.node_path(),
            identity(other)
        )));
    }
    // These, and not who has come since.
    let mut asked = Vec::new();
    for holder in holders {
        if operate::ask_participant(client, &holder).await? {
            asked.push(holder);
        }
    }
    Ok(asked)
}
