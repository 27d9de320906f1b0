//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::measure::Plan;
use crate::workload::Workload;

/// Measures endpoint controllers as whole processes, beside one another if wanted.
///
/// It fills an API server with Services, pods and nodes, starts a controller as a process, waits
/// until everything is published (cold start), changes the readiness of random pods at a fixed rate
/// (churn), and prints CPU, memory, writes and latencies.
#[derive(Debug, Parser)]
#[command(
    name = "scale",
    max_term_width = 110,
    args_conflicts_with_subcommands = true,
    args_override_self = true
)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Remove all objects that were made with a prefix
    Clean(CleanOptions),
    /// Run the embedded API server until standard input is closed
    #[command(hide = true)]
    Serve {
        /// Where to write the kubeconfig
        kubeconfig: PathBuf,
        /// Serve TLS
        #[arg(long)]
        tls: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Measure on the API server of this kubeconfig instead of on the embedded one
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The process of that API server, so that its CPU is measured
    #[arg(long, value_name = "PID", requires = "kubeconfig")]
    pub(crate) server_pid: Option<u32>,
    /// The embedded API server uses TLS, so that clients choose HTTP/2, as with a real one
    #[arg(long, conflicts_with = "kubeconfig")]
    pub(crate) tls: bool,
    /// The controller to measure; {kubeconfig} becomes the path of a kubeconfig [default:
    /// kube-endpoint-manager beside this program]
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// A second controller to measure on the same work, in turn
    #[arg(long, value_name = "COMMAND")]
    pub(crate) against: Option<String>,
    /// How often each controller is measured; figures are medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Sizes to start from; other flags change them
    #[arg(long, value_enum)]
    pub(crate) preset: Option<Preset>,
    /// Services [default: 100]
    #[arg(long, value_name = "N")]
    pub(crate) services: Option<usize>,
    /// Pods, spread over the Services [default: 500]
    #[arg(long, value_name = "N")]
    pub(crate) pods: Option<usize>,
    /// One more Service over so many of the pods [default: 100]
    #[arg(long, value_name = "N")]
    pub(crate) big: Option<usize>,
    /// Nodes [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<usize>,
    /// Namespaces [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) namespaces: Option<usize>,
    /// Changes of readiness [default: 200]
    #[arg(long, value_name = "N")]
    pub(crate) flips: Option<usize>,
    /// Changes of readiness a second [default: 40]
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// The first part of the names of all objects that are made
    #[arg(long, default_value = "scale", value_parser = prefix)]
    pub(crate) prefix: String,
    /// Seconds without a write after which a cold start counts as finished
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = rate)]
    pub(crate) settle: f64,
    /// Seconds that a cold start may take
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    pub(crate) patience: u64,
    /// The seed of the choice of pods
    #[arg(long, default_value_t = 7)]
    pub(crate) seed: u64,
    /// Write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Sizes with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// 1,000 Services, 5,000 pods, one more Service over 2,000 of them, 50 nodes; 1,000 changes, 40
    /// a second
    A,
    /// 50 namespaces, 10,000 Services, 100,000 pods, 2,000 nodes; 2,000 changes, 50 a second
    C,
    /// Kubernetes' limits: 50 namespaces, 10,000 Services, 150,000 pods, 5,000 nodes; 6,000
    /// changes, 100 a second
    Limits,
}

struct Sizes {
    services: usize,
    pods: usize,
    big: usize,
    nodes: usize,
    namespaces: usize,
    flips: usize,
    rate: f64,
}

impl Sizes {
    const DEFAULT: Self =
        Self { services: 100, pods: 500, big: 100, nodes: 10, namespaces: 1, flips: 200, rate: 40.0 };

    const fn of(preset: Preset) -> Self {
        match preset {
            Preset::A => Self {
                services: 1_000,
                pods: 5_000,
                big: 2_000,
                nodes: 50,
                namespaces: 1,
                flips: 1_000,
                rate: 40.0,
            },
            Preset::C => Self {
                services: 10_000,
                pods: 100_000,
                big: 0,
                nodes: 2_000,
                namespaces: 50,
                flips: 2_000,
                rate: 50.0,
            },
            Preset::Limits => Self {
                services: 10_000,
                pods: 150_000,
                big: 0,
                nodes: 5_000,
                namespaces: 50,
                flips: 6_000,
                rate: 100.0,
            },
        }
    }
}

impl RunOptions {
    fn sizes(&self) -> Sizes {
        self.preset.map_or(Sizes::DEFAULT, Sizes::of)
    }

    /// Returns the sizes of the cluster.
    pub(crate) fn workload(&self) -> Result<Workload, String> {
        let sizes = self.sizes();
        let workload = Workload {
            services: self.services.unwrap_or(sizes.services),
            pods: self.pods.unwrap_or(sizes.pods),
            big: self.big.unwrap_or(sizes.big),
            nodes: self.nodes.unwrap_or(sizes.nodes),
            namespaces: self.namespaces.unwrap_or(sizes.namespaces),
        };
        workload.check()?;
        Ok(workload)
    }

    /// Returns the parameters of the measurement.
    pub(crate) fn plan(&self) -> Plan {
        let sizes = self.sizes();
        Plan {
            flips: self.flips.unwrap_or(sizes.flips),
            rate: self.rate.unwrap_or(sizes.rate),
            settle: Duration::from_secs_f64(self.settle),
            patience: Duration::from_secs(self.patience),
            seed: self.seed,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CleanOptions {
    /// The kubeconfig of the API server
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// The prefix that the objects were made with
    #[arg(long, default_value = "scale", value_parser = prefix)]
    pub(crate) prefix: String,
}

pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 100_000.0 => Ok(rate),
        _ => Err("write a number above 0, at most 100000".into()),
    }
}

pub(crate) fn prefix(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = text.bytes().all(good)
        && text.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.len() <= 30;
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("write at most 30 lower case letters, digits and hyphens, beginning with a letter".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run(flags: &[&str]) -> RunOptions {
        Options::parse_from(std::iter::once("scale").chain(flags.iter().copied())).run
    }

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn flags_change_presets() {
        let check = |flags: &[&str], want: &str| {
            let options = run(flags);
            let (workload, plan) = (options.workload().unwrap(), options.plan());
            assert_eq!(
                format!("{}; {} at {}", workload.describe(), plan.flips, plan.rate),
                want,
                "{flags:?}"
            );
        };
        check(
            &[],
            "1 namespace, 100 Services, 500 pods, 10 nodes, one more Service over 100 pods of these; 200 at 40",
        );
        check(
            &["--preset=a"],
            "1 namespace, 1,000 Services, 5,000 pods, 50 nodes, one more Service over 2,000 pods of these; 1000 at 40",
        );
        check(&["--preset=c"], "50 namespaces, 10,000 Services, 100,000 pods, 2,000 nodes; 2000 at 50");
        check(
            &["--preset=limits", "--pods=20000", "--flips=7", "--rate=0.5"],
            "50 namespaces, 10,000 Services, 20,000 pods, 5,000 nodes; 7 at 0.5",
        );
    }

    #[test]
    fn bad_values_are_refused_with_a_reason() {
        let check = |flags: &[&str]| {
            let words = std::iter::once("scale").chain(flags.iter().copied());
            let error =
                Options::try_parse_from(words).err().map(|error| error.to_string()).unwrap_or_default();
            error.lines().next().unwrap_or_default().to_owned()
        };
        let errors = [
            check(&["--rate=0"]),
            check(&["--prefix=Scale"]),
            check(&["--rounds=0"]),
            check(&["--server-pid=1"]),
            check(&["--tls", "--kubeconfig=x"]),
            check(&["--preset=b"]),
            run(&["--big=501"]).workload().unwrap_err(),
        ];
        insta::assert_snapshot!(errors.join("\n"));
    }
}
