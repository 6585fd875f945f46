//! The blocks of numbers that a process has drawn. Decides when to draw another; no I/O.

use std::ops::Range;

use crate::error::{Error, Result};

/// The numbers in hand.
#[derive(Debug)]
pub(super) struct Blocks {
    current: Range<i64>,
    next: Option<Range<i64>>,
    is_drawing: bool,
    size: u32,
    /// The next block is drawn when no more than this is left of the last one.
    draw_at: i64,
    /// Why the last draw that has ended has failed, if it has.
    failed: Option<Error>,
}

impl Blocks {
    pub(super) fn new(size: u32) -> Self {
        let draw_at = i64::from(size / 2);
        Self { current: 0..0, next: None, is_drawing: false, size, draw_at, failed: None }
    }

    /// Takes a number, if there is one in hand; a call that `has_waited` for a draw takes the failure of that otherwise.
    /// Returns also whether another block must be drawn.
    pub(super) fn take_or_draw(&mut self, has_waited: bool) -> (Option<Result<i64>>, bool) {
        let taken = match self.take() {
            Some(number) => Some(Ok(number)),
            None => self.failed.clone().filter(|_| has_waited).map(Err),
        };
        // A caller that is told of a failure does not try again.
        let is_to_draw = !matches!(taken, Some(Err(_))) && self.begin_to_draw();
        (taken, is_to_draw)
    }

    /// Takes a number, if there is one in hand.
    fn take(&mut self) -> Option<i64> {
        if self.current.is_empty() {
            self.current = self.next.take()?;
        }
        self.current.next()
    }

    fn left(&self) -> i64 {
        self.current.end - self.current.start
    }

    /// Whether another block is to be drawn: when half of the last one is used up. It must be drawn then.
    fn begin_to_draw(&mut self) -> bool {
        let is_wanted = !self.is_drawing && self.next.is_none() && self.left() <= self.draw_at;
        self.is_drawing |= is_wanted;
        is_wanted
    }

    /// A block was drawn, which begins with this number, or could not be. Then it is tried again when half of what is left is
    /// used up, and not with each number.
    pub(super) fn drawn(&mut self, first: Result<i64>) {
        self.is_drawing = false;
        match first {
            Ok(first) => {
                // The sum was checked when it was written.
                self.next = Some(first..first.saturating_add(self.size.into()));
                self.draw_at = i64::from(self.size / 2);
                self.failed = None;
            }
            Err(error) => {
                self.draw_at = self.left() / 2;
                self.failed = Some(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_next_block_is_drawn_when_half_is_left() {
        let mut blocks = Blocks::new(4);
        assert_eq!(blocks.take(), None);
        assert!(blocks.begin_to_draw());
        assert!(!blocks.begin_to_draw(), "one at a time");
        blocks.drawn(Ok(10));
        assert!(!blocks.begin_to_draw(), "there is one in hand");
        assert_eq!((blocks.take(), blocks.begin_to_draw()), (Some(10), false));
        assert_eq!((blocks.take(), blocks.begin_to_draw()), (Some(11), true));
        blocks.drawn(Err(Error::Closed));
        assert!(!blocks.begin_to_draw(), "not at once");
        assert_eq!((blocks.take(), blocks.begin_to_draw()), (Some(12), true));
        blocks.drawn(Err(Error::Closed));
        assert_eq!((blocks.take(), blocks.begin_to_draw()), (Some(13), true));
        blocks.drawn(Err(Error::Closed));
        assert_eq!((blocks.take(), blocks.begin_to_draw()), (None, true), "whenever there is none");
        blocks.drawn(Ok(20));
        assert_eq!(
            [(); 3].map(|()| (blocks.take(), blocks.begin_to_draw())),
            [(Some(20), false), (Some(21), true), (Some(22), false)]
        );
    }

    proptest! {
        #[test]
        fn each_number_is_handed_out_once(
            size in 1_u32..6,
            steps in prop::collection::vec((any::<bool>(), prop::bool::weighted(0.8)), 1..100),
        ) {
            let (mut blocks, mut drawn, mut is_drawing) = (Blocks::new(size), 0, false);
            let mut taken = Vec::new();
            for (takes, succeeds) in steps {
                if takes {
                    taken.extend(blocks.take());
                    is_drawing |= blocks.begin_to_draw();
                } else if is_drawing {
                    is_drawing = false;
                    blocks.drawn(succeeds.then_some(drawn).ok_or(Error::Closed));
                    // Also a block whose draw has failed may be used up.
                    drawn += i64::from(size);
                }
            }
            prop_assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "{taken:?}");
            prop_assert!(taken.iter().all(|number| *number < drawn));
        }
    }
}
