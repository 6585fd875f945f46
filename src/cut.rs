//! Texts in messages.

use std::borrow::Cow;
use std::fmt;

/// Returns the beginning of a text that somebody gave, for messages.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    cut_at(200, text)
}

fn cut_at(longest: usize, text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Writes the beginning of what `show` shows, in one line. With the name of a variant around it, it has at most 200
/// characters.
pub(crate) fn line(
    f: &mut fmt::Formatter<'_>,
    show: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    struct Shown<F>(F);
    impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Debug for Shown<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (self.0)(f)
        }
    }
    f.write_str(&cut_at(180, &format!("{:?}", Shown(show))))
}

/// Implements `Debug`, for logs: what identifies a thing, in one short line, without secrets and innards.
macro_rules! debug_by {
    ($(<$of:ident $(: $bound:path)?>)? $name:ident $(<$arg:tt>)?, |$it:ident| $($field:ident: $value:expr),+) => {
        impl $(<$of $(: $bound)?>)? std::fmt::Debug for $name $(<$arg>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                crate::cut::line(f, |f| {
                    f.debug_struct(stringify!($name))$(.field(stringify!($field), &$value))+.finish_non_exhaustive()
                })
            }
        }
    };
}
