//! The command line of `scale soak`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::options::{prefix, rate};
use crate::workload::Workload;

#[derive(Debug, Args)]
pub(crate) struct SoakOptions {
    /// How long changes and faults go on, such as 24h or 90m
    #[arg(long = "for", value_name = "DURATION", default_value = "24h", value_parser = duration)]
    pub(crate) time: Duration,
    /// The API server of a test cluster [default: the embedded one]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The controller that runs in two replicas; {kubeconfig} becomes the path of a kubeconfig
    /// [default: kube-endpoint-manager beside this program, with --secure-port=0]
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// A command that restarts the API server and ends when that is ready
    #[arg(long, value_name = "COMMAND", requires = "kubeconfig")]
    pub(crate) restart_server: Option<String>,
    /// A command that runs the endpoints controllers of kube-controller-manager; at the end they
    /// must find nothing to write
    #[arg(long, value_name = "COMMAND")]
    pub(crate) upstream: Option<String>,
    /// Services
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) services: usize,
    /// Pods, spread over the Services
    #[arg(long, value_name = "N", default_value_t = 1_500)]
    pub(crate) pods: usize,
    /// Nodes
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) nodes: usize,
    /// Namespaces
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) namespaces: usize,
    /// Changes a second
    #[arg(long, value_name = "N", default_value_t = 8.0, value_parser = rate)]
    pub(crate) rate: f64,
    /// Seconds from the end of a fault to the next one, on average; long faults last up to half of
    /// that
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = rate)]
    pub(crate) fault_every: f64,
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = rate)]
    pub(crate) sample: f64,
    /// Seconds without a write after which everything counts as published
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = rate)]
    pub(crate) settle: f64,
    /// Seconds in which a new process, and then the command of --upstream, must write nothing
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = rate)]
    pub(crate) check: f64,
    /// The first part of the names of all objects that are made; such objects of an earlier run are
    /// removed first
    #[arg(long, default_value = "soak", value_parser = prefix)]
    pub(crate) prefix: String,
    /// The seed of the changes and faults
    #[arg(long, default_value_t = 7)]
    pub(crate) seed: u64,
    /// Where to write soak.jsonl, the logs of the replicas and the plots
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
}

impl SoakOptions {
    /// Returns the sizes of the cluster.
    pub(crate) fn workload(&self) -> Result<Workload, String> {
        let workload = Workload {
            services: self.services,
            services_with_pods: self.services,
            pods: self.pods,
            big: 0,
            own_big: false,
            idle_pods: 0,
            nodes: self.nodes,
            namespaces: self.namespaces,
            unique_labels: false,
        };
        workload.check()?;
        Ok(workload)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|it| Duration::try_from(it).ok());
    parsed.filter(|it| !it.is_zero()).ok_or_else(|| "write a duration such as 24h, 90m or 30s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let check = |text: &str, want: Option<u64>| {
            assert_eq!(duration(text).ok(), want.map(Duration::from_secs), "{text}");
        };
        check("24h", Some(86_400));
        check("90m", Some(5_400));
        check("1h 30m", Some(5_400));
        for wrong in ["10", "0s", "-1h", "soon"] {
            check(wrong, None);
        }
    }
}
