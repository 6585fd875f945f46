import org.apache.curator.framework.recipes.shared.SharedCount;

/** A number that processes share. */
record Counter(SharedCount count) implements Recipe {}
