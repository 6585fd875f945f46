//! The client: its connections, its calls and what they are allowed.

mod basics;
mod connections;
mod debug;
mod ensembles;
mod forgotten;
mod replaced;
mod requests;
mod rights;
mod told;
