import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;

/** A number that processes add to. */
record AtomicNumber(DistributedAtomicLong number) implements Recipe {
    @Override
    public String get() throws Exception {
        return String.valueOf(number.get().postValue());
    }

    @Override
    public void set(String value) throws Exception {
        number.forceSet(Long.parseLong(value));
    }

    @Override
    public boolean exchange(String expected, String value) throws Exception {
        return number.compareAndSet(Long.parseLong(expected), Long.parseLong(value)).succeeded();
    }

    @Override
    public boolean initialize(String value) throws Exception {
        return number.initialize(Long.parseLong(value));
    }

    @Override
    public String add(String delta) throws Exception {
        return String.valueOf(succeeded(number.add(Long.parseLong(delta))).postValue());
    }

    static <T> AtomicValue<T> succeeded(AtomicValue<T> outcome) {
        if (!outcome.succeeded()) {
            throw new IllegalStateException("it did not succeed");
        }
        return outcome;
    }
}
