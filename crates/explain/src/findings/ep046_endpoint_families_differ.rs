//! An IP family of the Service has no ready endpoint.

use super::about;

about! {
    /// The Service has no selector. kube-proxy uses the addresses of the families in
    /// `spec.ipFamilies`, and no domain names. If one of two families has no ready endpoint, the
    /// severity is warning: kube-proxy refuses connections to the cluster IP of that family, unless
    /// a terminating endpoint still serves. The explanation does not check a headless Service,
    /// whose clients ask DNS. Gateways and meshes that read slices themselves may use other
    /// addresses. [EP050](#ep050-slices-behind) reports addresses of the Endpoints that their
    /// mirrored slices lack.
    EP046 "endpoint-families-differ" Error
    "An IP family of the Service has no ready endpoint."
}
