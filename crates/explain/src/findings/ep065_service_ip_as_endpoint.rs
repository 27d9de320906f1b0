//! An endpoint of the Service is the cluster IP of a Service.

use super::about;

about! {
    /// kube-proxy translates the address of a connection once. So an endpoint that is the cluster
    /// IP of a Service leads nowhere on most clusters; some replacements of kube-proxy translate it
    /// again. The API does not forbid it. The finding looks at ready endpoints that name no pod:
    /// those of slices that somebody wrote, or that mirror Endpoints. If other endpoints are ready,
    /// the severity is warning. The endpoints of a headless Service may be cluster IPs, because its
    /// clients connect to them directly. `explain` asks the server for Services with these cluster
    /// IPs, at most 20, in all namespaces if you may, else in that of the Service; servers find
    /// only the first cluster IP of a Service of two families. `lint` and the status page compare
    /// with all cluster IPs that they read; the page looks at Services of the same namespace.
    EP065 "service-ip-as-endpoint" Error
    "An endpoint of the Service is the cluster IP of a Service."
}
