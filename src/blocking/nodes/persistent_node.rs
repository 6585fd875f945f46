//! A node that is there as long as a value lives, for threads.

/// A node that exists as long as this value lives. The blocking twin of
/// [`nodes::PersistentNode`](crate::nodes::PersistentNode).
///
/// ```no_run
/// use zk_recipes::blocking::Client;
/// use zk_recipes::blocking::nodes::PersistentNode;
/// use zk_recipes::nodes::PersistentNodeOptions;
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let options = PersistentNodeOptions::new();
/// let node = PersistentNode::start(&client, "/services/web/7", "10.0.0.7:8080", options)?;
/// println!("listed as {}", node.wait_present()?);
/// # fn serve() {}
/// serve();
/// node.close()
/// # }
/// ```
#[must_use = "if unused, the node is deleted at once"]
pub struct PersistentNode {
    inner: crate::nodes::PersistentNode,
}

kept_node_twin!(PersistentNode, PersistentNodeOptions);
