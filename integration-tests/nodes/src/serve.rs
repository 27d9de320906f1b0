//! A pod's program, which behaves as well or as badly as its options say.

use std::cell::Cell;
use std::process;
use std::rc::Rc;

use clap::{Args, ValueEnum};
use kube_endpoint_api_client::client_from_config;
use kube_endpoint_api_writer::Clock;
use kube_endpoint_leader_election::{Elector, ElectorOptions, Leadership};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

/// The port of the requests.
pub(crate) const PORT: u16 = 8080;
/// The port of the readiness probe, which answers from the start.
pub(crate) const PROBE_PORT: u16 = 8081;

/// A behaviour of the readiness probe.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Probe {
    /// It succeeds.
    Succeeds,
    /// Each second probe fails.
    Flaps,
    /// It fails for three seconds of every ten.
    Pauses,
    /// It succeeds while this pod leads.
    Leads,
}

/// Options of a server.
#[derive(Args)]
pub(crate) struct Options {
    /// Answer the readiness probe in this way.
    #[arg(long, default_value = "succeeds")]
    probe: Probe,
    /// Take part in the election with this Lease of the namespace `default`, and release it at
    /// SIGTERM.
    #[arg(long)]
    elect: Option<String>,
}

/// Ends at SIGTERM.
pub(crate) async fn pause() -> anyhow::Result<()> {
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

/// Serves until SIGTERM, or until it has lost its Lease.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
    let leads = Rc::new(Cell::new(false));
    let local = LocalSet::new();
    let of_probe = Rc::clone(&leads);
    local.spawn_local(async move {
        let mut probes = 0_u64;
        let start = tokio::time::Instant::now();
        serve(PROBE_PORT, move || {
            probes += 1;
            let succeeds = match options.probe {
                Probe::Succeeds => true,
                Probe::Flaps => probes % 2 == 1,
                Probe::Pauses => start.elapsed().as_secs() % 10 < 7,
                Probe::Leads => of_probe.get(),
            };
            (if succeeds { "200 OK" } else { "503 Service Unavailable" }, String::new())
        })
        .await
    });
    let (of_server, pod) = (Rc::clone(&leads), name.clone());
    local.spawn_local(serve(PORT, move || {
        ("200 OK", format!("{pod} {}\n", if of_server.get() { "leads" } else { "follows" }))
    }));
    let end = local.run_until(async move {
        match options.elect {
            Some(lease) => Box::pin(elect(&name, &lease, leads)).await,
            None => pause().await,
        }
    });
    end.await?;
    process::exit(0)
}

/// Takes part in an election, with the identity and the times of controller-runtime.
async fn elect(pod: &str, lease: &str, leads: Rc<Cell<bool>>) -> anyhow::Result<()> {
    let client = client_from_config(kube::Config::infer().await?).await?;
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
    let seed = uuid.bytes().fold(0, |seed: u64, byte| seed.rotate_left(7) ^ u64::from(byte));
    let options = ElectorOptions::new("default", lease, format!("{pod}_{uuid}"));
    #[expect(clippy::disallowed_methods, reason = "the time that the Lease shows to people")]
    let clock = Clock::reading(jiff::Timestamp::now);
    let (elector, mut leadership) = Elector::new(client, options, clock, seed)?;
    tokio::task::spawn_local(async move {
        while leadership.changed().await.is_ok() {
            leads.set(matches!(*leadership.borrow(), Leadership::Leading { .. }));
        }
    });
    let mut end = signal(SignalKind::terminate())?;
    elector
        .run(async {
            end.recv().await;
            None
        })
        .await?;
    Ok(())
}

/// Answers each connection once and closes it first, so that clients keep their ports.
async fn serve(port: u16, mut answer: impl FnMut() -> (&'static str, String)) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (status, body) = answer();
        tokio::task::spawn_local(reply(stream, format!("HTTP/1.0 {status}\r\n\r\n{body}")));
    }
}

async fn reply(mut stream: TcpStream, answer: String) -> std::io::Result<()> {
    let mut request = [0; 1024];
    if stream.read(&mut request).await? > 0 {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread data would reset the connection.
        while stream.read(&mut request).await? > 0 {}
    }
    Ok(())
}
