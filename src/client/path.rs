//! Paths of nodes: checked before anything is sent.

use crate::error::{Error, Result};

/// Checks that `path` can name a node below the root.
///
/// The rules are those of ZooKeeper's `PathUtils.validatePath`.
pub(crate) fn validate(path: &str) -> Result<()> {
    let invalid = |reason| Err(Error::InvalidPath { path: path.to_owned(), reason });
    let Some(relative) = path.strip_prefix('/') else {
        return invalid(if path.is_empty() { "it is empty" } else { "it does not begin with '/'" });
    };
    if relative.is_empty() {
        return invalid("the root has a use of its own");
    }
    if relative.ends_with('/') {
        return invalid("it ends with '/'");
    }
    for name in relative.split('/') {
        match name {
            "" => return invalid("it has an empty name between two '/'"),
            "." | ".." => return invalid("it has a relative name"),
            _ if name.contains(is_refused) => return invalid("it has a character that ZooKeeper refuses"),
            _ => {}
        }
    }
    Ok(())
}

fn is_refused(c: char) -> bool {
    matches!(u32::from(c), 0x00..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff)
}

/// The path of the parent of `path`; `None` for a child of the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_paths() {
        for path in ["/a", "/a/b-c/d", "/.a/..b/c.", "/läs/路径", "/a b"] {
            assert_eq!(validate(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn bad_paths_are_refused_with_a_reason() {
        for path in [
            "",
            "/",
            "a",
            "a/b",
            "//",
            "/a//b",
            "/a/",
            "/.",
            "/a/..",
            "/a/./b",
            "/../a",
            "/a\0b",
            "/a\u{1f}",
            "/a\u{7f}",
            "/\u{e000}",
            "/a\u{fffe}",
            "/a\nb",
        ] {
            let error = validate(path).expect_err(path);
            assert!(matches!(&error, Error::InvalidPath { path: named, .. } if named == path), "{error}");
        }
    }

    #[test]
    fn parents() {
        assert_eq!(parent("/a/b/c"), Some("/a/b"));
        assert_eq!(parent("/a"), None);
    }
}
