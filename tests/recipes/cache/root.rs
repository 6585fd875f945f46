//! Caches of `/`: of the servers, of a namespace, and of a chroot.

use super::*;

/// What `/` is of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Servers,
    Namespace,
    Chroot,
}

const PLACES: [Place; 3] = [Place::Servers, Place::Namespace, Place::Chroot];

impl Place {
    async fn connect(self, servers: &str) -> Client {
        let builder = builder().session_timeout(SESSION);
        let connected = match self {
            Self::Servers => builder.connect(servers).await,
            Self::Namespace => builder.namespace("app").connect(servers).await,
            Self::Chroot => builder.connect(&format!("{servers}/app")).await,
        };
        connected.unwrap()
    }

    /// A path of the client as the servers have it.
    fn full(self, path: &str) -> String {
        match (self, path) {
            (Self::Servers, path) => path.to_owned(),
            (_, "/") => "/app".to_owned(),
            (_, path) => format!("/app{path}"),
        }
    }
}

async fn the_root_is_cached_as_any_other_node(place: Place, zookeeper: &zk::Client, servers: &str) {
    let full = |path| place.full(path);
    let set = async |path, data| zookeeper.set_data(&full(path), data, None).await.map(drop).unwrap();
    let client = place.connect(servers).await;
    let cache = Cache::start(&client, "/", CacheOptions::tree()).unwrap();
    let mut reader = Reader::of(&cache).await;
    let first = cache.current();
    if place == Place::Servers {
        assert!(first.get("/zookeeper/quota").is_some(), "{:?}", paths(&first));
        assert!(first.children("/").any(|node| node.name() == "zookeeper"));
        set("/", b"top").await;
    } else {
        assert!(first.is_empty(), "there is no node yet");
        create(zookeeper, "/application", b"").await;
        create(zookeeper, &full("/"), b"top").await;
    }
    shows(&cache, "/", Some(b"top")).await;
    for path in ["/a", "/a/b", "/c"] {
        create(zookeeper, &full(path), b"1").await;
        shows(&cache, path, Some(b"1")).await;
    }
    set("/", b"changed").await;
    set("/a/b", b"2").await;
    shows(&cache, "/a/b", Some(b"2")).await;
    zookeeper.delete(&full("/c"), None).await.unwrap();
    shows(&cache, "/c", None).await;
    reader.read();
    let top = if place == Place::Servers { "=/" } else { "+/" };
    assert_eq!(reader.told, [top, "+/a", "+/a/b", "+/c", "=/", "=/a/b", "-/c"], "{place:?}");
    for path in ["/a/b", "/a"] {
        zookeeper.delete(&full(path), None).await.unwrap();
    }
    shows(&cache, "/a", None).await;
    if place != Place::Servers {
        zookeeper.delete(&full("/"), None).await.unwrap();
        within(cache.wait_until(Snapshot::is_empty)).await.unwrap();
        create(zookeeper, &full("/"), b"again").await;
        shows(&cache, "/", Some(b"again")).await;
        for path in [full("/"), "/application".to_owned()] {
            zookeeper.delete(&path, None).await.unwrap();
        }
        within(cache.wait_until(Snapshot::is_empty)).await.unwrap();
    }
    reader.read();
    reader.assert_is(&cache.current());
}

#[tokio::test]
async fn roots_are_cached() {
    on_each_server(async |server: &Server| {
        let (zookeeper, servers) = (bystander(server).await, server.connect_string());
        for place in PLACES {
            the_root_is_cached_as_any_other_node(place, &zookeeper, &servers).await;
        }
        all_watches(server, 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_cache_of_the_root_holds_what_its_options_say() {
    let (server, zookeeper) = server_and_bystander().await;
    create_all(&zookeeper, &["/app", "/app/a", "/app/a/b", "/app/a/b/c"], b"data").await;
    for place in PLACES {
        let client = place.connect(&server.connect_string()).await;
        let held = async |options: CacheOptions| {
            let cache = Cache::start(&client, "/", options).unwrap();
            let snapshot = within(cache.wait_current()).await.unwrap();
            paths(&snapshot).join(" ")
        };
        let is_whole = place == Place::Servers;
        let children = if is_whole { "/ /app /zookeeper" } else { "/ /a" };
        let selected = if is_whole { "/ /app /app/a" } else { "/ /a /a/b" };
        assert_eq!(held(CacheOptions::node()).await, "/");
        assert_eq!(held(CacheOptions::children()).await, children);
        let options = CacheOptions::tree().depth(2).filter(|path| path != "/zookeeper");
        assert_eq!(held(options).await, selected);
        assert_eq!(held(CacheOptions::tree().descend(|_| false)).await, "/");
    }
}
