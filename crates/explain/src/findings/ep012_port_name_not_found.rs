//! The pod has no container port with a name that the Service asks for.


about! {
    /// The Service's targetPort is a name, and no container port of the pod has this name. The
    /// EndpointSlice controller still lists the pod, in a slice without ports, which kube-proxy
    /// ignores. DNS lists the pod of a headless Service, without the port, so the severity is
    /// warning there. The Endpoints object leaves it out.
    ///
    /// If other pods of the Service have the name, the remedy does not change the Service: with
    /// another name or a number they would lose their clients, or this pod would get clients that
    /// it does not serve.
    EP012 "port-name-not-found" Error
    "The pod has no container port with a name that the Service asks for."
}
