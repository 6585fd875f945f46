import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.retry.RetryOneTime;

/**
 * Curator's cache, measured as main.rs measures that of zk-recipes. At each line of its input it does one round, and
 * prints what came of it: nodes, nanoseconds to load, bytes, nanoseconds of a read, and of an event at p50 and p99.
 */
public final class CachePeer {
    private static final int READS = 1000;
    private static final int EVENTS = 2000;
    private static final String TREE = "/tree";

    public static void main(String[] args) throws Exception {
        var reader = client(args[0]);
        var writer = client(args[0]);
        System.out.println("ready");
        for (var lines = new Scanner(System.in); lines.hasNextLine(); lines.nextLine()) {
            System.out.println(round(reader, writer));
        }
        System.exit(0);
    }

    private static CuratorFramework client(String servers) throws Exception {
        var client = CuratorFrameworkFactory.newClient(servers, 30_000, 15_000, new RetryOneTime(100));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + servers);
        }
        return client;
    }

    private static String round(CuratorFramework reader, CuratorFramework writer) throws Exception {
        long before = used();
        var loaded = new CountDownLatch(1);
        var changes = new LinkedBlockingQueue<Long>();
        var cache = CuratorCache.build(reader, TREE);
        cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(loaded::countDown).build());
        cache.listenable().addListener(
                CuratorCacheListener.builder().forChanges((old, now) -> changes.add(System.nanoTime())).build());
        long started = System.nanoTime();
        cache.start();
        loaded.await();
        long load = System.nanoTime() - started;
        int nodes = cache.size();
        long bytes = used() - before;

        var paths = paths(cache);
        int found = 0;
        started = System.nanoTime();
        for (int i = 0; i < READS; i++) {
            for (var path : paths) {
                found += cache.get(path).isPresent() ? 1 : 0;
            }
        }
        long read = (System.nanoTime() - started) / found;

        var times = new ArrayList<Long>();
        for (int i = 0; i < EVENTS; i++) {
            changes.clear();
            started = System.nanoTime();
            writer.setData().forPath(paths.get(i % paths.size()), new byte[100]);
            times.add(changes.take() - started);
        }
        times.sort(null);
        cache.close();
        return "%d %d %d %d %d %d".formatted(nodes, load, bytes, read, times.get(EVENTS / 2), times.get(EVENTS * 99 / 100));
    }

    private static List<String> paths(CuratorCache cache) {
        var all = cache.stream().map(node -> node.getPath()).filter(path -> path.contains("/node-")).sorted().toList();
        var some = new ArrayList<String>();
        for (int i = 0; i < READS; i++) {
            some.add(all.get((int) ((long) i * all.size() / READS)));
        }
        return some;
    }

    /** Bytes of the heap, without garbage. */
    private static long used() throws InterruptedException {
        System.gc();
        Thread.sleep(200);
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
