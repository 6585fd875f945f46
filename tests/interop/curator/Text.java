import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.recipes.shared.SharedValue;

/** A value that processes share. */
record Text(SharedValue value) implements Recipe {
    @Override
    public String get() {
        return new String(value.getValue(), StandardCharsets.UTF_8);
    }

    @Override
    public void set(String text) throws Exception {
        value.setValue(text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public boolean exchange(String expected, String text) throws Exception {
        var seen = value.getVersionedValue();
        return new String(seen.getValue(), StandardCharsets.UTF_8).equals(expected)
                && value.trySetValue(seen, text.getBytes(StandardCharsets.UTF_8));
    }
}
