//! Plans a world, carries the writes out one by one, and compares each state with the laws.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use kube_endpoint_core_model::well_known::LABEL_HEADLESS;
use kube_endpoint_core_model::{EndpointSlice, ResourceVersion, Writes};
use kube_endpoint_explain::consumers::kube_proxy::{KubeProxy, Through, TrafficPolicies, Unused};
use kube_endpoint_slice_plan::{Plan, PlanInputs, PlanOptions, plan};

use super::objects::{NODE, NODES, PORT, ZONE, address, families_of};
use super::{Limit, PodState, World};

/// The law that does not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub law: &'static str,
    pub detail: String,
}

/// Counts of worlds that were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    pub worlds: u64,
    /// The worlds in which a plan writes.
    pub with_writes: u64,
    /// The states between two writes of a plan.
    pub states_between: u64,
    /// The ready pods that had to stay reachable in such a state.
    pub kept: u64,
}

impl Judged {
    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.worlds += other.worlds;
        self.with_writes += other.with_writes;
        self.states_between += other.states_between;
        self.kept += other.kept;
    }
}

const SAME: &str = "the same inputs have the same plan";
const CONVERGES: &str = "a second plan writes nothing";
const LISTED: &str = "in the end the slices list each pod once, with its conditions, and nothing else";
const WITHIN_LIMIT: &str = "no slice grows beyond the limit";
const MARKED: &str = "in the end no slice has what somebody edited";
const REACHED: &str = "each ready pod gets traffic in the end";
const KEPT: &str = "no write takes traffic from a ready pod";
const WRONGLY_SENT: &str = "no write sends traffic to a pod that is not ready";

/// The limits of a slice.
const LIMITS: [usize; 2] = [2, 100];

/// The options for each limit.
static OPTIONS: LazyLock<[PlanOptions; 2]> =
    LazyLock::new(|| LIMITS.map(|limit| PlanOptions::default().with_max_endpoints_per_slice(limit)));

type Slices = Vec<Arc<EndpointSlice>>;

impl World {
    fn plan(&self, slices: &[Arc<EndpointSlice>]) -> Plan {
        let options = &OPTIONS[usize::from(self.limit == Limit::Hundred)];
        let pods = self.existing_pods();
        plan(
            &PlanInputs::new(self.service(), &pods, &*NODES)
                .with_existing_slices(slices)
                .with_options(options),
        )
    }

    /// Returns the sockets to which kube-proxy sends the clients of the node that exists, or would
    /// send those of another zone.
    fn traffic(&self, slices: &Slices) -> BTreeSet<SocketAddr> {
        let proxy = KubeProxy { node: NODE, zone: ZONE, ..KubeProxy::default() };
        let mut traffic = BTreeSet::new();
        for family in families_of(self.families) {
            let policies = TrafficPolicies::default();
            let slices = slices.iter().map(|slice| &**slice);
            let routes = proxy.routes(self.service(), policies, slices, *family, Through::ClusterIp);
            for port in routes.ports {
                traffic.extend(port.backends);
                let elsewhere = port.unused.iter().filter(|(_, why)| *why == Unused::OtherZone);
                traffic.extend(elsewhere.map(|(socket, _)| *socket));
            }
        }
        traffic
    }

    /// Returns the sockets of the pods that match.
    fn sockets(&self, matches: impl Fn(&super::PodInWorld) -> bool) -> BTreeSet<SocketAddr> {
        let matching = self.pods.iter().enumerate().filter(|(_, pod)| matches(pod));
        let socket = |number, family| {
            let ip = address(number, family).parse().ok()?;
            Some(SocketAddr::new(ip, PORT))
        };
        let of_pod =
            |(number, _)| families_of(self.families).iter().filter_map(move |it| socket(number, *it));
        matching.flat_map(of_pod).collect()
    }

    /// Plans the world until nothing is left to write, and checks the laws.
    ///
    /// # Errors
    ///
    /// The first law that does not hold.
    pub fn judge(&self) -> Result<Judged, Broken> {
        let broken = |law, detail: String| Err(Broken { law, detail });
        let before = self.slices();
        let planned = self.plan(&before);
        if planned != self.plan(&before) {
            return broken(SAME, String::new());
        }
        let states = states(&before, &planned);
        let mut judged = Judged {
            worlds: 1,
            with_writes: u64::from(!states.is_empty()),
            states_between: states.len().saturating_sub(1) as u64,
            kept: 0,
        };
        let last = states.last().unwrap_or(&before);
        let again = self.plan(last);
        if let Some(left) = again.sub_plans.iter().map(|sub_plan| &sub_plan.writes).find(|it| !it.is_empty())
        {
            return broken(CONVERGES, format!("{left:?}"));
        }
        // A pod on a node that does not exist is not published until the node does.
        let ready = self.sockets(|pod| pod.state == PodState::Ready && pod.node_exists);
        let [at_first, at_last] = [&before, last].map(|slices| self.traffic(slices));
        if let Some(missing) = ready.difference(&at_last).next() {
            return broken(REACHED, missing.to_string());
        }
        let kept: BTreeSet<SocketAddr> = ready.intersection(&at_first).copied().collect();
        let wrong =
            self.sockets(|pod| matches!(pod.state, PodState::Absent | PodState::Unready | PodState::Failed));
        for (number, slices) in states.iter().enumerate() {
            let traffic = self.traffic(slices);
            let after =
                |socket: &SocketAddr| format!("{socket} after write {} of {}", number + 1, states.len());
            if let Some(lost) = kept.difference(&traffic).next() {
                return broken(KEPT, after(lost));
            }
            let sent = wrong.intersection(&traffic).find(|it| !at_first.contains(it));
            if let Some(sent) = sent {
                return broken(WRONGLY_SENT, after(sent));
            }
            judged.kept += kept.len() as u64;
        }
        self.check_end(&before, last)?;
        Ok(judged)
    }
}

impl World {
    /// Checks the slices after a plan, without kube-proxy.
    fn check_end(&self, before: &Slices, slices: &Slices) -> Result<(), Broken> {
        let mut want = Vec::new();
        for (number, pod) in self.pods.iter().enumerate().filter(|(_, pod)| pod.node_exists) {
            let conditions = match pod.state {
                PodState::Ready => [true, true, false],
                PodState::Unready => [false, false, false],
                PodState::Terminating => [false, true, true],
                PodState::Absent | PodState::Failed => continue,
            };
            let families = families_of(self.families).iter();
            want.extend(families.map(|family| (address(number, *family), conditions.map(Some))));
        }
        let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
        let mut got: Vec<(String, [Option<bool>; 3])> = endpoints
            .flat_map(|endpoint| {
                let conditions = &endpoint.conditions;
                let all = [conditions.ready, conditions.serving, conditions.terminating];
                endpoint.addresses.iter().map(move |address| (address.to_string(), all))
            })
            .collect();
        want.sort_unstable();
        got.sort_unstable();
        if want != got {
            return Err(Broken { law: LISTED, detail: format!("{got:?} and not {want:?}") });
        }
        // As upstream, a plan splits no slice that was over the limit before.
        let limit = LIMITS[usize::from(self.limit == Limit::Hundred)];
        let is_too_large = |slice: &&Arc<EndpointSlice>| {
            let before = before.iter().find(|it| it.metadata.name == slice.metadata.name);
            slice.endpoints.len() > before.map_or(limit, |before| before.endpoints.len().max(limit))
        };
        if let Some(slice) = slices.iter().find(is_too_large) {
            return Err(Broken { law: WITHIN_LIMIT, detail: slice.metadata.name.to_string() });
        }
        let is_edited = |slice: &&Arc<EndpointSlice>| {
            !slice.is_owned_by(self.service())
                || slice.metadata.labels.contains_key(LABEL_HEADLESS)
                || slice.endpoints.iter().any(|endpoint| endpoint.hints.is_some())
        };
        match slices.iter().find(is_edited) {
            Some(slice) => Err(Broken { law: MARKED, detail: slice.metadata.name.to_string() }),
            None => Ok(()),
        }
    }
}

/// Returns the slices after each write of a plan, in its order.
fn states(before: &Slices, plan: &Plan) -> Vec<Slices> {
    let mut states = Vec::new();
    let mut slices = before.clone();
    for sub_plan in &plan.sub_plans {
        let Writes { create, update, delete } = &sub_plan.writes;
        for object in create {
            let mut created = object.clone();
            let number = states.len();
            created.metadata.name = format!("{}new{number}", created.metadata.generate_name).into();
            created.metadata.uid = format!("new{number}").into();
            created.metadata.resource_version = ResourceVersion(1);
            slices.push(Arc::new(created));
            states.push(slices.clone());
        }
        for object in update {
            for slice in slices.iter_mut().filter(|it| it.metadata.name == object.metadata.name) {
                let mut updated = object.clone();
                updated.metadata.resource_version = ResourceVersion(slice.metadata.resource_version.0 + 1);
                *slice = Arc::new(updated);
            }
            states.push(slices.clone());
        }
        for object in delete {
            slices.retain(|slice| slice.metadata.name != object.metadata.name);
            states.push(slices.clone());
        }
    }
    states
}
