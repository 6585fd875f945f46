//! What is shown at a time.

use serde_json::Value;

/// A table with a title.
#[derive(Debug)]
pub(super) struct View {
    pub(super) title: String,
    pub(super) head: &'static [&'static str],
    pub(super) rows: Vec<Vec<String>>,
    /// What is left out.
    pub(super) note: Option<String>,
    /// Why this is old.
    pub(super) failure: Option<String>,
    pub(super) json: Value,
    /// Changes when something else happens than that time passes.
    pub(super) state: Vec<String>,
    /// How many intervals to wait before the next look: a large queue is looked at less often.
    pub(super) weight: u32,
}

impl View {
    /// How wide each column is where there is this much room: as wide as it needs to be, from left to right, so that the
    /// last ones are cut. Without those for which no room is left.
    pub(super) fn widths(&self, room: u16, spacing: u16) -> Vec<u16> {
        let mut left = room;
        let columns = self.head.iter().enumerate().map(|(index, title)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count());
            let widest = cells.chain([title.chars().count()]).max().unwrap_or_default();
            let width = u16::try_from(widest).unwrap_or(u16::MAX).min(left);
            left = left.saturating_sub(width).saturating_sub(spacing);
            width
        });
        columns.take_while(|width| *width > 0).collect()
    }
}
