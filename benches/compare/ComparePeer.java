import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.retry.RetryNTimes;

/** Curator as a participant of a comparison. The protocol and the loads are described in load.rs. */
public final class ComparePeer {
    private static final int REENTRIES = 1000;
    /** One of each session queues at a time, and the next ones this much later. */
    private static final int QUEUEING_MILLIS = 10;

    public static void main(String[] args) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Stage stage = null;
        System.out.println("ready " + version());
        for (String line; (line = lines.readLine()) != null; ) {
            try {
                var words = line.split(" ");
                var outcome = "";
                switch (words[0]) {
                    case "open" -> stage = open(words[1], words[2], Arrays.copyOfRange(words, 3, words.length));
                    case "run" -> outcome = " " + stage.run(Integer.parseInt(words[1]));
                    case "close" -> stage.close();
                    default -> throw new IllegalArgumentException(line);
                }
                System.out.println("ok" + outcome);
            } catch (Exception failure) {
                System.out.println("error " + failure);
            }
        }
        System.exit(0); // whatever its threads are waiting for
    }

    /** Out of the name of the jar. */
    private static String version() {
        var jar = InterProcessMutex.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceAll(".*-|\\.jar$", "");
    }

    private static Stage open(String servers, String path, String[] load) throws Exception {
        var numbers = Arrays.stream(load).skip(load[0].equals("timed") ? 2 : 1).mapToInt(Integer::parseInt).toArray();
        return switch (load[0]) {
            case "timed" -> new Timed(servers, path, load[1], numbers[0], numbers[1]);
            case "contend" -> new Contend(servers, path, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]);
            case "hand-over" -> new HandOver(servers, path, numbers[0], numbers[1], numbers[2], numbers[3]);
            case "succession" -> new Succession(servers, path, numbers[0], numbers[1], numbers[2]);
            case "park" -> new Park(servers, path, numbers[0]);
            case "count" -> new Count(servers, path, numbers[0], numbers[1], numbers[2]);
            default -> throw new IllegalArgumentException(load[0]);
        };
    }

    private static String outcome(long cycles, long nanos, Collection<Long> latencies, Collection<Long> grants) {
        return cycles + " " + nanos + " " + list(latencies) + " " + list(grants);
    }

    private static String list(Collection<Long> numbers) {
        return numbers.stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    /** A load that was opened, with its sessions. */
    private abstract static class Stage {
        final List<CuratorFramework> sessions = new ArrayList<>();
        final List<Thread> threads = new ArrayList<>();

        Stage(String servers, int count) throws Exception {
            for (int i = 0; i < count; i++) {
                var client = CuratorFrameworkFactory.newClient(
                        servers, 30_000, 15_000, new ExponentialBackoffRetry(1000, 3));
                client.start();
                sessions.add(client);
                if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no connection to " + servers);
                }
            }
        }

        abstract String run(int round) throws Exception;

        Thread thread(Runnable task) {
            var thread = new Thread(task);
            thread.setDaemon(true);
            threads.add(thread);
            thread.start();
            return thread;
        }

        void close() throws Exception {
            for (var thread : threads) {
                thread.interrupt();
            }
            for (var thread : threads) {
                thread.join(5_000);
            }
            sessions.forEach(CuratorFramework::close);
        }
    }

    private static final class Timed extends Stage {
        private final String path;
        private final String operation;
        private final int iterations;
        private final List<InterProcessLock> locks = new ArrayList<>();
        private int used;

        Timed(String servers, String path, String operation, int iterations, int connections) throws Exception {
            super(servers, connections);
            this.path = path;
            this.operation = operation;
            this.iterations = iterations;
            for (var session : sessions) {
                locks.add(switch (operation) {
                    case "semaphore", "semaphore-cycle" -> new InterProcessSemaphoreMutex(session, path);
                    case "multi", "multi-release" -> new InterProcessMultiLock(session, List.of(path + "/a", path + "/b", path + "/c"));
                    default -> new InterProcessMutex(session, path);
                });
            }
        }

        @Override
        String run(int round) throws Exception {
            int connection = round % sessions.size();
            var latencies = new ArrayList<Long>();
            boolean reenters = operation.equals("reenter");
            long started = System.nanoTime();
            if (reenters) {
                reenter(locks.get(connection), latencies);
            } else {
                for (int i = 0; i < iterations; i++) {
                    latencies.add(once(connection));
                }
            }
            long cycles = (long) iterations * (reenters ? REENTRIES : 1);
            return outcome(cycles, System.nanoTime() - started, latencies, List.of());
        }

        private long once(int connection) throws Exception {
            boolean isNew = operation.equals("acquire-new") || operation.equals("acquire-fresh");
            String newPath = isNew ? path + "/" + used++ : null;
            long started = System.nanoTime();
            var lock = isNew ? new InterProcessMutex(sessions.get(connection), newPath) : locks.get(connection);
            lock.acquire();
            long acquired = System.nanoTime() - started;
            lock.release();
            long cycle = System.nanoTime() - started;
            return switch (operation) {
                case "cycle", "semaphore-cycle" -> cycle;
                case "multi-release" -> cycle - acquired;
                default -> acquired;
            };
        }

        private void reenter(InterProcessLock lock, List<Long> latencies) throws Exception {
            lock.acquire();
            for (int i = 0; i < iterations; i++) {
                long started = System.nanoTime();
                for (int j = 0; j < REENTRIES; j++) {
                    lock.acquire();
                    lock.release();
                }
                latencies.add((System.nanoTime() - started) / REENTRIES);
            }
            lock.release();
        }
    }

    private static final class Contend extends Stage {
        private static final int SHARED = 0;
        private static final int OWN = 1;
        /** What each thread acquires next. */
        private final List<Supplier<InterProcessLock>> locks = new ArrayList<>();
        private final long nanos;
        private final int patience;

        Contend(String servers, String path, int sessions, int tasks, int whose, int millis, int patience)
                throws Exception {
            super(servers, sessions);
            this.patience = patience;
            nanos = TimeUnit.MILLISECONDS.toNanos(millis);
            for (var session : this.sessions) {
                var shared = new InterProcessMutex(session, path);
                for (int i = 0; i < tasks; i++) {
                    var own = path + "/" + locks.size();
                    var used = new AtomicInteger();
                    locks.add(switch (whose) {
                        case SHARED -> () -> shared;
                        case OWN -> {
                            var lock = new InterProcessMutex(session, own);
                            yield () -> lock;
                        }
                        default -> () -> new InterProcessMutex(session, own + "-" + used.getAndIncrement());
                    });
                }
            }
        }

        @Override
        String run(int round) throws Exception {
            var latencies = new ArrayList<Long>();
            var grants = new ArrayList<Long>();
            var failures = new ArrayList<Exception>();
            long deadline = System.nanoTime() + nanos;
            var contenders = new ArrayList<Thread>();
            for (var next : locks) {
                contenders.add(thread(() -> {
                    var own = new ArrayList<Long>();
                    long inTime = 0;
                    try {
                        for (long started = System.nanoTime(); started < deadline; ) {
                            var lock = next.get();
                            if (patience == 0) {
                                lock.acquire();
                            } else if (!lock.acquire(patience, TimeUnit.MILLISECONDS)) {
                                started = System.nanoTime();
                                continue;
                            }
                            own.add(System.nanoTime() - started);
                            lock.release();
                            started = System.nanoTime();
                            inTime += started < deadline ? 1 : 0;
                        }
                    } catch (Exception failure) {
                        synchronized (failures) {
                            failures.add(failure);
                        }
                    }
                    synchronized (latencies) {
                        latencies.addAll(own);
                        grants.add(inTime);
                    }
                }));
            }
            for (var contender : contenders) {
                contender.join();
            }
            threads.clear();
            if (!failures.isEmpty()) {
                throw failures.get(0);
            }
            return outcome(latencies.size(), nanos, latencies, grants);
        }
    }

    /** An increment that has failed often takes a lock, so that all succeed. */
    private static final class Count extends Stage {
        private final List<DistributedAtomicLong> numbers = new ArrayList<>();
        private final int tasks;
        private final long nanos;

        Count(String servers, String path, int sessions, int tasks, int millis) throws Exception {
            super(servers, sessions);
            this.tasks = tasks;
            nanos = TimeUnit.MILLISECONDS.toNanos(millis);
            for (var session : this.sessions) {
                var lock = PromotedToLock.builder()
                        .lockPath(path + "/lock")
                        .retryPolicy(new RetryForever(1))
                        .timeout(10, TimeUnit.SECONDS)
                        .build();
                numbers.add(new DistributedAtomicLong(session, path + "/number", new RetryNTimes(3, 0), lock));
            }
        }

        @Override
        String run(int round) throws Exception {
            var latencies = new ArrayList<Long>();
            var counts = new ArrayList<Long>();
            var failures = new ArrayList<Exception>();
            long deadline = System.nanoTime() + nanos;
            var counting = new ArrayList<Thread>();
            for (var number : numbers) {
                for (int i = 0; i < tasks; i++) {
                    counting.add(thread(() -> {
                        var own = new ArrayList<Long>();
                        long inTime = 0;
                        try {
                            for (long started = System.nanoTime(); started < deadline; ) {
                                if (!number.increment().succeeded()) {
                                    throw new IllegalStateException("an increment has failed");
                                }
                                long now = System.nanoTime();
                                own.add(now - started);
                                inTime += now < deadline ? 1 : 0;
                                started = now;
                            }
                        } catch (Exception failure) {
                            synchronized (failures) {
                                failures.add(failure);
                            }
                        }
                        synchronized (latencies) {
                            latencies.addAll(own);
                            counts.add(inTime);
                        }
                    }));
                }
            }
            for (var thread : counting) {
                thread.join();
            }
            threads.clear();
            if (!failures.isEmpty()) {
                throw failures.get(0);
            }
            return outcome(latencies.size(), nanos, latencies, counts);
        }
    }

    /** How long it takes from one holder to the next. */
    private abstract static class Relay extends Stage {
        private final int wanted;
        private final CountDownLatch enough = new CountDownLatch(1);
        private final List<Long> latencies = new ArrayList<>();
        private long released;

        Relay(String servers, int sessions, int wanted) throws Exception {
            super(servers, sessions);
            this.wanted = wanted;
        }

        synchronized void taken(long now) {
            if (released != 0) {
                latencies.add(now - released);
            }
            if (latencies.size() >= wanted) {
                enough.countDown();
            }
        }

        synchronized void released() {
            released = System.nanoTime();
        }

        String passes(long started) throws Exception {
            if (!enough.await(100, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the queue does not move");
            }
            synchronized (this) {
                return outcome(latencies.size(), System.nanoTime() - started, latencies, List.of());
            }
        }
    }

    private static final class HandOver extends Relay {
        private final InterProcessMutex first;
        private final int holdMillis;

        HandOver(String servers, String path, int sessions, int waiters, int handOvers, int holdMillis)
                throws Exception {
            super(servers, sessions, handOvers);
            this.holdMillis = holdMillis;
            first = new InterProcessMutex(this.sessions.get(0), path);
            first.acquire();
            var locks = new ArrayList<InterProcessMutex>();
            for (var session : this.sessions) {
                locks.add(new InterProcessMutex(session, path));
            }
            for (int i = 0; i < waiters; i++) {
                if (i % sessions == 0) {
                    Thread.sleep(QUEUEING_MILLIS);
                }
                var lock = locks.get(i % sessions);
                thread(() -> waitAndHold(lock));
            }
        }

        /** Until it is interrupted. It queues again when the next one has had time to get the lock. */
        private void waitAndHold(InterProcessMutex lock) {
            try {
                while (true) {
                    lock.acquire();
                    taken(System.nanoTime());
                    Thread.sleep(holdMillis);
                    release(lock);
                    Thread.sleep(holdMillis / 2);
                }
            } catch (Exception interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        private void release(InterProcessMutex lock) throws Exception {
            released();
            lock.release();
        }

        @Override
        String run(int round) throws Exception {
            long started = System.nanoTime();
            release(first);
            return passes(started);
        }
    }

    /** A latch gives the leadership up by being closed, and a new one stands. */
    private static final class Succession extends Relay {
        private final List<LeaderLatch> latches = new ArrayList<>();
        private final String path;
        private final int termMillis;

        Succession(String servers, String path, int candidates, int successions, int termMillis) throws Exception {
            super(servers, candidates, successions);
            this.path = path;
            this.termMillis = termMillis;
            for (var session : sessions) {
                latches.add(started(session));
            }
        }

        private LeaderLatch started(CuratorFramework session) throws Exception {
            var latch = new LeaderLatch(session, path);
            latch.start();
            return latch;
        }

        private void lead(CuratorFramework session, LeaderLatch first) {
            try {
                for (var latch = first; ; latch = started(session)) {
                    latch.await();
                    taken(System.nanoTime());
                    Thread.sleep(termMillis);
                    released();
                    latch.close();
                }
            } catch (Exception interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        String run(int round) throws Exception {
            long started = System.nanoTime();
            for (int i = 0; i < sessions.size(); i++) {
                var session = sessions.get(i);
                var latch = latches.get(i);
                thread(() -> lead(session, latch));
            }
            return passes(started);
        }
    }

    private static final class Park extends Stage {
        private final InterProcessMutex kept;
        private final InterProcessMutex lock;
        private final int waiters;

        Park(String servers, String path, int waiters) throws Exception {
            super(servers, 2);
            this.waiters = waiters;
            kept = new InterProcessMutex(sessions.get(0), path);
            kept.acquire();
            lock = new InterProcessMutex(sessions.get(1), path);
        }

        @Override
        String run(int round) {
            for (int i = 0; i < waiters; i++) {
                thread(() -> {
                    try {
                        lock.acquire();
                    } catch (Exception interrupted) {
                        Thread.currentThread().interrupt();
                    }
                });
            }
            return outcome(waiters, 0, List.of(), List.of());
        }
    }
}
