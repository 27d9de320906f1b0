//! Tests the protocol as clients see it, in process under a paused clock and over real sockets.

mod client;
mod client_go;
mod common;
mod delete;
mod faults;
mod gc;
mod kubelet;
mod laws;
mod list;
mod listener;
mod load;
mod namespaces;
mod recorded_answers;
mod recorded_bodies;
mod recorded_kubelet;
mod replicas;
mod restore;
mod tls;
mod unusual_input;
mod watch;
mod write;
