//! kube-proxy uses no endpoint of a slice, because of its ports or addresses.

use super::about;

about! {
    /// The slice has ready endpoints and none of the Service's ports, by name and protocol, or
    /// addresses of a family that the Service does not have. The latter has the severity info,
    /// because gateways and meshes that read slices themselves may use them. If no endpoint has the
    /// port or the family, [EP045](#ep045-endpoint-ports-differ) or
    /// [EP046](#ep046-endpoint-families-differ) says so instead. [EP050](#ep050-slices-behind)
    /// reports slices that the controllers are about to write.
    EP062 "slice-unused" Warning
    "kube-proxy uses no endpoint of a slice, because of its ports or addresses."
}
