//! All that `zookeeper-client` needs of `async-net`, on the simulated network.

pub use network::TcpStream;
