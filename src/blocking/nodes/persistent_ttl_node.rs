//! A node that outlasts its process, for a time to live, for threads.

/// A node that exists as long as this value lives, and for a time to live after it. The blocking twin of
/// [`nodes::PersistentTtlNode`](crate::nodes::PersistentTtlNode).
///
/// ```no_run
/// use std::time::Duration;
///
/// use zk_recipes::blocking::Client;
/// use zk_recipes::blocking::nodes::PersistentTtlNode;
/// use zk_recipes::nodes::PersistentTtlNodeOptions;
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let options = PersistentTtlNodeOptions::new(Duration::from_secs(600));
/// let node = PersistentTtlNode::start(&client, "/imports/tenant-42", "importer-3", options)?;
/// node.wait_present()?;
/// # fn import() {}
/// import();
/// node.close() // the servers remove it in ten minutes
/// # }
/// ```
#[must_use = "if unused, the node is kept no longer than its time to live"]
pub struct PersistentTtlNode {
    inner: crate::nodes::PersistentTtlNode,
}

kept_node_twin!(PersistentTtlNode, PersistentTtlNodeOptions);
