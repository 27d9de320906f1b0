//! A targetPort is a number that containers of the pods do not declare.

use super::about;

about! {
    /// Kubernetes does not check the number: a container may listen on ports that it does not
    /// declare. So this is a finding only if each pod declares ports and none of them is this
    /// number, whatever their protocols are; if some pods declare only others; or if all declare it
    /// for UDP and the Service is for TCP alone. It is a warning if something else shows that
    /// clients are refused: the pods are ready through a probe of a declared port to which no port
    /// of the Service leads, and each of their containers declares ports, or a Job owns the pod.
    /// The status page does not know probes, owners and the ports without a name, and leaves the
    /// finding out.
    EP064 "port-not-declared" Info
    "A targetPort is a number that containers of the pods do not declare."
}
