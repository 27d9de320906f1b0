//! What is in `deploy/` and `docs/operations.md`, compared with the program: permissions, flags, probes, metrics.
#![allow(clippy::unwrap_used)]

mod alerts;
mod cluster_role;
mod dashboard;
mod evaluate;
mod image;
mod manifests;
mod metrics_page;
mod objects;
mod operations;
mod pods;
mod profile;
mod queries;
mod rbac;
mod replicas;
mod turned_off;
mod webhook;
