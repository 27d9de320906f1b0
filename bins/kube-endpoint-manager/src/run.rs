//! One run of the binary, against a cluster or against the embedded API server.

use std::hash::BuildHasher;
use std::time::Duration;

use kube_endpoint_controllers::{
    ApiClient, Clock, CommandLine, ConnectError, IdentityFile, Manager, Options, PageSources, ServeError,
    Settings, Traces, check_retirement, connect, connect_for_lease, warn_of_memory_limit,
};

use crate::signals::{exit_on_second_signal, shutdown_signal};

/// The time limit for sending the last spans.
const TRACES_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason why a run ended without a signal.
pub(crate) enum RunError {
    /// The input is invalid. The program has started nothing.
    InvalidInput(anyhow::Error),
    Failed(anyhow::Error),
}

fn invalid_input(error: impl Into<anyhow::Error>) -> RunError {
    RunError::InvalidInput(error.into())
}

fn failed(error: impl Into<anyhow::Error>) -> RunError {
    RunError::Failed(error.into())
}

/// Makes the error of a system that refuses a thread or a handler.
fn no_signals(error: std::io::Error) -> RunError {
    RunError::Failed(anyhow::anyhow!("cannot wait for signals: {error}"))
}

pub(crate) async fn run(
    command_line: &CommandLine,
    settings: &Settings,
    version: &str,
) -> Result<(), RunError> {
    let mut settings = settings.clone();
    if let Some(election) = &mut settings.leader_election {
        // This does not use --seed: replicas may have the same one.
        let random = || u128::from(random_seed());
        election.set_default_identity(random() << 64 | random());
    }
    let pages = page_sources(command_line, &settings, version).map_err(failed)?;
    // This comes after the installation of the metrics recorder.
    let traces = Traces::start(settings.tracing.as_ref()).map_err(invalid_input)?;
    let ended = Box::pin(run_traced(&command_line.options, &settings, pages, version)).await;
    traces.shut_down(TRACES_TIMEOUT).await;
    ended
}

#[expect(clippy::disallowed_methods, reason = "the binary hands the system's time in")]
async fn run_traced(
    options: &Options,
    settings: &Settings,
    pages: Option<PageSources>,
    version: &str,
) -> Result<(), RunError> {
    let shutdown = shutdown_signal().map_err(no_signals)?;
    let seed = options.controllers.seed.unwrap_or_else(random_seed);
    #[cfg(feature = "embedded")]
    if options.is_embedded() {
        let now = jiff::Timestamp::now();
        return Box::pin(embedded::run(options, settings, pages, version, now, seed, shutdown)).await;
    }
    // The pages have a version of their own.
    let _ = version;
    exit_on_second_signal(None).map_err(no_signals)?;
    let mut shutdown = std::pin::pin!(shutdown);
    let clients = tokio::select! {
        biased;
        // A credential plugin, or a server that does not answer, may take long.
        () = &mut shutdown => return Ok(()),
        clients = async {
            let clients = clients(options, settings).await.map_err(invalid_input)?;
            check_retirement(&clients.controllers, settings).await.map_err(invalid_input)?;
            Ok(clients)
        } => clients?,
    };
    let clock = Clock::reading(jiff::Timestamp::now);
    let mut settings = settings.clone();
    let identity_file = open_identity_file(options, &mut settings);
    let settings = &settings;
    let Clients { controllers, lease, pages: pages_client } = clients;
    let (counting, counted) = (controllers.clone(), settings.clone());
    let mut manager =
        Manager::with_lease_client(controllers, lease, settings, clock, seed).map_err(invalid_input)?;
    if let (Some(pages), Some(client)) = (pages, pages_client) {
        manager.serve(&client, settings, pages, jiff::Timestamp::now).await.map_err(invalid_input)?;
    }
    tracing::info!(controllers = %names(settings), seed, dry_run = settings.dry_run, "starting");
    // Beside the lists, which take longer.
    tokio::spawn(async move { warn_of_memory_limit(&counting, &counted).await });
    let ended = manager.run(shutdown).await;
    if let Some(Err(error)) = identity_file.filter(|_| ended.is_ok()).map(IdentityFile::end_in_order) {
        tracing::warn!(%error, "the next process takes this end for a crash");
    }
    ended.map_err(failed)
}

/// Opens the file of `--leader-elect-identity-file`. It stays locked until the process has ended,
/// when no task can send a request any more.
fn open_identity_file(options: &Options, settings: &mut Settings) -> Option<&'static mut IdentityFile> {
    let path = options.leader_election.leader_elect_identity_file.as_deref()?;
    let file = settings.leader_election.as_mut()?.open_identity_file(path)?;
    Some(Box::leak(Box::new(file)))
}

/// Clients of one API server, each with connections of its own.
struct Clients {
    controllers: ApiClient,
    lease: Option<ApiClient>,
    pages: Option<ApiClient>,
}

async fn clients(options: &Options, settings: &Settings) -> Result<Clients, ConnectError> {
    let (kubeconfig, master) = (options.api_server.kubeconfig.as_deref(), settings.master.as_deref());
    let controllers = connect(kubeconfig, master).await?;
    tracing::info!(server = controllers.url_of("/"), "using API server");
    let lease = match &settings.leader_election {
        Some(election) => Some(connect_for_lease(kubeconfig, master, election).await?),
        None => None,
    };
    let pages = match &settings.serving {
        Some(_) => Some(connect(kubeconfig, master).await?),
        None => None,
    };
    Ok(Clients { controllers, lease, pages })
}

/// Returns the sources of the served pages, if the program serves any. From here on the process
/// records metrics.
fn page_sources(
    command_line: &CommandLine,
    settings: &Settings,
    version: &str,
) -> Result<Option<PageSources>, ServeError> {
    let install = || PageSources::install(version, command_line.flags_in_use(settings));
    settings.serving.is_some().then(install).transpose()
}

/// Returns a random number, the default of `--seed`. The standard library seeds the keys of its
/// hash maps from the operating system.
#[expect(clippy::disallowed_types, reason = "the binary hands the seed in")]
fn random_seed() -> u64 {
    std::hash::RandomState::new().hash_one(std::process::id())
}

fn names(settings: &Settings) -> String {
    let running = settings.controllers.iter().filter(|name| settings.runs(**name));
    let names: Vec<&str> = running.map(|name| name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(feature = "embedded")]
mod embedded {
    //! `--embedded`: prints how to reach the API server, then the writes of the controllers.

    use std::time::Duration;

    use anyhow::anyhow;
    use jiff::Timestamp;
    use kube_endpoint_controllers::embedded::Embedded;
    use kube_endpoint_controllers::options::EmbeddedSample;
    use kube_endpoint_controllers::{
        LinePrinter, Manager, Options, PageSources, Settings, check_retirement, print_writes,
    };

    use super::{RunError, failed, invalid_input, names, no_signals};
    use crate::signals::exit_on_second_signal;

    /// The time limit for the exit after a signal.
    const EXIT_TIMEOUT: Duration = Duration::from_secs(9);

    /// The time limit for writing the last lines.
    const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "the binary hands the system's time in")]
    pub(super) async fn run(
        options: &Options,
        settings: &Settings,
        pages: Option<PageSources>,
        version: &str,
        now: Timestamp,
        seed: u64,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), RunError> {
        exit_on_second_signal(Some(EXIT_TIMEOUT)).map_err(no_signals)?;
        // Other controllers may bring a kubelet of their own.
        let plays_kubelet = options.embedded.embedded_kubelet.unwrap_or(!settings.controllers.is_empty());
        let embedded = Embedded::start(&options.embedded, plays_kubelet, now, seed).await;
        let embedded = embedded.map_err(invalid_input)?;
        let client = embedded.client();
        check_retirement(&client, settings).await.map_err(invalid_input)?;
        let mut manager = Manager::new(client.clone(), settings, now, seed).map_err(invalid_input)?;
        if let Some(pages) = pages {
            manager.serve(&client, settings, pages, Timestamp::now).await.map_err(invalid_input)?;
        }
        #[cfg(feature = "ui")]
        let page = {
            let address = options.embedded.embedded_ui_address;
            let url = manager.serve_on_loopback(address, settings, version, Timestamp::now).await;
            url.map_err(invalid_input)?
        };
        #[cfg(not(feature = "ui"))]
        let page: Option<String> = {
            let _ = version;
            None
        };
        // This is last, because until here an input can still turn out to be invalid.
        embedded.write_kubeconfig(page.as_deref()).await.map_err(invalid_input)?;
        let kubeconfig = embedded.kubeconfig.display();
        let printer = LinePrinter::new(std::io::stdout());
        let printer =
            printer.map_err(|error| failed(anyhow!("cannot start a thread for the output: {error}")))?;
        printer.print(format!(
            "An API server listens on {}, with {} loaded. Controllers: {}.\n\
             Talk to it:   kubectl --kubeconfig {kubeconfig} get {}services,endpointslices -A\n\
             Change it:    kubectl --kubeconfig {kubeconfig} {}\n\
             {}\
             Stop it:      Ctrl-C\n",
            embedded.listener.url(),
            match embedded.loaded {
                1 => "1 object".to_owned(),
                many => format!("{many} objects"),
            },
            names(settings),
            if options.embedded.sample() == Some(EmbeddedSample::Selectors) { "epsel," } else { "" },
            match options.embedded.sample() {
                // This moves a pod from one Service to another, which changes the slices of both.
                Some(EmbeddedSample::Shop) => "-n shop label pod db-0 app=nobody --overwrite",
                // The EndpointSelector of the Service `web` leaves canaries out.
                Some(EmbeddedSample::Selectors) => "-n shop label pod web-3 track=canary",
                None => "apply -f FILE",
            },
            page.map(|page| format!("Watch it:     {page}\n")).unwrap_or_default(),
        ));
        let writes = printer.clone();
        print_writes(&manager.handle(), move |line| writes.print(line));
        let ended = manager.run(shutdown).await.map_err(failed);
        embedded.listener.shutdown().await;
        printer.flush(FLUSH_TIMEOUT).await;
        ended
    }
}
