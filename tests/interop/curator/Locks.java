import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** A lock, or the sides of one. */
record Locks(CuratorFramework client, Map<String, InterProcessLock> bySide) implements Recipe {
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
    public List<String> participants(String how) throws Exception {
        return Recipe.data(client, ((InterProcessMutex) side(how)).getParticipantNodes());
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
