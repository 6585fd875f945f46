import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.shared.SharedCount;

/** What an actor can open. {@code how} is the side of a read/write lock, or a number of leases, or null. */
interface Recipe {
    /** A recipe of one of the kinds that peer.rs tells of. */
    static Recipe open(CuratorFramework client, String kind, String path, Map<String, String> options)
            throws Exception {
        var text = options.get("data");
        var data = text == null ? null : text.getBytes(StandardCharsets.UTF_8);
        switch (kind) {
            case "mutex":
                return new Locks(client, Map.of("", new InterProcessMutex(client, path) {
                    @Override
                    protected byte[] getLockNodeBytes() {
                        return data;
                    }
                }));
            case "rw":
                var both = new InterProcessReadWriteLock(client, path, data);
                return new Locks(client, Map.of("read", both.readLock(), "write", both.writeLock()));
            case "semaphore_mutex":
                return new Locks(client, Map.of("", new InterProcessSemaphoreMutex(client, path)));
            case "multi":
                return new Locks(client, Map.of("", new InterProcessMultiLock(client, List.of(path.split(",")))));
            case "semaphore":
                return Leases.open(client, path, options, data);
            case "count":
                var count = new SharedCount(client, path, Integer.parseInt(options.get("seed")));
                count.start();
                return new Counter(count);
            case "latch":
                return new Latch(client, path, text);
            case "selector":
                return new Selector(client, path, text);
            default:
                throw new IllegalArgumentException("unknown: " + kind);
        }
    }

    default void acquire(String how) throws Exception {
        throw new UnsupportedOperationException();
    }

    default boolean tryAcquire(long millis, String how) throws Exception {
        throw new UnsupportedOperationException();
    }

    default void release(String how) throws Exception {
        throw new UnsupportedOperationException();
    }

    /** Who they say they are, in order. */
    default List<String> participants(String how) throws Exception {
        throw new UnsupportedOperationException();
    }

    /** Who the leader says it is, if there is one. */
    default Optional<String> leader() throws Exception {
        throw new UnsupportedOperationException();
    }

    /** Whether it believes to lead. */
    default boolean leads() {
        throw new UnsupportedOperationException();
    }

    /** The node by which it is held. */
    default String node(String how) throws Exception {
        throw new UnsupportedOperationException();
    }

    default void makeRevocable(String how, Runnable listener) {
        throw new UnsupportedOperationException();
    }

    default SharedCount count() {
        throw new UnsupportedOperationException();
    }

    /** The data of nodes, in the order of the nodes. */
    static List<String> data(CuratorFramework client, Collection<String> paths) throws Exception {
        var all = new ArrayList<String>();
        for (String path : paths) {
            all.add(new String(client.getData().forPath(path), StandardCharsets.UTF_8));
        }
        return all;
    }
}
