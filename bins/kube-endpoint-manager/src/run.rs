//! One run of the binary, against a cluster or against the embedded API server.

use kube_endpoint_manager_core::{Manager, Options, Settings, connect};

use crate::signals::told_to_stop;

/// Why a run ended by itself.
pub(crate) enum Ended {
    /// What was asked for makes no sense; nothing has been started.
    BadInput(anyhow::Error),
    /// Something that ran has failed.
    Failed(anyhow::Error),
}

fn bad_input(error: impl Into<anyhow::Error>) -> Ended {
    Ended::BadInput(error.into())
}

fn failed(error: impl Into<anyhow::Error>) -> Ended {
    Ended::Failed(error.into())
}

pub(crate) async fn run(options: &Options, settings: &Settings) -> Result<(), Ended> {
    let shutdown = told_to_stop().map_err(failed)?;
    let now = jiff::Timestamp::now();
    #[cfg(feature = "embedded")]
    if options.embedded {
        return embedded::run(options, settings, now, shutdown).await;
    }
    let client = connect(options.kubeconfig.as_deref()).await.map_err(bad_input)?;
    let manager = Manager::new(client, settings, now).map_err(bad_input)?;
    tracing::info!(controllers = %names(settings), "starting");
    manager.run(shutdown).await.map_err(failed)
}

fn names(settings: &Settings) -> String {
    let names: Vec<&str> = settings.controllers.iter().map(|name| name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(feature = "embedded")]
mod embedded {
    //! With an API server of its own: says how to reach it, and then what the controllers write.

    use std::io::Write;

    use jiff::Timestamp;
    use kube_endpoint_manager_core::embedded::Embedded;
    use kube_endpoint_manager_core::narrate::narrate;
    use kube_endpoint_manager_core::{Manager, Options, Settings};

    use super::{Ended, bad_input, failed, names};

    pub(super) async fn run(
        options: &Options,
        settings: &Settings,
        now: Timestamp,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Ended> {
        let embedded = Embedded::start(options, now, settings.seed).await.map_err(bad_input)?;
        let kubeconfig = embedded.kubeconfig.display();
        say(&format!(
            "An API server listens on http://{}, with {} loaded. Controllers: {}.\n\
             Talk to it:   kubectl --kubeconfig {kubeconfig} get services,endpointslices -A\n\
             Change it:    kubectl --kubeconfig {kubeconfig} {}\n\
             Stop it:      Ctrl-C\n",
            embedded.listener.address(),
            match embedded.loaded {
                1 => "1 object".to_owned(),
                many => format!("{many} objects"),
            },
            names(settings),
            // In the sample a Service waits for a pod; taking one from another shows in both.
            match &*options.embedded_load {
                [] if !options.embedded_empty => "-n shop label pod db-0 app=nobody --overwrite",
                _ => "apply -f FILE",
            },
        ));
        let manager = Manager::new(embedded.client(), settings, now).map_err(bad_input)?;
        narrate(manager.cluster(), |line| say(&line));
        let ended = manager.run(shutdown).await.map_err(failed);
        embedded.listener.shutdown().await;
        ended
    }

    /// Prints a line; that nobody reads any more is no reason to stop.
    fn say(line: &str) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
