//! `ui`: opens the status page in a browser.
//!
//! If a manager runs in the cluster, the page is the manager's. Browsers send no bearer tokens: a
//! proxy on loopback adds the user's credentials. It reaches the manager at the given address, or
//! through `kubectl port-forward`. The page of `--embedded` needs no proxy.
//!
//! Without a manager, as on clusters whose control plane belongs to a provider, this process serves
//! the page with the user's rights.

mod embedded;
mod overview;
mod proxy;

use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use http::Uri;
use kube_endpoint_api_client::{says_not_there, why_request_failed};
use kube_endpoint_explain::Options;
use kube_endpoint_explain_reader::{Reader, Resource};
use kube_endpoint_serving::{BrowserGuard, BrowserServer, Limits};
use kube_endpoint_status_page::StatusPage;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::args::Global;
use crate::commands::current_time;
use crate::config_flags::ConfigFlags;
use crate::connect::{Connection, client, config, connect};
use crate::output::{print, print_note};
use overview::OfUser;

/// The name of the manager's Deployment.
const NAME: &str = "kube-endpoint-manager";

/// The manager's secure port.
const SECURE_PORT: u16 = 10270;

/// Time that kubectl may take to open the tunnel.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for reading why kubectl opened no tunnel.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// Time after which the program tells the user what it waits for.
const NOTE_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Address of the manager, such as https://10.0.0.1:10270 [default: a tunnel of
    /// `kubectl port-forward`]. --certificate-authority, --insecure-skip-tls-verify and
    /// --tls-server-name are then about the manager
    #[arg(long, value_name = "URL")]
    address: Option<Uri>,
    /// Serve the page without a manager, with your rights. This is the default if the cluster has
    /// no kube-endpoint-manager that you may see
    #[arg(long, conflicts_with_all = ["address", "manager"])]
    without_manager: bool,
    /// Target of the tunnel: TYPE/NAME, as for `kubectl port-forward` [default:
    /// deployment/kube-endpoint-manager]
    #[arg(long, value_name = "TYPE/NAME", conflicts_with = "address")]
    manager: Option<String>,
    /// Namespace of the manager
    #[arg(long, value_name = "NAME", default_value = "kube-system", conflicts_with = "address")]
    manager_namespace: String,
    /// Port on loopback; 0 is any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

/// Serves the page until Ctrl-C.
///
/// # Errors
///
/// An error if the kubeconfig is not usable, the manager does not answer, or the port is in use.
pub(crate) async fn run(global: &Global, options: &Options, args: &UiArgs) -> anyhow::Result<u8> {
    let flags = &global.config;
    if args.address.is_none()
        && !args.without_manager
        && let Ok(kubeconfig) = flags.kubeconfig()
        && let Some(page) = embedded::page(&kubeconfig).await?
    {
        print(&format!(
            "Open {page}\nIt is the page of kube-endpoint-manager --embedded, and ends with it.\n"
        ))?;
        return Ok(0);
    }
    if args.address.is_none()
        && args.manager.is_none()
        && (args.without_manager || !has_manager(flags, &args.manager_namespace).await?)
    {
        return serve(flags, options, args).await;
    }
    let (mut config, context) = config(flags).await?;
    // These parts of the kubeconfig are about the API server and do not apply to the manager.
    (config.root_cert, config.proxy_url) = (None, None);
    config.tls_server_name.clone_from(&flags.tls_server_name);
    config.root_cert_file.clone_from(&flags.certificate_authority);
    config.accept_invalid_certs = flags.insecure_skip_tls_verify;
    let mut tunnel = None;
    config.cluster_url = match &args.address {
        Some(address) if address.scheme_str() == Some("https") => address.clone(),
        Some(address) => bail!("--address {address}: expected an address that begins with https://"),
        None => {
            let (child, port) = open_tunnel(flags, args).await?;
            tunnel = Some(child);
            config.tls_server_name = None;
            // The API server vouches for the pod at the other end; the manager's self-signed
            // certificate cannot.
            config.accept_invalid_certs = true;
            format!("https://127.0.0.1:{port}").parse()?
        }
    };
    let manager = client(config, flags).await?;
    let listener = TcpListener::bind(("127.0.0.1", args.port))
        .await
        .with_context(|| format!("cannot listen on 127.0.0.1:{}; choose another --port", args.port))?;
    let guard = BrowserGuard::new(listener.local_addr()?)?;
    print(&format!(
        "Open {}\nIt shows what you may see. Keep the address to yourself. Ctrl-C ends.\n",
        named(guard.url(), &context)
    ))?;
    tokio::select! {
        biased;
        () = proxy::serve(listener, guard, manager) => {}
        result = tokio::signal::ctrl_c() => result?,
        error = ended(tunnel.as_mut()) => return Err(error),
    }
    Ok(0)
}

/// Returns true if the cluster has a manager that the user may see.
async fn has_manager(flags: &ConfigFlags, namespace: &str) -> anyhow::Result<bool> {
    const DEPLOYMENTS: Resource = Resource::v1("apps", "Deployment", "deployments");
    let Connection { client, .. } = connect(flags).await?;
    match DEPLOYMENTS.api(client.kube(), Some(namespace)).get_opt(NAME).await {
        Ok(found) => Ok(found.is_some()),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        // A server without Deployments, such as one of a virtual cluster.
        Err(error) if says_not_there(&error) => Ok(false),
        Err(error) => bail!("the manager cannot be looked for: {}", why_request_failed(&error)),
    }
}

/// Serves the page with the user's rights until Ctrl-C.
async fn serve(flags: &ConfigFlags, options: &Options, args: &UiArgs) -> anyhow::Result<u8> {
    let Connection { client, context, .. } = connect(flags).await?;
    let reader = || Reader::new(client.kube().clone());
    let overview = OfUser::new(reader(), options.clone());
    let page = StatusPage::new(overview, reader(), options.clone(), Arc::new(current_time));
    let address = (Ipv4Addr::LOCALHOST, args.port).into();
    let server = BrowserServer::bind(address, page.pages(), Limits::default()).await?;
    let url = match &*context {
        "" => server.url(),
        context => format!("{}?cluster={}", server.url(), utf8_percent_encode(context, NON_ALPHANUMERIC)),
    };
    print(&format!(
        "Open {url}\nIt shows what you may read, without a kube-endpoint-manager: kubectl-diagnose-svc reads the cluster while the page is \
         open. Ctrl-C ends.\n"
    ))?;
    tokio::select! {
        biased;
        () = server.run() => {}
        result = tokio::signal::ctrl_c() => result?,
    }
    Ok(0)
}

/// Adds the name of the cluster, which the page shows. The manager does not know it.
fn named(url: String, context: &str) -> String {
    match context {
        "" => url,
        context => format!("{url}&cluster={}", utf8_percent_encode(context, NON_ALPHANUMERIC)),
    }
}

/// Starts `kubectl port-forward`. Returns it, and the port on loopback.
async fn open_tunnel(flags: &ConfigFlags, args: &UiArgs) -> anyhow::Result<(Child, u16)> {
    let manager = args.manager.clone().unwrap_or_else(|| format!("deployment/{NAME}"));
    let mut command = Command::new("kubectl");
    command.args(flags.words());
    command.args(["--namespace", &args.manager_namespace, "port-forward", "--address", "127.0.0.1"]);
    command.arg(&manager).arg(format!(":{SECURE_PORT}"));
    let target = format!("{manager} in namespace {}", args.manager_namespace);
    // kubectl waits silently until a pod runs.
    let patient = async {
        tokio::time::sleep(NOTE_AFTER).await;
        print_note(&format!("Waiting until kubectl opens a tunnel to {target}."));
        std::future::pending().await
    };
    tokio::select! {
        biased;
        opened = tunnel(command, &target, TUNNEL_TIMEOUT) => opened,
        never = patient => never,
    }
}

/// Runs a command of `kubectl port-forward` until it names the port. `target` is that of the
/// tunnel, for errors.
async fn tunnel(mut command: Command, target: &str, limit: Duration) -> anyhow::Result<(Child, u16)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().context("kubectl cannot be started; give --address URL instead")?;
    let mut lines = BufReader::new(child.stdout.take().context("kubectl has no output")?).lines();
    let Ok(first) = tokio::time::timeout(limit, lines.next_line()).await else {
        let _ = child.start_kill();
        let mut said = Vec::new();
        // A credential plugin that it started may keep the pipe open.
        let _ = tokio::time::timeout(REASON_TIMEOUT, read_errors(&mut child, &mut said)).await;
        let why = reason(&said).unwrap_or_else(|| "is a pod of it running?".to_owned());
        bail!("kubectl opened no tunnel to {target} within {} s: {why}", limit.as_secs());
    };
    let Some(port) = first?.as_deref().and_then(forwarded_port) else {
        return Err(ended(Some(&mut child)).await);
    };
    // kubectl writes a line for each connection, and would wait for a reader.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok((child, port))
}

/// Reads the port from the line `Forwarding from 127.0.0.1:PORT -> 10270`.
fn forwarded_port(line: &str) -> Option<u16> {
    line.strip_prefix("Forwarding from 127.0.0.1:")?.split_whitespace().next()?.parse().ok()
}

/// Waits until the tunnel ends, and returns why. Waits forever if there is none.
async fn ended(tunnel: Option<&mut Child>) -> anyhow::Error {
    let Some(child) = tunnel else { return std::future::pending().await };
    let mut said = Vec::new();
    read_errors(child, &mut said).await;
    let _ = child.wait().await;
    anyhow!("the tunnel ended: {}", reason(&said).as_deref().unwrap_or("kubectl gives no reason"))
}

/// Reads what kubectl says on standard error until it ends.
async fn read_errors(child: &mut Child, said: &mut Vec<u8>) {
    if let Some(stderr) = &mut child.stderr {
        // If reading fails, the error has no reason from kubectl.
        let _ = stderr.read_to_end(said).await;
    }
}

/// Returns the last line that kubectl has said: its error.
fn reason(said: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(said);
    let last = said.lines().rfind(|line| !line.trim().is_empty())?;
    Some(last.trim_start_matches("error: ").trim_start_matches("Error from server ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_names_the_cluster() {
        let check = |context: &str, want: &str| assert_eq!(named("/ui/?token=x".to_owned(), context), want);
        check("", "/ui/?token=x");
        check("kind-prod", "/ui/?token=x&cluster=kind%2Dprod");
        check("a&token=b#\u{1b}", "/ui/?token=x&cluster=a%26token%3Db%23%1B");
    }

    #[test]
    fn the_port_is_that_of_kubectls_first_line() {
        for (line, want) in [
            ("Forwarding from 127.0.0.1:40123 -> 10270", Some(40123)),
            ("Forwarding from [::1]:40123 -> 10270", None),
            ("error: unable to listen", None),
            ("Forwarding from 127.0.0.1:notaport -> 10270", None),
        ] {
            assert_eq!(forwarded_port(line), want, "{line}");
        }
    }

    /// Returns the port or the error of a tunnel by a program in place of kubectl.
    async fn opened(script: &str) -> Result<u16, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let opened = tunnel(command, "pod/web in namespace shop", Duration::from_secs(1)).await;
        opened.map(|(_, port)| port).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn kubectls_reason_is_told() {
        for (script, want) in [
            ("echo 'Forwarding from 127.0.0.1:40123 -> 10270'; exec sleep 60", Ok(40123)),
            (
                "echo 'Error from server (NotFound): pods \"web\" not found' >&2; exit 1",
                Err("the tunnel ended: (NotFound): pods \"web\" not found"),
            ),
            ("exit 1", Err("the tunnel ended: kubectl gives no reason")),
            (
                "echo 'E1 memcache.go: connect: connection refused' >&2; exec sleep 60",
                Err(
                    "kubectl opened no tunnel to pod/web in namespace shop within 1 s: E1 memcache.go: connect: connection refused",
                ),
            ),
            (
                "exec sleep 60",
                Err(
                    "kubectl opened no tunnel to pod/web in namespace shop within 1 s: is a pod of it running?",
                ),
            ),
        ] {
            assert_eq!(opened(script).await, want.map_err(str::to_owned), "{script}");
        }
    }
}
