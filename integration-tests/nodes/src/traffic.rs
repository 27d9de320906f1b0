//! Clients on the nodes, as child processes.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::ask::Request;
use crate::cluster::Cluster;
use crate::serve::PORT;

/// Clients that ask a Service; they end when this is dropped.
pub(crate) struct Traffic {
    clients: Vec<(Child, std::path::PathBuf)>,
}

impl Traffic {
    /// Lets one client on each of `nodes` ask the Service `web`, `rate` times a second together:
    /// its names or its cluster IP, or with `node_port` the port of the other node.
    pub(crate) fn new(
        cluster: &Cluster,
        folder: &Path,
        rate: u32,
        nodes: &[&str],
        node_port: bool,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let service = cluster.get(&["service", "web"])?;
        let to = match service["spec"]["clusterIP"].as_str() {
            Some("None") => names(cluster)?,
            _ if node_port => String::new(),
            address => format!("{}:80", address.unwrap_or_default()),
        };
        let port = &service["spec"]["ports"][0]["nodePort"];
        let rate = (rate as usize / nodes.len()).to_string();
        let client = |node: &str| {
            let from: Vec<String> = (1..=4).map(|it| format!("10.99.{node}.{it}")).collect();
            let file = folder.join(format!("requests-{node}"));
            let program = program.to_string_lossy();
            let other = if node == "1" { 12 } else { 11 };
            let to = if to.is_empty() { format!("10.99.0.{other}:{port}") } else { to.clone() };
            let words = ["on", node, &program, "ask", &to, "--rate", &rate, "--from", &from.join(",")];
            let mut command = cluster.command(&words);
            command.stdin(Stdio::piped()).stdout(File::create(&file)?);
            anyhow::Ok((command.spawn()?, file))
        };
        Ok(Self { clients: nodes.iter().map(|node| client(node)).collect::<anyhow::Result<_>>()? })
    }

    /// Ends the clients, and returns all their requests.
    pub(crate) fn finish(mut self) -> anyhow::Result<Vec<Request>> {
        let mut requests = Vec::new();
        for (mut client, file) in std::mem::take(&mut self.clients) {
            drop(client.stdin.take());
            client.wait()?;
            let text = std::fs::read_to_string(file)?;
            for line in text.lines() {
                requests.push(Request::parse(line)?);
            }
        }
        Ok(requests)
    }
}

/// The names of the headless Service `web` and of each pod of its StatefulSet.
fn names(cluster: &Cluster) -> anyhow::Result<String> {
    let pods = cluster.get(&["statefulset", "web"])?["spec"]["replicas"].as_u64().unwrap_or_default();
    let pods = (0..pods).map(|pod| format!("web-{pod}.web:{PORT}"));
    Ok(pods.chain([format!("web:{PORT}")]).collect::<Vec<_>>().join(","))
}
