import java.util.Comparator;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.UriSpec;

/** The services below a path, where each instance has a zone. Only Debian has this part of Curator. */
public final class Services implements Recipe {
    private static final String SERVICE = "orders";

    /** The payload. */
    public static final class Details {
        public String zone;
    }

    private final ServiceDiscovery<Details> services;
    private final ServiceCache<Details> cache;
    private final ServiceProvider<Details> provider;
    private ServiceInstance<Details> registered;

    public Services(CuratorFramework client, String path) throws Exception {
        services = ServiceDiscoveryBuilder.builder(Details.class).client(client).basePath(path).build();
        services.start();
        cache = services.serviceCacheBuilder().name(SERVICE).build();
        cache.start();
        provider = services.serviceProviderBuilder().serviceName(SERVICE).build();
        provider.start();
    }

    @Override
    public String act(String verb, String argument) throws Exception {
        switch (verb) {
            case "register": // ID,PORT,ZONE
                registered = instance(argument);
                services.registerService(registered);
                return "";
            case "update":
                registered = instance(argument);
                services.updateService(registered);
                return "";
            case "unregister":
                services.unregisterService(registered);
                return "";
            case "names":
                return String.join(" ", services.queryForNames());
            case "query":
                return told(services.queryForInstances(SERVICE));
            case "cached":
                return told(cache.getInstances());
            case "picked":
                var picked = provider.getInstance();
                return picked == null ? "" : picked.getId();
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private static ServiceInstance<Details> instance(String words) throws Exception {
        var parts = words.split(",");
        var details = new Details();
        details.zone = parts[2];
        return ServiceInstance.<Details>builder()
                .name(SERVICE)
                .id(parts[0])
                .address("10.0.0.7")
                .port(Integer.parseInt(parts[1]))
                .payload(details)
                .uriSpec(new UriSpec("{scheme}://{address}:{port}/{name}/{service-type}"))
                .build();
    }

    private static String told(java.util.Collection<ServiceInstance<Details>> instances) {
        return instances.stream()
                .sorted(Comparator.comparing(ServiceInstance::getId))
                .map(instance -> instance.getId() + "," + instance.getPort() + "," + instance.getPayload().zone + ","
                        + instance.buildUriSpec())
                .collect(Collectors.joining(" "));
    }
}
