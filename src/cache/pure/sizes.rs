//! How many nodes are read in one request.

/// The most reads of one request. No one knows how large a node is before it is read: a node that was small may have grown
/// while there was no connection. So this times the largest node is what a reply may have.
const MOST_READS: usize = 8;
/// What replies should have at most, well below the 1 MiB that some clients, proxies and servers take.
const REPLY: usize = 512 * 1024;
/// What a reply has of each node besides its data.
const OVERHEAD: usize = 80;
/// What a reply has of each child that it lists: few names are longer.
const NAME: usize = 64;
/// What a node of unknown size is taken for at first.
const FIRST_GUESS: usize = 64 * 1024;

/// How many nodes are read in one request, by what replies have been like.
///
/// A large node makes the requests after it small, those for nodes of unknown size as well as those for nodes that may
/// have grown like it; while the nodes are small, the requests grow again. What is certain is only that no reply has more
/// than [`MOST_READS`] nodes.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// What a node of unknown size is taken for.
    guess: usize,
    /// What a node is taken for at least, since others have grown.
    grown: usize,
    reply: usize,
}

/// What is known of the size of what a read will find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Unknown,
    /// The node had so many bytes of data.
    Had(usize),
    /// The names of so many children.
    Names(usize),
}

/// A request in the making.
#[derive(Debug, Default)]
pub(super) struct Filling {
    reads: usize,
    bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { guess: FIRST_GUESS, grown: 0, reply: REPLY }
    }
}

impl Sizes {
    /// The connection has ended with a request under way. That may have been its fault, if something between here and
    /// the servers takes no large replies: the next ones are smaller, down to single nodes.
    pub(super) fn interrupted(&mut self) {
        self.reply /= 2;
    }

    /// The server has refused a request.
    pub(super) fn refused(&mut self) {
        self.reply = 0;
    }

    /// A reply had nodes of so many bytes of data, which had so many before.
    pub(super) fn replied(&mut self, nodes: &[(usize, Option<usize>)]) {
        let Some(largest) = nodes.iter().map(|(bytes, _)| *bytes).max() else { return };
        let grown = nodes.iter().filter(|(bytes, before)| before.is_some_and(|before| before < *bytes));
        let largest_grown = grown.map(|(bytes, _)| *bytes).max().unwrap_or(0);
        self.guess = largest.max(self.guess / 2);
        self.grown = largest_grown.max(self.grown / 2);
        self.reply = (self.reply + REPLY / 64).min(REPLY);
    }

    /// Adds a read. Returns whether there is room for it. There always is for the first one.
    pub(super) fn adds(&self, filling: &mut Filling, size: Size) -> bool {
        let expected = match size {
            Size::Unknown => self.guess,
            Size::Had(bytes) => bytes.max(self.grown),
            Size::Names(names) => names.saturating_mul(NAME),
        };
        let bytes = filling.bytes.saturating_add(expected).saturating_add(OVERHEAD);
        let has_room = filling.reads == 0 || filling.reads < MOST_READS && bytes <= self.reply;
        if has_room {
            *filling = Filling { reads: filling.reads + 1, bytes };
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(sizes: &Sizes, size: Size) -> usize {
        let mut filling = Filling::default();
        (0..1000).take_while(|_| sizes.adds(&mut filling, size)).count()
    }

    #[test]
    fn no_reply_has_more_than_a_few_nodes() {
        let mut sizes = Sizes::default();
        assert_eq!(fill(&sizes, Size::Unknown), 7);
        for _ in 0..10 {
            sizes.replied(&[(20, None)]);
        }
        for size in [Size::Unknown, Size::Had(20), Size::Names(20)] {
            assert_eq!(fill(&sizes, size), MOST_READS, "{size:?} may be large");
        }
        assert_eq!(fill(&sizes, Size::Names(100_000)), 1);
        assert_eq!(fill(&sizes, Size::Had(200_000)), 2);
    }

    #[test]
    fn a_large_node_makes_the_requests_after_it_small() {
        let mut sizes = Sizes::default();
        sizes.replied(&[(1 << 20, None)]);
        assert_eq!(fill(&sizes, Size::Unknown), 1);
        assert_eq!(fill(&sizes, Size::Had(20)), MOST_READS, "nothing has grown");
        sizes.replied(&[(1 << 20, Some(20))]);
        assert_eq!(fill(&sizes, Size::Had(20)), 1);
        sizes.replied(&[(20, Some(20))]);
        assert_eq!(fill(&sizes, Size::Had(20)), 1, "it takes some replies to forget that");
        for _ in 0..10 {
            sizes.replied(&[(20, Some(20))]);
        }
        assert_eq!(fill(&sizes, Size::Had(20)), MOST_READS);
    }

    #[test]
    fn what_breaks_the_connection_is_made_smaller() {
        let mut sizes = Sizes::default();
        for _ in 0..30 {
            sizes.interrupted();
        }
        assert_eq!(fill(&sizes, Size::Had(20)), 1);
        for _ in 0..100 {
            sizes.replied(&[(20, None)]);
        }
        assert_eq!(fill(&sizes, Size::Had(20)), MOST_READS);
    }
}
