//! Columns of text.

use std::fmt::Write;

/// Lays rows out in columns, two spaces apart, as wide as they need to be.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let all = || std::iter::once(&head).chain(rows);
    let mut widths = [0; N];
    for row in all() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in all() {
        let mut line = String::new();
        for (width, cell) in widths.into_iter().zip(row) {
            // Writing to a string does not fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number of things, by their singular.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
