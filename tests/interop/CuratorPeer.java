import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Curator as a peer of the interoperation tests. The protocol is described in peer.rs.
 *
 * <p>Arguments: connect string, session timeout in milliseconds, default node data.
 */
public final class CuratorPeer {
    /** After so long, one that was not woken tries again. */
    private static final long PATIENCE_MILLIS = 15_000;

    private final CuratorFramework client;
    private final Map<String, Actor> actors = new HashMap<>();

    public static void main(String[] args) throws Exception {
        var client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(Integer.parseInt(args[1]))
                .connectionTimeoutMs(15_000)
                .defaultData(args[2].getBytes(StandardCharsets.UTF_8))
                .retryPolicy(new RetryNTimes(20, 250))
                .build();
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + args[0]);
        }
        new CuratorPeer(client).obey();
        client.close();
        System.exit(0); // whatever its actors are waiting for
    }

    private CuratorPeer(CuratorFramework client) {
        this.client = client;
    }

    /** Hands each line to its actor, until there are no more. */
    private void obey() throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("ready");
        for (String line; (line = lines.readLine()) != null; ) {
            var words = new ArrayDeque<>(Arrays.asList(line.split(" ")));
            var actor = words.remove();
            if (words.peek().equals("ping")) {
                client.checkExists().forPath("/");
                say(actor + " pong");
            } else if (List.of("stay", "go", "stop").contains(words.peek())) {
                actors.get(actor).signal(words.remove());
            } else {
                actors.computeIfAbsent(actor, Actor::new).tell(words);
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    /** A thread of its own, as Curator's locks belong to threads, with the lock that it opened. */
    private final class Actor {
        private final String name;
        private final ExecutorService thread = Executors.newSingleThreadExecutor(task -> {
            var daemon = new Thread(task);
            daemon.setDaemon(true);
            return daemon;
        });
        private Recipe recipe;
        private volatile boolean stays;
        private volatile boolean stopped;

        Actor(String name) {
            this.name = name;
        }

        void tell(Deque<String> words) {
            thread.execute(() -> {
                try {
                    say((name + " ok " + obey(words.remove(), words)).trim());
                } catch (Throwable failure) {
                    say(name + " error " + failure);
                }
            });
        }

        /** What concerns the loop that it is in. */
        void signal(String word) {
            stays = word.equals("stay");
            stopped = word.equals("stop");
        }

        /** Returns the text of the reply. */
        private String obey(String op, Deque<String> args) throws Exception {
            switch (op) {
                case "open":
                    recipe = open(args.remove(), args.remove(), options(args));
                    return "";
                case "acquire":
                    recipe.acquire(args.poll());
                    return "";
                case "try":
                    long millis = Long.parseLong(args.remove());
                    return String.valueOf(recipe.tryAcquire(millis, args.poll()));
                case "release":
                    recipe.release(args.poll());
                    return "";
                case "participants":
                    return data(recipe.participants(args.poll()));
                case "revocable":
                    recipe.makeRevocable(args.poll(), () -> say(name + " revoked"));
                    return "";
                case "revoke":
                    Revoker.attemptRevoke(client, args.remove());
                    return "";
                case "clock":
                    return String.valueOf(System.nanoTime());
                case "loop":
                    loop(Integer.parseInt(args.remove()), List.copyOf(args));
                    return "";
                case "get":
                    return String.valueOf(recipe.count().getCount());
                case "set":
                    recipe.count().setCount(Integer.parseInt(args.remove()));
                    return "";
                default:
                    throw new IllegalArgumentException("unknown: " + op);
            }
        }

        /** Acquires, stays for a while and releases, until it is told to stop. Whatever fails is tried again. */
        private void loop(int longestHoldMillis, List<String> sides) throws InterruptedException {
            var random = ThreadLocalRandom.current();
            long asked = System.nanoTime();
            while (!stopped) {
                var how = sides.isEmpty() ? null : sides.get(random.nextInt(sides.size()));
                try {
                    if (recipe.tryAcquire(PATIENCE_MILLIS, how)) {
                        stay(how, asked, random.nextInt(longestHoldMillis));
                        asked = System.nanoTime();
                    }
                } catch (Exception failure) {
                    Thread.sleep(50);
                }
            }
        }

        private void stay(String how, long asked, int holdMillis) throws Exception {
            long since = System.nanoTime();
            try {
                do {
                    Thread.sleep(holdMillis + 1);
                } while (stays);
                say(name + " section " + (how == null ? "-" : how) + " " + asked + " " + since + " " + proof(how));
            } finally {
                recipe.release(how);
            }
        }

        /** Until when it believes to hold, when its node was there for certain, and which node that is. */
        private String proof(String how) throws Exception {
            long sent = System.nanoTime();
            Stat stat = null;
            try {
                stat = client.checkExists().forPath(recipe.node(how));
            } catch (KeeperException failure) {
                // Then there is no proof.
            }
            long until = System.nanoTime();
            return stat == null
                    ? until + " 0 0 0"
                    : until + " " + sent + " " + stat.getCzxid() + " " + stat.getEphemeralOwner();
        }
    }

    private static Map<String, String> options(Collection<String> words) {
        var options = new HashMap<String, String>();
        for (String word : words) {
            var pair = word.split("=", 2);
            options.put(pair[0], pair[1]);
        }
        return options;
    }

    /** The data of nodes, in the order of the nodes. */
    private String data(Collection<String> paths) throws Exception {
        var all = new ArrayList<String>();
        for (String path : paths) {
            var text = new String(client.getData().forPath(path), StandardCharsets.UTF_8);
            all.add(text.isEmpty() ? "-" : URLEncoder.encode(text, StandardCharsets.UTF_8));
        }
        return String.join(" ", all);
    }

    // --- The recipes ---------------------------------------------------------

    private Recipe open(String kind, String path, Map<String, String> options) throws Exception {
        var data = options.containsKey("data") ? options.get("data").getBytes(StandardCharsets.UTF_8) : null;
        switch (kind) {
            case "mutex":
                return new Locks(Map.of("", new InterProcessMutex(client, path) {
                    @Override
                    protected byte[] getLockNodeBytes() {
                        return data;
                    }
                }));
            case "rw":
                var both = new InterProcessReadWriteLock(client, path, data);
                return new Locks(Map.of("read", both.readLock(), "write", both.writeLock()));
            case "semaphore_mutex":
                return new Locks(Map.of("", new InterProcessSemaphoreMutex(client, path)));
            case "multi":
                return new Locks(Map.of("", new InterProcessMultiLock(client, List.of(path.split(",")))));
            case "semaphore":
                InterProcessSemaphoreV2 semaphore;
                if (options.containsKey("count")) {
                    var count = new SharedCount(client, options.get("count"), 1);
                    count.start();
                    semaphore = new InterProcessSemaphoreV2(client, path, count);
                } else {
                    semaphore = new InterProcessSemaphoreV2(client, path, Integer.parseInt(options.get("permits")));
                }
                if (data != null) {
                    semaphore.setNodeData(data);
                }
                return new Leases(semaphore, path);
            case "count":
                var count = new SharedCount(client, path, Integer.parseInt(options.get("seed")));
                count.start();
                return new Counter(count);
            default:
                throw new IllegalArgumentException("unknown: " + kind);
        }
    }

    /** What an actor can open. {@code how} is the side of a read/write lock, or a number of leases, or null. */
    private interface Recipe {
        default void acquire(String how) throws Exception {
            throw new UnsupportedOperationException();
        }

        default boolean tryAcquire(long millis, String how) throws Exception {
            throw new UnsupportedOperationException();
        }

        default void release(String how) throws Exception {
            throw new UnsupportedOperationException();
        }

        default Collection<String> participants(String how) throws Exception {
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
    }

    private record Locks(Map<String, InterProcessLock> bySide) implements Recipe {
        private InterProcessLock side(String how) {
            return bySide.get(how == null ? "" : how);
        }

        @Override
        public void acquire(String how) throws Exception {
            side(how).acquire();
        }

        @Override
        public boolean tryAcquire(long millis, String how) throws Exception {
            return side(how).acquire(millis, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release(String how) throws Exception {
            side(how).release();
        }

        @Override
        public Collection<String> participants(String how) throws Exception {
            return ((InterProcessMutex) side(how)).getParticipantNodes();
        }

        @Override
        public String node(String how) throws Exception {
            var getter = InterProcessMutex.class.getDeclaredMethod("getLockPath");
            getter.setAccessible(true); // It is for subclasses, which the sides of a read/write lock cannot have.
            return (String) getter.invoke(side(how));
        }

        @Override
        public void makeRevocable(String how, Runnable listener) {
            ((InterProcessMutex) side(how)).makeRevocable(lock -> listener.run());
        }
    }

    private record Leases(InterProcessSemaphoreV2 semaphore, String path, Deque<Lease> held) implements Recipe {
        Leases(InterProcessSemaphoreV2 semaphore, String path) {
            this(semaphore, path, new ArrayDeque<>());
        }

        private static int quantity(String how) {
            return how == null ? 1 : Integer.parseInt(how);
        }

        @Override
        public void acquire(String how) throws Exception {
            held.addAll(semaphore.acquire(quantity(how)));
        }

        @Override
        public boolean tryAcquire(long millis, String how) throws Exception {
            var leases = semaphore.acquire(quantity(how), millis, TimeUnit.MILLISECONDS);
            return leases != null && held.addAll(leases);
        }

        /** Returns as many leases as it is told, or all. */
        @Override
        public void release(String how) throws Exception {
            for (int left = how == null ? held.size() : quantity(how); left > 0; left--) {
                held.remove().close();
            }
        }

        @Override
        public Collection<String> participants(String how) throws Exception {
            return semaphore.getParticipantNodes().stream().map(name -> path + "/leases/" + name).toList();
        }
    }

    private record Counter(SharedCount count) implements Recipe {}
}
