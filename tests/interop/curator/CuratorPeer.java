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
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Curator as a peer of the interoperation tests. The protocol is described in peer.rs.
 *
 * <p>Arguments: connect string, session timeout in milliseconds, default node data. With the system property
 * {@code compress}, node data is compressed.
 */
public final class CuratorPeer {
    /** After so long, one that was not woken tries again. */
    private static final long PATIENCE_MILLIS = 15_000;

    private final CuratorFramework client;
    private final Map<String, Actor> actors = new HashMap<>();

    public static void main(String[] args) throws Exception {
        var builder = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(Integer.parseInt(args[1]))
                .connectionTimeoutMs(15_000)
                .defaultData(args[2].getBytes(StandardCharsets.UTF_8))
                .retryPolicy(new RetryNTimes(20, 250));
        if (Boolean.getBoolean("compress")) {
            // By name: not all versions that this is compiled with have it.
            CuratorFrameworkFactory.Builder.class.getMethod("enableCompression").invoke(builder);
        }
        var client = builder.build();
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
                    recipe = Recipe.open(client, args.remove(), args.remove(), options(args));
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
                    return words(recipe.participants(args.poll()));
                case "leader":
                    return words(recipe.leader().stream().toList());
                case "leads":
                    return String.valueOf(recipe.leads());
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
                case "act":
                    return recipe.act(args.remove(), args.poll());
                case "get":
                    return recipe.get();
                case "set":
                    recipe.set(args.remove());
                    return "";
                case "exchange":
                    return String.valueOf(recipe.exchange(args.remove(), args.remove()));
                case "initialize":
                    return String.valueOf(recipe.initialize(args.remove()));
                case "add":
                    return recipe.add(args.remove());
                case "count_up":
                    var sums = new ArrayList<String>();
                    for (int times = Integer.parseInt(args.remove()); times > 0; times--) {
                        sums.add(recipe.add("1"));
                    }
                    return String.join(" ", sums);
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

    /** One word for each, whatever is in it. */
    private static String words(List<String> texts) {
        return texts.stream()
                .map(text -> text.isEmpty() ? "-" : URLEncoder.encode(text, StandardCharsets.UTF_8))
                .collect(Collectors.joining(" "));
    }
}
