//! A pod's program, which behaves as well or as badly as its options say.

use std::cell::Cell;
use std::process;
use std::rc::Rc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tokio::time::sleep;

/// The port of the requests.
pub(crate) const PORT: u16 = 8080;
/// The port of the readiness probe, which answers from the start.
pub(crate) const PROBE_PORT: u16 = 8081;

/// A behaviour of the readiness probe.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Probe {
    /// It succeeds while the pod serves and does not drain.
    Honest,
    /// It always succeeds.
    Lies,
    /// Each second probe fails.
    Flaps,
    /// It fails for three seconds of every ten.
    Pauses,
}

/// Options of a server.
#[derive(Args)]
pub(crate) struct Options {
    /// Listen after so many milliseconds.
    #[arg(long, default_value_t = 0)]
    start_after: u64,
    /// Answer the readiness probe in this way.
    #[arg(long, default_value = "honest")]
    probe: Probe,
    /// Serve for so many milliseconds after SIGTERM. 0 ends at once.
    #[arg(long, default_value_t = 0)]
    drain: u64,
}

/// The state that a pod's answers name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Starting,
    Ready,
    Draining,
}

/// Ends at SIGTERM.
pub(crate) async fn pause() -> anyhow::Result<()> {
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

/// Serves until SIGTERM, and as long after it as the options say.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
    let state = Rc::new(Cell::new(State::Starting));
    let local = LocalSet::new();
    let of_probe = Rc::clone(&state);
    local.spawn_local(async move {
        let mut probes = 0_u64;
        let start = tokio::time::Instant::now();
        serve(PROBE_PORT, move || {
            probes += 1;
            let succeeds = match options.probe {
                Probe::Honest => of_probe.get() == State::Ready,
                Probe::Lies => true,
                Probe::Flaps => probes % 2 == 1,
                Probe::Pauses => start.elapsed().as_secs() % 10 < 7,
            };
            (if succeeds { "200 OK" } else { "503 Service Unavailable" }, String::new())
        })
        .await
    });
    let of_server = Rc::clone(&state);
    local.spawn_local(async move {
        sleep(Duration::from_millis(options.start_after)).await;
        of_server.set(State::Ready);
        serve(PORT, move || {
            let state = if of_server.get() == State::Draining { "draining" } else { "ready" };
            ("200 OK", format!("{name} {state}\n"))
        })
        .await
    });
    local
        .run_until(async move {
            signal(SignalKind::terminate())?.recv().await;
            state.set(State::Draining);
            sleep(Duration::from_millis(options.drain)).await;
            process::exit(0)
        })
        .await
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
