//! The tests of this crate, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alarms;
mod around;
mod brief;
mod causes;
mod consumers;
mod diagnosis;
mod doctor;
mod evidence;
mod explanations;
mod fault_manifests;
mod faults;
mod fields;
mod generated;
mod history;
mod json_schema;
mod kubelet;
mod laws;
mod leader;
mod leftovers;
mod other_objects;
mod refused;
mod rehearsal;
mod render;
mod retire;
mod retired;
mod schema;
mod selectors;
mod shop;
mod statuses;
mod traffic;
mod verdicts_page;
mod versions;
