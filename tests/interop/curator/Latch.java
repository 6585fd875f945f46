import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;

/** A candidate that leads until it is closed. Then there is a new one, since Curator's stands only once. */
final class Latch implements Recipe {
    private final CuratorFramework client;
    private final String path;
    private final String id;
    private LeaderLatch latch;
    private String node;

    Latch(CuratorFramework client, String path, String id) {
        this.client = client;
        this.path = path;
        this.id = id;
        renew();
    }

    private void renew() {
        latch = id == null ? new LeaderLatch(client, path) : new LeaderLatch(client, path, id);
    }

    @Override
    public void acquire(String how) throws Exception {
        latch.start();
        latch.await();
    }

    @Override
    public boolean tryAcquire(long millis, String how) throws Exception {
        latch.start();
        boolean leads = latch.await(millis, TimeUnit.MILLISECONDS);
        if (leads) {
            node = latch.getLastPathIsLeader();
        } else {
            release(how);
        }
        return leads;
    }

    @Override
    public void release(String how) throws Exception {
        latch.close();
        renew();
    }

    /** By which it led at first: after an interruption, it may lead by another one. */
    @Override
    public String node(String how) throws Exception {
        return node;
    }

    @Override
    public List<String> participants(String how) throws Exception {
        return latch.getParticipants().stream().map(Participant::getId).toList();
    }

    @Override
    public Optional<String> leader() throws Exception {
        return Optional.of(latch.getLeader()).filter(Participant::isLeader).map(Participant::getId);
    }

    @Override
    public boolean leads() {
        return latch.hasLeadership();
    }
}
