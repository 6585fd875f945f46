//! The client: its connections, its calls and what they are allowed.

mod basics;
mod connections;
mod debug;
mod requests;
mod rights;
mod told;
