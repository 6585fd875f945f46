import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;

/** A member of a group from acquire to release. */
final class Group implements Recipe {
    private final CuratorFramework client;
    private final String path;
    private final Map<String, String> options;
    private GroupMember member;

    Group(CuratorFramework client, String path, Map<String, String> options) {
        this.client = client;
        this.path = path;
        this.options = options;
    }

    @Override
    public void acquire(String how) {
        var payload = options.get("data").getBytes(StandardCharsets.UTF_8);
        member = new GroupMember(client, path, options.get("id"), payload);
        member.start();
    }

    @Override
    public String act(String verb, String argument) {
        switch (verb) {
            case "members":
                return member.getCurrentMembers().entrySet().stream()
                        .map(entry -> entry.getKey() + "=" + new String(entry.getValue(), StandardCharsets.UTF_8))
                        .sorted()
                        .collect(Collectors.joining(" "));
            case "data":
                member.setThisData(argument.getBytes(StandardCharsets.UTF_8));
                return "";
            default:
                throw new IllegalArgumentException("unknown: " + verb);
        }
    }

    @Override
    public void release(String how) {
        member.close();
    }
}
