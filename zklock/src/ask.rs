//! `zklock ask`: a request to give a lock back.

use std::process::ExitCode;

use zk_recipes::operate;

use crate::args::{Ask, Connection};
use crate::exit::{Failure, print};
use crate::queue::{identity, printable};

pub(crate) async fn ask(connection: &Connection, args: &Ask) -> Result<ExitCode, Failure> {
    let client = connection.connect().await?;
    let asked = operate::ask(&client, &args.path).await;
    client.close().await;
    let asked = asked?;
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
