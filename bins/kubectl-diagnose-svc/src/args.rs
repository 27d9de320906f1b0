//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use kube_endpoint_core_model::{LabelSelector, ObjectKey};
use kube_endpoint_explain::{Code, Severity};
use kube_endpoint_explain_reader::referrer_kind;

use crate::config_flags::ConfigFlags;
use crate::place::FileFlags;
use crate::ui::UiArgs;

/// Explains why a Service has the endpoints that it has. Works on any cluster, whichever
/// controllers run there, and only reads, except for `cleanup --yes`.
#[derive(Debug, Parser)]
#[command(name = "kubectl-diagnose-svc", bin_name = "kubectl diagnose-svc", version)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

/// Flags of all commands.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Output format
    #[arg(long, short, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,
    /// When to print colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub(crate) color: When,
    /// Explain what Kubernetes' own controllers write, where this project's behave differently
    #[arg(long, global = true, value_enum, value_name = "PROFILE")]
    pub(crate) compatibility: Option<Compatibility>,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Explain a Service, a pod, an Ingress, a route, a Gateway, a workload, or a code
    Explain {
        /// SERVICE or KIND/NAME, such as pod/NAME, ingress/NAME, httproute/NAME, gateway/NAME or
        /// deployment/NAME; KIND, if NAME follows; or a code, such as EP012
        #[arg(value_name = "SERVICE|KIND/NAME|CODE")]
        subject: String,
        /// Name, after a kind
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// A pod that connects to the Service: look at the NetworkPolicies about it
        #[arg(long, value_name = "NAMESPACE/POD", value_parser = pod_of)]
        from: Option<ObjectKey>,
        /// At most 8 KiB about a Service, whatever its size: for programs that read no more; with
        /// -o json or yaml
        #[arg(long)]
        brief: bool,
        #[command(flatten)]
        files: FileFlags,
    },
    /// Print what the controllers would write for the objects of files; exit code 2: an object
    /// would be refused, or nothing is rendered
    Render {
        /// Files or folders of manifests or of `kubectl get -o yaml|json`; `-` is standard input
        #[arg(long, short, required = true, num_args = 1.., value_name = "FILE")]
        filename: Vec<PathBuf>,
    },
    /// Print what the controllers would change; exit code 0: nothing, 1: something, 2: error
    Diff {
        #[command(flatten)]
        scope: Scope,
        #[command(flatten)]
        files: FileFlags,
    },
    /// Print every Service with a problem, the worst first; exit code 0: none, 1: some, 2: error,
    /// or some objects could not be read
    Lint {
        #[command(flatten)]
        scope: Scope,
        #[command(flatten)]
        files: FileFlags,
        /// Code to leave out, such as EP012 or port-name-not-found; may be repeated
        #[arg(long, value_name = "CODE", value_delimiter = ',')]
        ignore: Vec<Code>,
        /// Include what needs no action
        #[arg(long)]
        info: bool,
        /// The least severity that makes the exit code 1
        #[arg(long, value_enum, default_value_t = FailOn::Warning, value_name = "SEVERITY")]
        fail_on: FailOn,
        /// Exit code 2 also if only nodes could not be read, or the files do not have all kinds
        #[arg(long)]
        strict: bool,
    },
    /// Show all Services live: readiness, slices, writes, and how long a change takes until it is
    /// written
    Top {
        #[command(flatten)]
        scope: Scope,
    },
    /// Print orphaned EndpointSlices and stale Endpoints, and delete them with --yes; exit code 0:
    /// none remain, 1: some, 2: error
    ///
    /// Only objects that a controller made, and whose Service or owner does not exist any more, or
    /// whose Service has no selector any more and is served by others. It keeps what somebody else
    /// wrote, whatever the labels say.
    Cleanup {
        #[command(flatten)]
        scope: Scope,
        /// Delete them
        #[arg(long)]
        yes: bool,
    },
    /// Print who writes EndpointSlices and Endpoints, whether kube-controller-manager's loops are
    /// off, and what would change; exit code 0: fine, 1: something to do, 2: not all is known
    Doctor(WholeCluster),
    /// Print who still reads v1 Endpoints, by audit logs and metrics, and what could not be seen;
    /// exit code 0: no reader was seen, 1: a namespace has to keep its Endpoints, 2: not known, or
    /// error
    ///
    /// Only reads. Per namespace the verdict is refuse, unknown or no reader seen.
    Retire(Retire),
    /// Serve a page about all Services on loopback, with your credentials; the manager need not run
    ///
    /// Only GET of the page's paths, only for the browser that opens the printed address.
    Ui(UiArgs),
    /// Print a script that completes commands, flags and names
    ///
    /// kubectl: `kubectl diagnose-svc completion kubectl` prints the program
    /// kubectl_complete-diagnose_svc. Put it into a folder of $PATH and make it executable; kubectl
    /// 1.26 and later calls it.
    Completion {
        /// The program that completes
        #[arg(value_enum)]
        shell: Shell,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// The shell's own completion of kubectl calls it
    Kubectl,
    Bash,
    Zsh,
    Fish,
    Powershell,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Scope {
    /// All namespaces
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
    /// Only Services with these labels, and objects without a Service by their own; as for kubectl,
    /// such as app=web,tier!=cache or 'app in (web,api),!legacy'
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    pub(crate) selector: Option<LabelSelector>,
}

impl Scope {
    /// Returns the namespace of the command: `namespace`, or `None` for all.
    pub(crate) fn namespace<'n>(&self, namespace: &'n str) -> Option<&'n str> {
        (!self.all_namespaces).then_some(namespace)
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Retire {
    /// All namespaces
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
    /// Audit log of an API server, with one event as JSON a line; `-` is standard input; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Vec<PathBuf>,
    /// Answer of an API server to /metrics; one for each API server [default: ask the server of the
    /// kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Vec<PathBuf>,
}

/// The least severity of a problem that makes lint fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    Error,
    Warning,
    Never,
}

impl FailOn {
    pub(crate) fn severity(self) -> Option<Severity> {
        match self {
            Self::Error => Some(Severity::Error),
            Self::Warning => Some(Severity::Warning),
            Self::Never => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Wide,
    Json,
    Yaml,
    /// SARIF 2.1.0, for lint
    Sarif,
}

/// The profiles of the manager's flag of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compatibility {
    Upstream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

/// A command without a namespace. Hides the flag of all commands.
#[derive(Debug, Args)]
pub(crate) struct WholeCluster {
    #[arg(id = "namespace", long = "namespace", short = 'n', hide = true, value_name = "NAME")]
    hidden: Option<String>,
    #[command(flatten)]
    pub(crate) files: FileFlags,
}

/// Reads the pod of a client.
fn pod_of(text: &str) -> Result<ObjectKey, String> {
    match text.split('/').collect::<Vec<_>>()[..] {
        [namespace, pod] if !namespace.is_empty() && !pod.is_empty() => Ok(ObjectKey::new(namespace, pod)),
        _ => Err("write the namespace and the name of a pod, as in shop/frontend-1".to_owned()),
    }
}

/// A kind of object that `explain` explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Service,
    Pod,
    /// An object that sends clients to Services.
    Referrer(&'static str),
}

impl Kind {
    /// Reads a kind as kubectl does.
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "service" | "services" | "svc" => Some(Self::Service),
            "pod" | "pods" | "po" => Some(Self::Pod),
            word => referrer_kind(word).map(Self::Referrer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn the_help_of_doctor_offers_no_namespace_and_its_command_line_takes_one_to_refuse_it() {
        for words in [["-n", "shop", "doctor"], ["doctor", "-n", "shop"], ["doctor", "--namespace", "shop"]] {
            let words = [&["kubectl-diagnose-svc"], &words[..]].concat();
            let parsed = CommandLine::try_parse_from(&words).unwrap();
            assert_eq!(parsed.global.config.namespace.as_deref(), Some("shop"), "{words:?}");
        }
        let help = |command: &str| {
            CommandLine::try_parse_from(["kubectl-diagnose-svc", command, "--help"]).unwrap_err().to_string()
        };
        assert!(help("lint").contains("--namespace"));
        let help = help("doctor");
        assert!(help.contains("--context") && !help.contains("--namespace"), "{help}");
    }

    #[test]
    fn codes_are_read_by_identifier_and_name() {
        let words = ["kubectl-diagnose-svc", "lint", "-A", "--ignore", "EP012,not-ready"];
        let Command::Lint { ignore, scope, .. } = CommandLine::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        assert_eq!(ignore, [Code::PortNameNotFound, Code::NotReady]);
        assert!(scope.all_namespaces);
        let words = ["kubectl-diagnose-svc", "lint", "--ignore", "EP999"];
        let error = CommandLine::try_parse_from(words).unwrap_err().to_string();
        assert!(error.contains(r#""EP999" is no code"#), "{error}");
    }

    #[test]
    fn a_client_is_a_pod_with_its_namespace() {
        let parse = |from: &str| {
            CommandLine::try_parse_from(["kubectl-diagnose-svc", "explain", "web", "--from", from])
        };
        let Command::Explain { from, .. } = parse("shop/front-1").unwrap().command else {
            panic!("another command");
        };
        assert_eq!(from, Some(ObjectKey::new("shop", "front-1")));
        for wrong in ["front-1", "/front-1", "shop/", "shop/pod/front-1"] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains("write the namespace and the name of a pod"), "{error}");
        }
    }

    #[test]
    fn selectors_are_those_of_kubectl() {
        let scope = |command: &str, selector: &str| {
            let parsed =
                CommandLine::try_parse_from(["kubectl-diagnose-svc", command, "-l", selector])?.command;
            match parsed {
                Command::Lint { scope, .. }
                | Command::Diff { scope, .. }
                | Command::Cleanup { scope, .. } => Ok::<Scope, clap::Error>(scope),
                Command::Top { scope } => Ok(scope),
                other => panic!("{other:?}"),
            }
        };
        for command in ["lint", "diff", "cleanup", "top"] {
            let scope = scope(command, "app in (web, api),!legacy").unwrap();
            assert_eq!(scope.selector.unwrap().to_string(), "app in (api,web),!legacy", "{command}");
        }
        let error = scope("lint", "app web").unwrap_err().to_string();
        assert!(error.contains("\"app web\" is no requirement; write `key=value`"), "{error}");
    }
}
