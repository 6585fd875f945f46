//! A service that is found by its name: each process serves at some port and registers that, and clients pick one of them
//! for each call.
//!
//! Run it several times at once, and stop and start some of them:
//!
//! ```text
//! ./zk-docker/with-zookeeper cargo run --example services
//! ```

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_recipes::Client;
use zk_recipes::discovery::{ServiceDiscovery, ServiceInstance, ServiceProvider};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> Result<()> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    let client = Client::connect(&servers).await?;
    let services = ServiceDiscovery::<()>::new(&client, "/services")?;

    // Serve first, register then: whoever finds the instance can call it.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(serve(listener));
    let instance = ServiceInstance::new("greetings").address("127.0.0.1").port(port);
    let registration = services.register(instance).await?;
    println!("serving at port {port}");

    let greetings = services.cache("greetings")?;
    greetings.wait_until(|instances| !instances.is_empty()).await?;
    let greetings = ServiceProvider::new(greetings);
    for _ in 0..5 {
        let Some(instance) = greetings.pick() else {
            println!("nobody serves");
            continue;
        };
        match call(&instance).await {
            Ok(greeting) => println!("{greeting}"),
            Err(error) => {
                println!("{}: {error}", instance.id);
                // After two of them, it is left out for half a minute.
                greetings.note_error(&instance);
            }
        }
    }

    // Unregister first, so that clients go elsewhere; a real service then waits for the calls that are under way.
    registration.unregister().await?;
    client.close().await;
    Ok(())
}

async fn serve(listener: TcpListener) -> Result<(), std::io::Error> {
    let address = listener.local_addr()?;
    loop {
        let (mut connection, _) = listener.accept().await?;
        connection.write_all(format!("greetings from {address}").as_bytes()).await?;
    }
}

async fn call(instance: &ServiceInstance) -> Result<String> {
    let (Some(address), Some(port)) = (&instance.address, instance.port) else {
        return Err("it has no address".into());
    };
    let calling = async {
        let mut greeting = String::new();
        TcpStream::connect((address.as_str(), port)).await?.read_to_string(&mut greeting).await?;
        Ok(greeting)
    };
    tokio::time::timeout(Duration::from_secs(2), calling).await?
}
