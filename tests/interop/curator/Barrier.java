import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** A barrier: acquire waits for it. A double barrier: acquire enters, release leaves. */
final class Barrier implements Recipe {
    private final DistributedBarrier barrier;
    private final DistributedDoubleBarrier doubleBarrier;

    private Barrier(DistributedBarrier barrier, DistributedDoubleBarrier doubleBarrier) {
        this.barrier = barrier;
        this.doubleBarrier = doubleBarrier;
    }

    static Barrier single(CuratorFramework client, String path) {
        return new Barrier(new DistributedBarrier(client, path), null);
    }

    static Barrier ofTwo(CuratorFramework client, String path, int members) {
        return new Barrier(null, new DistributedDoubleBarrier(client, path, members));
    }

    @Override
    public void acquire(String how) throws Exception {
        if (barrier != null) {
            barrier.waitOnBarrier();
        } else {
            doubleBarrier.enter();
        }
    }

    @Override
    public boolean tryAcquire(long millis, String how) throws Exception {
        return barrier != null
                ? barrier.waitOnBarrier(millis, TimeUnit.MILLISECONDS)
                : doubleBarrier.enter(millis, TimeUnit.MILLISECONDS);
    }

    @Override
    public void release(String how) throws Exception {
        doubleBarrier.leave();
    }

    @Override
    public String act(String verb, String argument) throws Exception {
        switch (verb) {
            case "close":
                barrier.setBarrier();
                return "";
            case "open":
                barrier.removeBarrier();
                return "";
            default:
                throw new IllegalArgumentException("unknown: " + verb);
        }
    }
}
