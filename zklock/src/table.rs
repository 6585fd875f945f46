//! Columns of text.

use std::borrow::Cow;
use std::fmt::Write;

/// The most characters of a cell. A format takes a width of up to 65,535.
const WIDEST: usize = 1000;

/// Lays rows out in columns, two spaces apart, as wide as they need to be. Cuts cells that are longer than [`WIDEST`].
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let all = || std::iter::once(&head).chain(rows);
    let mut widths = [0; N];
    for row in all() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cut(cell, WIDEST).chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in all() {
        let mut line = String::new();
        for (width, cell) in widths.into_iter().zip(row) {
            // Writing to a string does not fail.
            let _ = write!(line, "{:width$}  ", cut(cell, WIDEST));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The first characters of a text, with a sign if there are more.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A number of things, by their singular.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cells_are_cut() {
        assert_eq!(cut("für", 3), "für");
        assert_eq!(cut("fürs", 3), "für…");
        let text = table(["A", "B"], &[["x".repeat(70_000), "y".into()]]);
        assert_eq!(text.lines().nth(1).unwrap(), format!("{}…  y", "x".repeat(WIDEST)));
    }
}
