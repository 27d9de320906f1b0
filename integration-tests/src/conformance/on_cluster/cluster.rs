//! The cluster of a kubeconfig, after checks that a run can begin.

use std::path::Path;
use std::time::Duration;

use futures::future::try_join_all;
use jiff::Timestamp;
use kube_endpoint_controllers::{ApiClient, connect};
use serde_json::{Value, json};

use super::{ConformanceError, LABEL, Unfit};
use crate::conformance::report::Server;
use crate::conformance::{
    Api, Controllers, Kind, Op, Parts, Scenario, recordings, start_controllers_with, upstream_settings,
};

/// How long the server may take for its first answer.
const TO_ANSWER: Duration = Duration::from_secs(10);

/// The requests of a run, as resource, subresource and verbs.
const NEEDED: [(&str, &str, &str); 9] = [
    ("namespaces", "", "create delete list"),
    ("nodes", "", "create delete list patch watch"),
    ("nodes/status", "", "patch"),
    ("pods", "", "create delete list patch watch"),
    ("pods/status", "", "patch"),
    ("services", "", "create delete list patch watch"),
    ("endpoints", "", "create delete list patch update watch"),
    ("endpointslices", "discovery.k8s.io", "create delete list patch update watch"),
    ("events", "", "create list patch"),
];

/// A cluster on which a run may play.
pub(super) struct Cluster {
    client: ApiClient,
    pub(super) server: Server,
    /// How many nodes it has besides those of recordings.
    pub(super) own_nodes: usize,
    /// Distinguishes the namespaces of this run from those of the last one, which may not have
    /// ended.
    id: i64,
}

/// Returns the time.
#[expect(clippy::disallowed_methods, reason = "a run on a real server is in real time")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

impl Cluster {
    /// Connects, and checks that the server answers, that the user may do all that a run does, and
    /// that nothing is in the way.
    pub(super) async fn connect(kubeconfig: &Path) -> Result<Self, Unfit> {
        let client = connect(Some(kubeconfig), None).await?;
        let api = Api::new(client.kube().clone(), "default");
        let no_answer = |why: String| Unfit::NoAnswer { address: client.url_of(""), why };
        let version = match tokio::time::timeout(TO_ANSWER, api.get("/version")).await {
            Ok(Ok(version)) => version,
            Ok(Err(error)) => return Err(no_answer(error.to_string())),
            Err(_) => return Err(no_answer(format!("no answer in {TO_ANSWER:?}"))),
        };
        let text = |field: &str| version[field].as_str().unwrap_or("unknown").to_owned();
        let server = Server { version: text("gitVersion"), platform: text("platform") };
        check_permissions(&api).await?;
        check_leftovers(&api).await?;
        let nodes = api.list(Kind::Node).await?;
        check_nodes(&nodes)?;
        Ok(Self { client, server, own_nodes: nodes.len(), id: now().as_millisecond() & 0xf_ffff })
    }

    /// Returns the address of the server.
    pub(super) fn address(&self) -> String {
        self.client.url_of("")
    }

    /// Returns a client whose requests go to `namespace`.
    pub(super) fn api(&self, namespace: &str) -> Api {
        Api::new(self.client.kube().clone(), namespace).with_label(LABEL)
    }

    /// Returns the name of a namespace of this run.
    pub(super) fn namespace(&self, name: &str) -> String {
        format!("endpoint-conformance-{name}-{:05x}", self.id)
    }

    /// Starts this project's controllers, for these namespaces alone.
    pub(super) async fn start_ours(&self, namespaces: Vec<String>) -> Result<Controllers, ConformanceError> {
        let mut settings = upstream_settings(Parts::ALL);
        settings.namespaces = namespaces;
        start_controllers_with(self.client.clone(), &settings, now()).await
    }

    /// Returns what can be compared. Hints depend on all nodes, and the recordings know only
    /// their own.
    pub(super) fn parts(&self) -> Parts {
        Parts { hints: self.own_nodes == 0, ..Parts::ALL }
    }
}

async fn check_permissions(api: &Api) -> Result<(), Unfit> {
    let asked = NEEDED
        .into_iter()
        .flat_map(|(resource, group, verbs)| verbs.split(' ').map(move |verb| (verb, resource, group)));
    let answers = try_join_all(asked.map(async |(verb, resource, group)| {
        let (name, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({"verb": verb, "group": group, "resource": name, "subresource": subresource});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = api.post(path, &review).await?;
        let is_allowed = answer["status"]["allowed"] == true;
        Ok::<_, ConformanceError>((!is_allowed).then(|| format!("{verb} {resource}")))
    }));
    let missing: Vec<String> = answers.await?.into_iter().flatten().collect();
    if missing.is_empty() { Ok(()) } else { Err(Unfit::Forbidden(missing)) }
}

async fn check_leftovers(api: &Api) -> Result<(), Unfit> {
    let mut left = Vec::new();
    for kind in [Kind::Namespace, Kind::Node] {
        let objects = api.labelled(kind, LABEL).await?;
        let stays = |object: &&Value| object["metadata"]["deletionTimestamp"].is_null();
        left.extend(objects.iter().filter(stays).map(|it| format!("{kind:?} {}", name_of(it))));
    }
    if left.is_empty() { Ok(()) } else { Err(Unfit::Leftovers(left)) }
}

fn check_nodes(nodes: &[Value]) -> Result<(), Unfit> {
    let mut names = Vec::new();
    for step in recordings()?.iter().map(|file| Scenario::read(file)).collect::<Result<Vec<_>, _>>()? {
        for repeated in step.steps.iter().flat_map(|step| &step.ops) {
            names.extend(repeated.expand()?.iter().filter_map(Op::created_node).map(str::to_owned));
        }
    }
    let taken =
        nodes.iter().map(name_of).find(|name| names.iter().any(|of_recordings| of_recordings == name));
    taken.map_or(Ok(()), |name| Err(Unfit::NodeTaken(name.to_owned())))
}

/// Returns the name of an object.
pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
