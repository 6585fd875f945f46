//! Which paths a node can have.

/// The nodes that every server has. Clients cannot delete them.
pub(super) const ROOT: &str = "/";
pub(super) const ZOOKEEPER: &str = "/zookeeper";
pub(super) const QUOTA: &str = "/zookeeper/quota";
pub(super) const CONFIG: &str = "/zookeeper/config";

pub(super) fn is_special(path: &str) -> bool {
    [ROOT, ZOOKEEPER, QUOTA, CONFIG].contains(&path)
}

pub(super) fn is_valid(path: &str) -> bool {
    let Some(names) = path.strip_prefix('/') else { return false };
    names.is_empty() || names.split('/').all(is_valid_name)
}

fn is_valid_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.chars().all(is_valid_char)
}

/// ZooKeeper looks at UTF-16, so it also refuses all that takes two units there.
fn is_valid_char(char: char) -> bool {
    !matches!(char, '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// Returns the path of the parent and the name of the node, or `None` if there is no slash.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    Some((if parent.is_empty() { ROOT } else { parent }, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_its_own_parent() {
        assert_eq!(split("/"), Some(("/", "")));
        assert_eq!(split("/a"), Some(("/", "a")));
        assert_eq!(split("/a/b"), Some(("/a", "b")));
        assert_eq!(split("a"), None);
    }
}
