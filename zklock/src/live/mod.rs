//! `zklock watch` and `zklock top`: what is read again and again, until the user has seen enough.

mod screen;
mod sight;
mod top;
mod view;
mod watch;

use std::io::IsTerminal;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use tokio::time::{sleep, timeout};
use zk_recipes::Client;

use crate::args::{self, Connection, Live};
use crate::exit::{Failure, is_unread, print_while_read};
use crate::said::say;
use crate::signals::{Signals, code_of};
use crate::time::rfc3339;

use self::screen::{Key, Screen};
use self::sight::Sight;
use self::view::View;

/// How often to look whether what is shown has become old, and whether anybody still reads it.
const MOMENT: Duration = Duration::from_millis(250);

pub(crate) async fn watch(connection: &Connection, args: &args::Watch) -> Result<ExitCode, Failure> {
    live(connection, &args.live, async |client| watch::read(client, &args.path).await).await
}

pub(crate) async fn top(connection: &Connection, args: &args::Top) -> Result<ExitCode, Failure> {
    let mut top = top::Top::new(args);
    live(connection, &args.live, async |client| top.read(client).await).await
}

/// Reads and shows until the user or a signal ends it.
async fn live(
    connection: &Connection,
    args: &Live,
    read: impl AsyncFnMut(&Client) -> Result<View, Failure>,
) -> Result<ExitCode, Failure> {
    let has_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !args.json && !has_terminal {
        return Err(Failure::usage(
            "there is no terminal to show this on: give --json for a line at each change",
        ));
    }
    // So that a signal leaves the terminal as it was.
    let mut signals = Signals::listen()?;
    let shown = async {
        let client = connection.connect_quietly().await?;
        let shown = match args.json {
            true => print_changes(&client, args.every, read).await,
            false => show(&client, args.every, read).await,
        };
        client.close().await;
        shown
    };
    tokio::select! {
        biased;
        number = signals.ending() => Ok(code_of(number).into()),
        shown = shown => shown.map(|()| ExitCode::SUCCESS),
    }
}

/// How long to wait before a view is read again.
fn pause(every: Duration, view: &View) -> Duration {
    every.saturating_mul(view.weight)
}

async fn print_changes(
    client: &Client,
    every: Duration,
    mut read: impl AsyncFnMut(&Client) -> Result<View, Failure>,
) -> Result<(), Failure> {
    let mut last = None;
    // Whether it has been said that what was printed last is old.
    let mut is_old = false;
    let mut sight = Sight::new(client);
    loop {
        sight.looks();
        let Some(looked) = while_read(read(client), &sight, &mut is_old).await else { return Ok(()) };
        let mut pause = every;
        match looked {
            Ok(view) => {
                sight.has_seen();
                if std::mem::take(&mut is_old) {
                    say("the servers answer again");
                }
                pause = self::pause(every, &view);
                if last.as_ref() != Some(&view.state) {
                    let mut line = view.json;
                    line["at"] = rfc3339(SystemTime::now()).into();
                    if print_while_read(format!("{line}\n")).await?.is_break() {
                        return Ok(());
                    }
                    last = Some(view.state);
                }
            }
            // The first look tells a path that was mistyped from one that is gone.
            Err(failure) if last.is_none() => return Err(failure),
            Err(failure) => say_if_old(Some(failure.to_string()), &mut is_old),
        }
        if while_read(sleep(pause), &sight, &mut is_old).await.is_none() {
            return Ok(());
        }
    }
}

/// Says once if what was printed is old. `None` once nobody reads it any more.
async fn while_read<T>(until: impl Future<Output = T>, sight: &Sight, is_old: &mut bool) -> Option<T> {
    let mut until = pin!(until);
    loop {
        let output = timeout(MOMENT, &mut until).await;
        if is_unread() {
            return None;
        }
        if let Ok(output) = output {
            return Some(output);
        }
        say_if_old(sight.doubt(), is_old);
    }
}

/// Says it once.
fn say_if_old(doubt: Option<String>, is_old: &mut bool) {
    if let Some(doubt) = doubt.filter(|_| !*is_old) {
        say(&format!("what was printed is old: {doubt}"));
        *is_old = true;
    }
}

async fn show(
    client: &Client,
    every: Duration,
    mut read: impl AsyncFnMut(&Client) -> Result<View, Failure>,
) -> Result<(), Failure> {
    let mut sight = Sight::new(client);
    // What fails here is told on the terminal as it was.
    let mut view = read(client).await?;
    let mut screen = Screen::open()?;
    loop {
        sight.has_seen();
        screen.draw(&view)?;
        let again = sleep(pause(every, &view));
        if heed_keys_until(again, &mut screen, &mut view, &sight).await?.is_none() {
            return Ok(());
        }
        sight.looks();
        let Some(looked) = heed_keys_until(read(client), &mut screen, &mut view, &sight).await? else {
            return Ok(());
        };
        match looked {
            Ok(fresh) => view = fresh,
            Err(failure) => view.failure = Some(failure.to_string()),
        }
    }
}

/// Does what the keys say until `until` is ready, and shows how old the view is where that is not known to be the latest.
/// `None` if the user has seen enough.
async fn heed_keys_until<T>(
    until: impl Future<Output = T>,
    screen: &mut Screen,
    view: &mut View,
    sight: &Sight,
) -> Result<Option<T>, Failure> {
    let mut until = pin!(until);
    loop {
        tokio::select! {
            biased;
            key = screen.key() => match key {
                Key::End => return Ok(None),
                Key::Scroll(rows) => screen.scroll(rows, view),
                Key::Redraw => {}
            },
            output = &mut until => return Ok(Some(output)),
            () = sleep(MOMENT) => match sight.doubt() {
                Some(doubt) => view.failure = Some(doubt),
                None => continue,
            },
        }
        screen.draw(view)?;
    }
}
