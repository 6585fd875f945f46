//! The integration tests, in one program: a program for each area would link the library as often, and let tests of one
//! wait for the last of another.

#[macro_use]
#[path = "interop/generations.rs"]
mod generations;
#[path = "interop/installed.rs"]
mod installed;
mod support;

mod client;
mod interop;
mod jobs;
mod leader;
mod locks;
mod memory;
mod recipes;
mod testing;
