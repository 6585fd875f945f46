import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.curator.RetryPolicy;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicValue;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.retry.RetryNTimes;

/** What an actor can open. {@code how} is the side of a read/write lock, or a number of leases, or null. */
interface Recipe {
    /** Many, since Curator's counters are not fair. */
    RetryPolicy MANY_TRIES = new RetryNTimes(1000, 1);

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
            case "value":
                var value = new SharedValue(client, path, options.get("seed").getBytes(StandardCharsets.UTF_8));
                value.start();
                return new Text(value);
            case "atomic_long":
                return new AtomicNumber(new DistributedAtomicLong(client, path, MANY_TRIES, promoted(options)));
            case "atomic_value":
                return new AtomicText(new DistributedAtomicValue(client, path, MANY_TRIES, promoted(options)));
            case "latch":
                return new Latch(client, path, text);
            case "selector":
                return new Selector(client, path, text);
            case "node":
                return new KeptNode(client, path, options);
            case "group":
                return new Group(client, path, options);
            case "barrier":
                return Barrier.single(client, path);
            case "double_barrier":
                return Barrier.ofTwo(client, path, Integer.parseInt(options.get("members")));
            case "service": // compiled only where Curator has that part
                return (Recipe) Class.forName("Services")
                        .getConstructor(CuratorFramework.class, String.class)
                        .newInstance(client, path);
            default:
                throw new IllegalArgumentException("unknown: " + kind);
        }
    }

    /** The lock of those who keep failing, if there is one. */
    private static PromotedToLock promoted(Map<String, String> options) {
        var path = options.get("lock");
        return path == null ? null : PromotedToLock.builder().lockPath(path).retryPolicy(MANY_TRIES).build();
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

    /** Does what only this recipe can do. */
    default String act(String verb, String argument) throws Exception {
        throw new UnsupportedOperationException();
    }

    /** The node by which it is held. */
    default String node(String how) throws Exception {
        throw new UnsupportedOperationException();
    }

    default void makeRevocable(String how, Runnable listener) {
        throw new UnsupportedOperationException();
    }

    default String get() throws Exception {
        throw new UnsupportedOperationException();
    }

    default void set(String value) throws Exception {
        throw new UnsupportedOperationException();
    }

    /** Sets the value if it is the expected one. */
    default boolean exchange(String expected, String value) throws Exception {
        throw new UnsupportedOperationException();
    }

    default boolean initialize(String value) throws Exception {
        throw new UnsupportedOperationException();
    }

    /** Returns the sum. */
    default String add(String delta) throws Exception {
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
