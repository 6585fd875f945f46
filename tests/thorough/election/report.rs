//! What candidates say and are told, a line each.
//!
//! A candidate in a process of its own says `ready` with its clock when it is about to stand. Then, each millisecond,
//! it looks whether it leads, and says `leads <term> <time> <node> <token>` after the first look that says so,
//! `looks <term> <time>` with the time before each further one, and `ends <term>` when it does not any more. A token
//! that it does not know is 0. It is told `resign`, and `renew` to close and start anew; at the end of its input it
//! closes.

use std::fmt;

#[derive(Debug, PartialEq)]
pub(crate) enum Report {
    Ready { at: u64 },
    Leads { term: u64, at: u64, node: String, token: i64 },
    Looks { term: u64, at: u64 },
    Ends { term: u64 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Resign,
    Renew,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { at } => write!(f, "ready {at}"),
            Self::Leads { term, at, node, token } => write!(f, "leads {term} {at} {node} {token}"),
            Self::Looks { term, at } => write!(f, "looks {term} {at}"),
            Self::Ends { term } => write!(f, "ends {term}"),
        }
    }
}

impl Report {
    /// `None` if it is half a line, the last one of somebody who was killed.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse().ok();
        Some(match *words {
            ["ready", at] => Self::Ready { at: number(at)? },
            ["leads", term, at, node, token] => {
                let token = token.parse().ok()?;
                Self::Leads { term: number(term)?, at: number(at)?, node: node.to_owned(), token }
            }
            ["looks", term, at] => Self::Looks { term: number(term)?, at: number(at)? },
            ["ends", term] => Self::Ends { term: number(term)? },
            _ => return None,
        })
    }
}

impl Command {
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::Resign => "resign\n",
            Self::Renew => "renew\n",
        }
    }

    pub(crate) fn parse(line: &str) -> Self {
        match line {
            "resign" => Self::Resign,
            "renew" => Self::Renew,
            _ => panic!("unknown: {line}"),
        }
    }
}
