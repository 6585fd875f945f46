import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;

/** A node that Curator keeps from acquire to release. */
final class KeptNode implements Recipe {
    private final CuratorFramework client;
    private final String path;
    private final Map<String, String> options;
    private PersistentNode node;
    private PersistentTtlNode ttlNode;

    KeptNode(CuratorFramework client, String path, Map<String, String> options) {
        this.client = client;
        this.path = path;
        this.options = options;
    }

    @Override
    public void acquire(String how) throws Exception {
        var data = options.get("data").getBytes(StandardCharsets.UTF_8);
        boolean isThere;
        if (options.containsKey("ttl")) {
            ttlNode = new PersistentTtlNode(client, path, Long.parseLong(options.get("ttl")), data);
            ttlNode.start();
            isThere = ttlNode.waitForInitialCreate(30, TimeUnit.SECONDS);
        } else {
            var mode = CreateMode.valueOf(options.getOrDefault("mode", "EPHEMERAL"));
            node = new PersistentNode(client, mode, mode.isSequential(), path, data);
            node.start();
            isThere = node.waitForInitialCreate(30, TimeUnit.SECONDS);
        }
        if (!isThere) {
            throw new IllegalStateException("it was not created");
        }
    }

    @Override
    public String act(String verb, String argument) throws Exception {
        switch (verb) {
            case "path":
                return node.getActualPath();
            case "data":
                node.setData(argument.getBytes(StandardCharsets.UTF_8));
                return "";
            default:
                throw new IllegalArgumentException("unknown: " + verb);
        }
    }

    @Override
    public void release(String how) throws Exception {
        if (ttlNode != null) {
            ttlNode.close();
        } else {
            node.close();
        }
    }
}
