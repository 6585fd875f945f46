//! Checks the paths of nodes before anything is sent.

use crate::cut::cut;
use crate::error::{Error, Result};

/// The longest path, in bytes. With the chroot, a request of two of them still has room for data: servers close the
/// connection of a client that sends a larger request than about a megabyte.
const LONGEST: usize = 0xffff;

/// Checks that `path` can name a node below the root.
///
/// The rules are those of ZooKeeper's `PathUtils.validatePath`. It checks UTF-16 units: every character beyond
/// U+FFFF consists of two surrogates, which it rejects.
pub(crate) fn validate(path: &str) -> Result<()> {
    let invalid = |reason| Err(Error::InvalidPath { path: cut(path).into_owned(), reason });
    if path.len() > LONGEST {
        return invalid("it is longer than 65535 bytes; give a shorter one");
    }
    let Some(relative) = path.strip_prefix('/') else {
        return invalid(if path.is_empty() { "it is empty" } else { "it does not begin with '/'" });
    };
    if relative.is_empty() {
        return invalid("it is the root `/`, which cannot be used as a path here; give a path below it");
    }
    if relative.ends_with('/') {
        return invalid("it ends with '/'; leave that out");
    }
    for name in relative.split('/') {
        match name {
            "" => return invalid("it has an empty name between two '/'; write a single '/'"),
            "." | ".." => return invalid("it contains '.' or '..' as a relative name; write the full path"),
            _ if name.contains(is_refused) => {
                return invalid("it contains a character that ZooKeeper rejects");
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_refused(c: char) -> bool {
    matches!(u32::from(c), 0x00..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..)
}

/// Returns the path of the parent of `path`; `None` for a child of the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ZooKeeper 3.8.0 and 3.9.5 behave, except for the root.
    #[test]
    fn names_are_refused_as_by_zookeeper() {
        let taken =
            ["/a", "/a/b-c/d", "/.a/..b/c.", "/a..", "/...", "/läs/路径", "/a b", "/ ", "/zookeeper/a"];
        for path in taken {
            assert_eq!(validate(path), Ok(()), "{path}");
        }
        let refused = [
            "", "/", "a", "a/b", "//", "/a//b", "//a", "/a/", "/.", "/..", "/a/..", "/a/./b", "/../a",
            "/a\nb",
        ];
        for path in refused {
            let error = validate(path).expect_err(path);
            assert!(matches!(&error, Error::InvalidPath { path: named, .. } if named == path), "{error}");
        }
    }

    /// The ranges that the same versions reject, tested for all characters.
    #[test]
    fn characters_are_refused_as_by_zookeeper() {
        let is_refused = |c: char| validate(&format!("/a{c}b")).is_err();
        let mut refused: Vec<(u32, u32)> = Vec::new();
        for c in ('\0'..=char::MAX).filter(|c| is_refused(*c)).map(u32::from) {
            match refused.last_mut() {
                // There are no characters between U+D7FF and U+E000.
                Some((_, last)) if *last + 1 == c => *last = c,
                _ => refused.push((c, c)),
            }
        }
        assert_eq!(refused, [(0, 0x1f), (0x7f, 0x9f), (0xe000, 0xf8ff), (0xfff0, 0x10_ffff)]);
    }

    #[test]
    fn long_paths_are_refused_by_a_short_error() {
        let of_length = |length: usize| format!("/{}", "a".repeat(length - 1));
        assert_eq!(validate(&of_length(LONGEST)), Ok(()));
        for too_long in [LONGEST + 1, 2 << 20] {
            let error = validate(&of_length(too_long)).unwrap_err();
            assert!(error.to_string().contains("65535"), "{error}");
            assert!(error.to_string().len() < 400 && format!("{error:?}").len() < 400, "{error}");
        }
    }

    #[test]
    fn parents() {
        assert_eq!(parent("/a/b/c"), Some("/a/b"));
        assert_eq!(parent("/a"), None);
    }
}
