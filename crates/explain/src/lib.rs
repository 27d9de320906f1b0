//! Explains why a Service publishes a pod or not, finds faults of Services, and shows what the
//! controllers would change: for tools and tests. No I/O.
//!
//! ```
//! use kube_endpoint_core_model::ObjectKey;
//! use kube_endpoint_explain::{Code, Objects, Options, explain};
//! use serde_json::json;
//!
//! let objects = Objects::read([
//!     json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
//!     json!({"kind": "Pod", "metadata": {"name": "web-1", "labels": {"app": "wbe"}}}),
//! ])?;
//! let topology = objects.topology();
//! let now = "2026-01-01T00:00:00Z".parse()?;
//! let web = ObjectKey::new("default", "web");
//! let explanation = explain(&objects, &web, &topology, now, None, &Options::default()).expect("the Service is there");
//! assert_eq!(explanation.verdict.code, Code::PodsNearlyMatch);
//! assert!(explanation.to_do[0].remedy.sentence.starts_with("Start pods with app=web if they are missing"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything here is a function of [`Objects`]: the objects of a cluster, or of files. The
//! functions call the plans of the three controllers, so that they explain exactly what the
//! controllers write.
//!
//! The crate has five floors, and each imports only those before it: `facts` (what was read),
//! `models` (what controllers, kube-proxy and DNS make of it), `findings` (one module each),
//! `answers` (explanation, lint, diff, doctor, as data), [`text`].
//!
//! - [`explain()`] explains one Service, [`explain_pod`] one pod. Each possible fault has a stable
//!   [`Code`], a message and a [`Remedy`].
//! - [`lint()`] lists the faults of all Services, [`diff()`] the changes that the controllers would
//!   make, and [`render()`] the objects that they would write if there were none yet.
//! - [`consumers`] has models of kube-proxy and CoreDNS, from which explanations know who receives
//!   traffic.
//! - [`doctor`] tells who writes the outputs of a cluster, and what would change.
//! - [`figures`] counts writes, readiness and fill while a cluster runs.
//! - [`leftovers`] tells which slices and Endpoints belong to Services that do not exist any more.
//! - [`retire`] tells who still reads v1 Endpoints.
//! - [`text`] prints all of these for a terminal. All of them serialise, too.

// The tests of findings share a file with those of the crate.
#[cfg(test)]
extern crate self as kube_endpoint_explain;

/// The version of the documents that `kubectl diagnose-svc` prints as JSON and YAML.
/// `docs/kubectl-plugin.md` describes them, and `docs/explain.schema.json` is their JSON Schema.
pub const API_VERSION: &str = "explain.kube-endpoint-manager.github.io/v1alpha1";

mod answers;
mod facts;
mod findings;
mod models;
pub mod text;

pub use answers::backends::{Advised, Backend, BackendsExplanation, explain_backends};
pub use answers::brief::{BRIEF_BYTES, Brief, BriefCause, BriefPods, Omitted};
pub use answers::diff::{Change, Diff, DiffError, FieldChange, Verb, diff};
pub use answers::explain::{NamedBy, PodServices, ServiceSays, explain, explain_pod};
pub use answers::explanation::{Explanation, ServiceVerdict, Status};
pub use answers::from_pod::FromPod;
pub use answers::history::LastChange;
pub use answers::lint::{FailOn, Lint, LintOptions, LintReport, lint};
pub use answers::near_services::{NearService, NotSelecting, ServicesOf, services_of};
pub use answers::render::{Rendered, render};
pub use answers::{diff, doctor, explanation, figures, lint, render, retire};
pub use facts::across::Elsewhere;
pub use facts::extent::{Extent, Extents, FileContents};
pub use facts::objects::{ObjectError, Objects, needs_all_nodes};
pub use facts::options::{Known, Options};
pub use facts::raw::{MistypedKey, PodOwner};
pub use facts::remedy::{PatchForm, Person, Remedy, Step};
pub use facts::workload::{Idle, IdleWorkload, WORKLOADS, maker_of};
pub use facts::{age, details, references};
pub use findings::code::{CodeExplanation, Severity, UnknownCode};
pub use findings::evidence::{Evidence, EvidenceObject};
pub use findings::finding::Problem;
pub use findings::inputs::Behind;
pub use findings::pod::{Place, PodExplanation, Publication};
pub use findings::pod_reason::{DeadPort, Disruption, NamedPort};
pub use findings::rank::{Rank, TrafficLost};
pub use findings::*;
pub use models::cluster::{Helper, NotReadyPods, SomeNodes, StaleLease, Unserved, Waiting};
pub use models::dead::{DeadEndpoint, WhyDead};
pub use models::hand_over::HandOver;
pub use models::hint::HintReason;
pub use models::leader::{Leads, LeadsBy, NotChosen, Overdue};
pub use models::near::{
    NearIndex, NearMatch, NearMatches, NoPods, OtherKey, OtherKeys, near_matches, near_pods, nearest_names,
    other_keys_of,
};
pub use models::planned::Planned;
pub use models::refused::{FAILED_WRITES, Refusal, Refused};
pub use models::rehearsal::{Moving, Rehearsal};
pub use models::selection::{Attachment, NotSelected, SelectedBy, names_selector};
pub use models::traffic::{ServedBy, UnansweredQuestion};
pub use models::{consumers, leftovers};
