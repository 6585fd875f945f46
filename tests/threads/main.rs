//! Where clients run. A program of its own, since all clients of a process share their threads.

#[path = "../support/mod.rs"]
mod support;

mod home;
mod shared_threads;
