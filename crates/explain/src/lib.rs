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
//! let topology = objects.topology(0.0);
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
//! - [`explain()`] explains one Service, [`explain_pod`] one pod. Each possible fault has a stable
//!   [`Code`], a message and a [`Remedy`].
//! - [`lint()`] lists the faults of all Services, [`diff()`] the changes that the controllers would
//!   make, and [`render()`] the objects that they would write if there were none yet.
//! - [`consumers`] has models of kube-proxy and CoreDNS, from which explanations know who receives
//!   traffic.
//! - [`doctor`] tells who writes the outputs of a cluster, and what would change.
//! - [`figures`] counts writes, readiness and fill while a cluster runs.
//! - [`leftovers`] tells which slices and Endpoints belong to Services that do not exist any more.
//! - [`retire`] tells who still reads v1 Endpoints, and converts those that a user wrote into
//!   EndpointSlices.
//! - [`text`] prints all of these for a terminal. All of them serialise, too.

mod across;
pub mod age;
mod cluster;
mod code;
pub mod consumers;
mod defaults;
pub mod details;
pub mod diff;
pub mod doctor;
mod explain;
pub mod explanation;
mod fault;
mod faults;
pub mod figures;
pub mod finding;
mod hand_over;
mod hint;
mod leader;
pub mod leftovers;
pub mod lint;
mod near;
mod objects;
mod planned;
mod pod;
mod pod_reason;
mod rank;
mod refused;
mod rehearsal;
mod remedy;
pub mod render;
pub mod retire;
mod sarif;
mod selection;
pub mod text;
mod traffic;
mod unviewed;

pub use across::Elsewhere;
pub use cluster::{SomeNodes, StaleLease, Unserved, Waiting};
pub use code::{Code, Severity, UnknownCode};
pub use diff::{Change, Diff, DiffError, FieldChange, Verb, diff};
pub use explain::{NearService, NotSelecting, PodServices, ServiceSays, explain, explain_pod};
pub use explanation::{Explanation, ServiceVerdict, Status};
pub use fault::{
    Behind, Fault, Governing, LocalPolicy, NoName, NoPods, NotDeclared, OfContainer, ServiceIp, UnusedSlice,
    Withheld,
};
pub use finding::Problem;
pub use hand_over::HandOver;
pub use hint::HintReason;
pub use leader::{Leads, LeadsBy, NobodyLeads, NotChosen};
pub use lint::{FailOn, Lint, LintOptions, LintReport, lint};
pub use near::{
    NearIndex, NearMatch, NearMatches, OtherKey, OtherKeys, near_matches, near_pods, nearest_names,
    other_keys_of,
};
pub use objects::{ObjectError, Objects, needs_all_nodes};
pub use planned::{Known, Options, Planned};
pub use pod::{Place, PodExplanation, Publication};
pub use pod_reason::{
    DeadPort, Disruption, FailedContainer, NamedPort, PodReason, SilentNode, Starting, UndeclaredPort,
    UnreadyContainer,
};
pub use rank::{Rank, TrafficLost};
pub use refused::{FAILED_WRITES, Refusal, Refused};
pub use rehearsal::{Moving, Rehearsal};
pub use remedy::{PatchForm, Person, Remedy, Step};
pub use render::{Rendered, render};
pub use selection::{Attachment, NotSelected, SelectedBy, names_selector};
pub use traffic::{Open, ServedBy};
pub use unviewed::MistypedKey;
