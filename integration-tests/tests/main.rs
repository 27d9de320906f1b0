//! The tests of this crate, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance;
mod default_profile;
mod diff_of_recordings;
mod docs;
mod echoes;
mod gates;
mod kube_runtime_controller;
mod leader_examples;
mod otlp;
mod outages;
mod own_controller;
mod parts;
mod recorded_cluster;
mod remedies;
mod source_rules;
mod status_page;
mod tracing;
mod webhooks;
