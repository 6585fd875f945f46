//! The terminal.

use std::io::Stdout;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Paragraph, Row, Table};
use ratatui::{Frame, Terminal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::view::View;
use crate::exit::Failure;
use crate::queue::printable;

const KEYS: &str = "q, Esc or Ctrl-C ends; arrows and pages scroll";

/// Between columns.
const SPACING: u16 = 2;

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    End,
    Scroll(isize),
    /// The size has changed.
    Redraw,
}

/// The whole terminal, which is as it was when this is dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    keys: UnboundedReceiver<Key>,
    /// The first row that is shown.
    from: usize,
}

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        let failed = |error| Failure::other(format!("cannot use the terminal: {error}"));
        // Its hook restores the terminal before a panic is printed.
        let terminal = ratatui::try_init().map_err(|error| {
            ratatui::restore();
            failed(error)
        })?;
        let (sender, keys) = unbounded_channel();
        let screen = Self { terminal, keys, from: 0 };
        let listener = move || {
            while let Ok(event) = event::read() {
                if let Some(key) = key(&event)
                    && sender.send(key).is_err()
                {
                    return;
                }
            }
            // No terminal any more.
            let _ = sender.send(Key::End);
        };
        std::thread::Builder::new().name("keys".into()).spawn(listener).map_err(failed)?;
        Ok(screen)
    }

    /// Waits for the next key that means something.
    pub(super) async fn key(&mut self) -> Key {
        self.keys.recv().await.unwrap_or(Key::End)
    }

    pub(super) fn scroll(&mut self, rows: isize, view: &View) {
        self.from = self.from.saturating_add_signed(rows).min(view.rows.len().saturating_sub(1));
    }

    pub(super) fn draw(&mut self, view: &View) -> Result<(), Failure> {
        let from = self.from.min(view.rows.len().saturating_sub(1));
        let drawn = self.terminal.draw(|frame| draw(frame, view, from));
        drawn.map(drop).map_err(|error| Failure::other(format!("cannot draw on the terminal: {error}")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn key(event: &Event) -> Option<Key> {
    match event {
        Event::Resize(..) => Some(Key::Redraw),
        Event::Key(KeyEvent {
            code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, ..
        }) => {
            let has_control = modifiers.contains(KeyModifiers::CONTROL);
            match code {
                KeyCode::Char('c') if has_control => Some(Key::End),
                KeyCode::Char('q') | KeyCode::Esc => Some(Key::End),
                KeyCode::Up | KeyCode::Char('k') => Some(Key::Scroll(-1)),
                KeyCode::Down | KeyCode::Char('j') => Some(Key::Scroll(1)),
                KeyCode::PageUp => Some(Key::Scroll(-10)),
                KeyCode::PageDown => Some(Key::Scroll(10)),
                KeyCode::Home => Some(Key::Scroll(isize::MIN)),
                KeyCode::End => Some(Key::Scroll(isize::MAX)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn draw(frame: &mut Frame<'_>, view: &View, from: usize) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let rows = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [title, _, table, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(&*view.title).style(bold), title);
    let widths = view.widths(table.width, SPACING);
    let columns = widths.len();
    let shown = view.rows.iter().skip(from).take(table.height.into());
    let body = Table::new(shown.map(|row| Row::new(row.iter().take(columns).map(|cell| &**cell))), widths)
        .header(Row::new(view.head.iter().copied().take(columns)).style(bold))
        .column_spacing(SPACING)
        .flex(ratatui::layout::Flex::Start);
    frame.render_widget(body, table);
    let foot_text = match (&view.failure, &view.note) {
        (Some(failure), _) => format!("old: {}", printable(failure)),
        (None, Some(note)) => format!("{KEYS}. Left out: {note}"),
        (None, None) => KEYS.to_owned(),
    };
    frame.render_widget(Paragraph::new(foot_text), foot);
}

#[cfg(test)]
mod tests;
