import org.apache.curator.framework.recipes.shared.SharedCount;

/** A number that processes share. */
record Counter(SharedCount count) implements Recipe {
    @Override
    public String get() {
        return String.valueOf(count.getCount());
    }

    @Override
    public void set(String value) throws Exception {
        count.setCount(Integer.parseInt(value));
    }

    @Override
    public boolean exchange(String expected, String value) throws Exception {
        var seen = count.getVersionedValue();
        return seen.getValue() == Integer.parseInt(expected) && count.trySetCount(seen, Integer.parseInt(value));
    }
}
