//! The rules about the effects on clients of a Service, as functions of the Service, its slices,
//! and the traffic that it owes to addresses. kube-proxy and CoreDNS are the models of
//! `kube_endpoint_explain::consumers`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use kube_endpoint_core_model::{EndpointSlice, IpFamily, Service};
use kube_endpoint_explain::consumers::core_dns::{CoreDns, Question};
use kube_endpoint_explain::consumers::kube_proxy::{KubeProxy, PortRoutes, Through, TrafficPolicies, Unused};

/// Ready pods are backends. Hints may send a client to others, but leave each pod to some client.
/// So each client has a backend while a pod is ready: kube-proxy follows hints only if one is for
/// its node or zone.
pub(super) const READY: &str = "a ready pod gets traffic";
/// The fall-back of kube-proxy.
pub(super) const LAST: &str = "a terminating pod that serves is the last resort";
/// Terminating pods wait until no pod is ready, and pods that are not ready get no traffic.
pub(super) const FIRST: &str = "ready pods get traffic before others";
/// The rule about addresses that never belonged to the Service.
pub(super) const STRANGER: &str = "no client is sent to an address that was never the Service's";

/// The rule that does not hold, and the reason.
pub(super) type Broken = (&'static str, String);

/// The state of the pod behind an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// It terminates and is still ready, so that it serves if no other pod does.
    Serving,
    NotReady,
}

/// The traffic that a Service owes to an address of a pod that does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) state: State,
    pub(super) node: String,
    /// For each port of the Service the number of the pod's port, or `None` if the pod has no such
    /// port.
    pub(super) ports: Vec<Option<u16>>,
}

pub(super) type Claims = BTreeMap<IpAddr, Claim>;

/// The client that asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Client {
    /// Its node, or empty if no pods run there.
    pub(super) node: String,
    pub(super) zone: String,
    /// True if the Service counts as one with the internal traffic policy `Local`.
    pub(super) local: bool,
}

/// The answer to one question of a client.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The port of the Service in the question, or `None` if the question is about addresses only.
    port: Option<usize>,
    /// The backends. Without a port, the number is 0.
    backends: BTreeSet<SocketAddr>,
    /// The endpoints that hints keep from this client.
    hinted_away: BTreeSet<SocketAddr>,
    /// The endpoints that this client uses when no endpoint is ready.
    waiting: BTreeSet<SocketAddr>,
    /// True for kube-proxy, which falls back to terminating pods. CoreDNS does not.
    falls_back: bool,
    /// The only node whose endpoints count, or empty if all count.
    node: String,
}

impl Answer {
    fn of_proxy(position: usize, routes: PortRoutes, client: &Client) -> Self {
        let mut answer = Self {
            port: Some(position),
            backends: routes.backends.into_iter().collect(),
            falls_back: true,
            node: if client.local { client.node.clone() } else { String::new() },
            ..Self::default()
        };
        for (address, reason) in routes.unused {
            match reason {
                Unused::OtherZone | Unused::OtherNode => answer.hinted_away.insert(address),
                Unused::Terminating => answer.waiting.insert(address),
                Unused::NotReady | Unused::NotLocal => false,
            };
        }
        answer
    }

    /// Returns the socket of an address that this answer is about.
    fn socket(&self, ip: IpAddr, claim: &Claim) -> Option<SocketAddr> {
        if !self.node.is_empty() && claim.node != self.node {
            return None;
        }
        let number = match self.port {
            Some(position) => claim.ports.get(position).copied().flatten()?,
            None => 0,
        };
        Some(SocketAddr::new(ip, number))
    }

    /// Returns true if this client uses an address, on any port.
    pub(super) fn sends_to(&self, ip: IpAddr) -> bool {
        self.backends.iter().any(|socket| socket.ip() == ip)
    }

    /// Returns true if this client uses an address, or a client elsewhere would.
    pub(super) fn reaches(&self, ip: IpAddr, claim: &Claim) -> bool {
        let is_used = |it| self.backends.contains(&it) || self.hinted_away.contains(&it);
        self.socket(ip, claim).is_none_or(is_used)
    }
}

/// Returns the answers to all questions of a client about the addresses of one family.
pub(super) fn answers<'a>(
    service: &Service,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    family: IpFamily,
    client: &Client,
) -> Vec<Answer> {
    let slices: Vec<&EndpointSlice> = slices.into_iter().collect();
    if *service.cluster_ip == *"None" {
        return of_names(service, &slices, family);
    }
    let proxy = KubeProxy { node: &client.node, zone: &client.zone, ..KubeProxy::default() };
    let policies = TrafficPolicies { internal_local: client.local, ..TrafficPolicies::default() };
    let routes = proxy.routes(service, policies, slices, family, Through::ClusterIp);
    let ports = routes.ports.into_iter().enumerate();
    ports.map(|(position, routes)| Answer::of_proxy(position, routes, client)).collect()
}

/// Returns the answers of CoreDNS about a headless Service: its addresses, and those of each port.
fn of_names(service: &Service, slices: &[&EndpointSlice], family: IpFamily) -> Vec<Answer> {
    let named = service.ports.iter().enumerate().filter(|(_, port)| !port.name.is_empty());
    let of_ports = named.map(|(position, port)| {
        let question = Question::Port { port: port.name.clone(), protocol: port.protocol.clone() };
        (Some(position), question)
    });
    let questions = [(None, Question::Service)].into_iter().chain(of_ports);
    questions
        .map(|(port, question)| {
            let records = CoreDns::default().resolve(service, slices.iter().copied(), &question);
            let sockets = records.iter().filter_map(|record| {
                let ip: IpAddr = record.host.parse().ok()?;
                let number = u16::try_from(record.port.unwrap_or_default()).ok()?;
                (ip.is_ipv6() == (family == IpFamily::IPv6)).then(|| SocketAddr::new(ip, number))
            });
            Answer { port, backends: sockets.collect(), ..Answer::default() }
        })
        .collect()
}

/// Checks that all addresses to which a client may be sent are known.
pub(super) fn no_strangers(answers: &[Answer], is_known: impl Fn(IpAddr) -> bool) -> Result<(), Broken> {
    let mut sent_to = answers.iter().flat_map(|it| it.backends.iter().chain(&it.hinted_away));
    match sent_to.find(|it| !is_known(it.ip())) {
        Some(stranger) => Err((STRANGER, format!("{} has never been one", stranger.ip()))),
        None => Ok(()),
    }
}

/// Checks that addresses of serving pods get the traffic that their states allow.
pub(super) fn claims_are_met(answers: &[Answer], claims: &Claims) -> Result<(), Broken> {
    for answer in answers {
        for (ip, claim) in claims {
            let Some(socket) = answer.socket(*ip, claim) else { continue };
            let says = |what: &str| format!("{socket} {what}");
            match claim.state {
                State::Ready if !answer.reaches(*ip, claim) => {
                    return Err((READY, says("is that of a ready pod and gets none")));
                }
                State::Serving
                    if answer.falls_back
                        && !answer.backends.contains(&socket)
                        && !answer.waiting.contains(&socket) =>
                {
                    return Err((LAST, says("would get no traffic even if nothing was ready")));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Checks that hints leave each ready pod to a client on some node. `of_clients` are the answers to
/// one client on each node, and each client asks the same questions.
pub(super) fn some_client_reaches(of_clients: &[Vec<Answer>], claims: &Claims) -> Result<(), Broken> {
    for (position, question) in of_clients.first().into_iter().flatten().enumerate() {
        let answers = || of_clients.iter().filter_map(|answers| answers.get(position));
        let is_left = |(ip, claim): (&IpAddr, &Claim)| {
            let socket = question.socket(*ip, claim).filter(|_| claim.state == State::Ready)?;
            (!answers().any(|answer| answer.backends.contains(&socket))).then_some(socket)
        };
        if let Some(socket) = claims.iter().find_map(is_left) {
            return Err((READY, format!("hints send the clients of all nodes to others than {socket}")));
        }
    }
    Ok(())
}

/// Returns an address whose pod is not ready, if clients are wrongly sent to it.
pub(super) fn ready_first(answers: &[Answer], claim: impl Fn(IpAddr) -> Option<Claim>) -> Result<(), Broken> {
    for answer in answers {
        let state = |socket: &SocketAddr| claim(socket.ip()).map(|claim| claim.state);
        let any_ready = || answer.backends.iter().any(|it| state(it) == Some(State::Ready));
        for socket in &answer.backends {
            let what = match state(socket) {
                Some(State::Serving) if !answer.falls_back || any_ready() => "terminates",
                Some(State::NotReady) => "is not ready",
                _ => continue,
            };
            return Err((FIRST, format!("the pod of {socket} {what} and gets traffic")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn service(cluster_ip: &str) -> Service {
        from_value(json!({
            "metadata": {"name": "s", "namespace": "n"},
            "spec": {"clusterIP": cluster_ip, "ports": [{"name": "web", "port": 80, "protocol": "TCP"}]},
        }))
        .unwrap()
    }

    /// Returns an endpoint on the node `n0` with a condition for each letter of `rst`.
    fn endpoint(address: &str, conditions: &str) -> Value {
        let [ready, serving, terminating] = ['r', 's', 't'].map(|it| conditions.contains(it));
        json!({
            "addresses": [address], "nodeName": "n0",
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        })
    }

    fn slice(endpoints: &[(&str, &str)]) -> Value {
        let endpoints: Vec<Value> = endpoints.iter().map(|(address, it)| endpoint(address, it)).collect();
        json!({
            "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}],
        })
    }

    fn claims(states: &[(&str, State)]) -> Claims {
        let claim = |state| Claim { state, node: "n0".to_owned(), ports: vec![Some(8080)] };
        states.iter().map(|(ip, state)| (ip.parse().unwrap(), claim(*state))).collect()
    }

    /// Judges one slice by all rules that need claims.
    fn broken(cluster_ip: &str, slice: Value, claims: &Claims, client: &Client) -> Option<&'static str> {
        let slice: EndpointSlice = from_value(slice).unwrap();
        let answers = answers(&service(cluster_ip), [&slice], IpFamily::IPv4, client);
        let judged = claims_are_met(&answers, claims)
            .and_then(|()| ready_first(&answers, |ip| claims.get(&ip).cloned()));
        judged.err().map(|(rule, _)| rule)
    }

    const PROXIED: &str = "10.96.0.1";
    const HEADLESS: &str = "None";

    #[track_caller]
    fn check(cluster_ip: &str, held: &[(&str, &str)], pods: &[(&str, State)], want: Option<&str>) {
        assert_eq!(broken(cluster_ip, slice(held), &claims(pods), &Client::default()), want);
    }

    #[test]
    fn a_ready_pod_gets_traffic_whatever_its_slice_lacks() {
        let pods = [("10.0.0.1", State::Ready)];
        for cluster_ip in [PROXIED, HEADLESS] {
            check(cluster_ip, &[("10.0.0.1", "rs")], &pods, None);
            check(cluster_ip, &[("10.0.0.1", "s")], &pods, Some(READY));
            check(cluster_ip, &[], &pods, Some(READY));
            for (field, value) in [
                ("name", json!("raw")),
                ("protocol", json!("UDP")),
                ("port", json!(9090)),
                ("port", Value::Null),
            ] {
                let mut slice = slice(&[("10.0.0.1", "rs")]);
                slice["ports"][0][field] = value;
                let found = broken(cluster_ip, slice, &claims(&pods), &Client::default());
                assert_eq!(found, Some(READY), "{field}");
            }
        }
        let mut headless = slice(&[("10.0.0.1", "rs")]);
        headless["metadata"]["labels"]["service.kubernetes.io/headless"] = "".into();
        let found = broken(PROXIED, headless.clone(), &claims(&pods), &Client::default());
        assert_eq!(found, Some(READY));
        assert_eq!(broken(HEADLESS, headless, &claims(&pods), &Client::default()), None);
    }

    #[test]
    fn a_client_with_the_policy_local_is_sent_to_the_pods_of_its_node() {
        let pods = claims(&[("10.0.0.1", State::Ready)]);
        let check = |pod_is_on: Value, client_is_on: &str, want: Option<&str>| {
            let mut slice = slice(&[("10.0.0.1", "rs")]);
            slice["endpoints"][0]["nodeName"] = pod_is_on;
            let client = Client { node: client_is_on.to_owned(), zone: String::new(), local: true };
            assert_eq!(broken(PROXIED, slice, &pods, &client), want);
        };
        check(json!("n0"), "n0", None);
        check(json!("n0"), "n1", None);
        check(json!("n1"), "n0", Some(READY));
        check(Value::Null, "n0", Some(READY));
    }

    #[test]
    fn hints_may_send_a_client_to_other_pods() {
        let pods = claims(&[("10.0.0.1", State::Ready), ("10.0.0.2", State::Ready)]);
        let mut slice = slice(&[("10.0.0.1", "rs"), ("10.0.0.2", "rs")]);
        for (endpoint, zone) in [(0, "z1"), (1, "z2")] {
            slice["endpoints"][endpoint]["hints"] = json!({"forZones": [{"name": zone}]});
        }
        for zone in ["z1", "z2", "z3", ""] {
            let client = Client { node: "n1".to_owned(), zone: zone.to_owned(), local: false };
            assert_eq!(broken(PROXIED, slice.clone(), &pods, &client), None, "{zone}");
        }
    }

    #[test]
    fn hints_for_zones_without_a_node_leave_a_pod_to_nobody() {
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let pods = claims(&addresses.map(|it| (it, State::Ready)));
        let check = |zones: [&str; 3], want: Option<&str>| {
            let mut slice = slice(&addresses.map(|it| (it, "rs")));
            for (endpoint, zone) in zones.iter().enumerate() {
                slice["endpoints"][endpoint]["hints"] = json!({"forZones": [{"name": zone}]});
            }
            let slice: EndpointSlice = from_value(slice).unwrap();
            let of_zone = |zone: &str| {
                let client = Client { node: format!("of-{zone}"), zone: zone.to_owned(), local: false };
                answers(&service(PROXIED), [&slice], IpFamily::IPv4, &client)
            };
            let of_clients = ["z1", "z2"].map(of_zone);
            let judged = some_client_reaches(&of_clients, &pods);
            assert_eq!(judged.err().map(|(rule, _)| rule), want, "{zones:?}");
            assert!(of_clients.iter().flatten().all(|answer| !answer.backends.is_empty()), "{zones:?}");
        };
        check(["z1", "z2", "z1"], None);
        check(["z1", "z2", "nowhere"], Some(READY));
        check(["z1", "z1", "nowhere"], None);
        check(["nowhere"; 3], None);
        assert_eq!(some_client_reaches(&[], &pods), Ok(()), "there are no nodes");
    }

    #[test]
    fn what_is_not_ready_waits_for_want_of_others() {
        let ending = [("10.0.0.1", State::Serving)];
        let both = [("10.0.0.1", State::Serving), ("10.0.0.2", State::Ready)];
        check(PROXIED, &[("10.0.0.1", "st")], &ending, None);
        check(PROXIED, &[("10.0.0.1", "st"), ("10.0.0.2", "rs")], &both, None);
        check(PROXIED, &[("10.0.0.1", "rst"), ("10.0.0.2", "rs")], &both, Some(FIRST));
        check(PROXIED, &[("10.0.0.1", "t")], &ending, Some(LAST));
        check(PROXIED, &[("10.0.0.1", "s")], &ending, Some(LAST));
        check(PROXIED, &[("10.0.0.1", "r")], &[("10.0.0.1", State::NotReady)], Some(FIRST));
        check(PROXIED, &[("10.0.0.1", "")], &[("10.0.0.1", State::NotReady)], None);
        check(HEADLESS, &[("10.0.0.1", "st")], &ending, None);
        check(HEADLESS, &[("10.0.0.1", "rst")], &ending, Some(FIRST));
    }

    #[test]
    fn an_address_that_nobody_knows_is_a_stranger() {
        let slice: EndpointSlice = from_value(slice(&[("10.0.0.1", "rs"), ("10.0.0.2", "")])).unwrap();
        let check = |known: &str, want: Option<&str>| {
            let answers = answers(&service(PROXIED), [&slice], IpFamily::IPv4, &Client::default());
            let judged = no_strangers(&answers, |ip| ip.to_string() == known);
            assert_eq!(judged.err().map(|(rule, _)| rule), want);
        };
        check("10.0.0.1", None);
        check("10.0.0.2", Some(STRANGER));
    }
}
