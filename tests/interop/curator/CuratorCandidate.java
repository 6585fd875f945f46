import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

/**
 * A candidate of Curator's, which says when it leads. The protocol is described in report.rs.
 *
 * <p>Arguments: latch or selector, connect string, session timeout in milliseconds, path, id.
 */
public final class CuratorCandidate {
    private final CuratorFramework client;
    private final String path;
    private final String id;

    public static void main(String[] args) throws Exception {
        var client = CuratorFrameworkFactory.builder()
                .connectString(args[1])
                .sessionTimeoutMs(Integer.parseInt(args[2]))
                .connectionTimeoutMs(15_000)
                // Longer than the server is down: whoever gives up in the background sleeps for good.
                .retryPolicy(new RetryNTimes(120, 250))
                .build();
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + args[1]);
        }
        say("ready " + System.nanoTime());
        var candidate = new CuratorCandidate(client, args[3], args[4]);
        candidate.obey(args[0].equals("latch") ? candidate.new Latch() : candidate.new Selector());
        client.close();
        System.exit(0); // whatever goes on in other threads
    }

    private CuratorCandidate(CuratorFramework client, String path, String id) {
        this.client = client;
        this.path = path;
        this.id = id;
    }

    /** Stands, until there are no more lines. */
    private void obey(Standing standing) throws Exception {
        standing.start();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            if (line.equals("resign")) {
                standing.resign();
            } else if (line.equals("renew")) {
                standing.close();
                standing.start();
            } else {
                throw new IllegalArgumentException("unknown: " + line);
            }
        }
        standing.close();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** A way to stand for election. */
    private interface Standing {
        void start() throws Exception;

        void resign() throws Exception;

        void close() throws Exception;
    }

    /** Looks all the time whether it leads. */
    private final class Latch implements Standing {
        private volatile LeaderLatch latch;

        @Override
        public void start() throws Exception {
            var isFirst = latch == null;
            latch = new LeaderLatch(client, path, id);
            latch.start();
            if (isFirst) {
                var looker = new Thread(this::look);
                looker.setDaemon(true);
                looker.start();
            }
        }

        /** The only way there is. */
        @Override
        public void resign() throws Exception {
            close();
            start();
        }

        @Override
        public void close() throws Exception {
            latch.close();
        }

        private void look() {
            long term = 0;
            String node = null;
            while (true) {
                long before = System.nanoTime();
                var latch = this.latch;
                var present = latch.hasLeadership() ? String.valueOf(latch.getLastPathIsLeader()) : null;
                if (present != null && present.equals(node)) {
                    say("looks " + term + " " + before);
                } else {
                    if (node != null) {
                        say("ends " + term);
                    }
                    if (present != null) {
                        say("leads " + ++term + " " + System.nanoTime() + " " + present + " 0");
                    }
                    node = present;
                }
                try {
                    Thread.sleep(1);
                } catch (InterruptedException ended) {
                    return;
                }
            }
        }
    }

    /** Leads for as long as it is let. */
    private final class Selector extends LeaderSelectorListenerAdapter implements Standing {
        private volatile LeaderSelector selector;
        private long term;

        @Override
        public void start() {
            selector = new LeaderSelector(client, path, this);
            selector.setId(id);
            selector.autoRequeue();
            selector.start();
        }

        @Override
        public void resign() {
            selector.interruptLeadership();
        }

        @Override
        public void close() {
            selector.close();
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            long term = ++this.term;
            say("leads " + term + " " + System.nanoTime() + " " + node() + " 0");
            try {
                while (true) {
                    say("looks " + term + " " + System.nanoTime());
                    Thread.sleep(1);
                }
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            } finally {
                say("ends " + term);
            }
        }

        /** The node by which this thread leads, which the selector does not tell. */
        private String node() throws Exception {
            var mutex = LeaderSelector.class.getDeclaredField("mutex");
            var path = InterProcessMutex.class.getDeclaredMethod("getLockPath");
            mutex.setAccessible(true);
            path.setAccessible(true);
            return String.valueOf(path.invoke(mutex.get(selector)));
        }
    }
}
