import java.util.List;
import java.util.Optional;
import java.util.concurrent.SynchronousQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/** A candidate that leads for as long as its work takes, which is until the actor releases it. */
final class Selector extends LeaderSelectorListenerAdapter implements Recipe {
    private final LeaderSelector selector;
    private final SynchronousQueue<String> begun = new SynchronousQueue<>();
    private final SynchronousQueue<String> ended = new SynchronousQueue<>();
    private boolean isStarted;

    Selector(CuratorFramework client, String path, String id) {
        selector = new LeaderSelector(client, path, this);
        if (id != null) {
            selector.setId(id);
        }
    }

    @Override
    public void takeLeadership(CuratorFramework client) throws InterruptedException {
        begun.put("begun");
        ended.take();
    }

    @Override
    public void acquire(String how) throws Exception {
        if (!isStarted) {
            selector.start();
            isStarted = true;
        } else {
            while (!selector.requeue()) {
                Thread.sleep(1); // It is about to end its last term.
            }
        }
        begun.take();
    }

    @Override
    public void release(String how) throws Exception {
        ended.put("ended");
    }

    @Override
    public List<String> participants(String how) throws Exception {
        return selector.getParticipants().stream().map(Participant::getId).toList();
    }

    @Override
    public Optional<String> leader() throws Exception {
        return Optional.of(selector.getLeader()).filter(Participant::isLeader).map(Participant::getId);
    }

    @Override
    public boolean leads() {
        return selector.hasLeadership();
    }
}
