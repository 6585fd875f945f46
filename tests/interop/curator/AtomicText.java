import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicValue;

/** A value that processes exchange. */
record AtomicText(DistributedAtomicValue value) implements Recipe {
    @Override
    public String get() throws Exception {
        return new String(value.get().postValue(), StandardCharsets.UTF_8);
    }

    @Override
    public void set(String text) throws Exception {
        value.forceSet(text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public boolean exchange(String expected, String text) throws Exception {
        var bytes = expected.getBytes(StandardCharsets.UTF_8);
        return value.compareAndSet(bytes, text.getBytes(StandardCharsets.UTF_8)).succeeded();
    }

    @Override
    public boolean initialize(String text) throws Exception {
        return value.initialize(text.getBytes(StandardCharsets.UTF_8));
    }
}
