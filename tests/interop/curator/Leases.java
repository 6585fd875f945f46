import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;

/** A semaphore, and its leases that the actor has. */
record Leases(CuratorFramework client, InterProcessSemaphoreV2 semaphore, String path, Deque<Lease> held)
        implements Recipe {
    static Leases open(CuratorFramework client, String path, Map<String, String> options, byte[] data)
            throws Exception {
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
        return new Leases(client, semaphore, path, new ArrayDeque<>());
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
    public List<String> participants(String how) throws Exception {
        var names = semaphore.getParticipantNodes();
        return Recipe.data(client, names.stream().map(name -> path + "/leases/" + name).toList());
    }
}
