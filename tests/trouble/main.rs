//! Failing servers and networks, and participants that do harm.

#[path = "../support/mod.rs"]
mod support;

mod curator_defects;
mod faults;
mod grants;
mod hostile;
mod outages;
mod unanswered;
