//! A client that opens a connection for each request and writes down what came of it.

use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, lookup_host};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// The time after which a request has failed.
const LIMIT: Duration = Duration::from_secs(3);

/// Options of a client.
#[derive(Args)]
pub(crate) struct Options {
    /// The addresses or names to ask, which take turns, each with a port.
    #[arg(value_delimiter = ',', required = true)]
    to: Vec<String>,
    /// Requests a second.
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// The longest time in seconds.
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// Source addresses, which take turns.
    #[arg(long, value_delimiter = ',', required = true)]
    from: Vec<IpAddr>,
}

/// One request, as a line of the client's output says it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// When it began, in seconds of the epoch.
    pub(crate) at: f64,
    /// How long it took, in milliseconds.
    pub(crate) took: f64,
    /// The pod that answered and its role, or the failure.
    pub(crate) answer: Result<(String, String), String>,
}

impl Request {
    fn line(&self) -> String {
        let (word, rest) = match &self.answer {
            Ok((pod, role)) => ("answer", format!("{pod} {role}")),
            Err(failure) => ("failure", failure.clone()),
        };
        format!("{:.3} {:.3} {word} {rest}", self.at, self.took)
    }

    /// Reads a line.
    pub(crate) fn parse(line: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let (at, took, answer) = match *words.as_slice() {
            [at, took, "answer", pod, role] => (at, took, Ok((pod.to_owned(), role.to_owned()))),
            [at, took, "failure", failure] => (at, took, Err(failure.to_owned())),
            _ => anyhow::bail!("`{line}` is no line about a request"),
        };
        Ok(Self { at: at.parse()?, took: took.parse()?, answer })
    }
}

/// Sends requests until standard input ends.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let (lines, writer) = std::sync::mpsc::channel::<Request>();
    let writer = std::thread::spawn(move || {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        writer.into_iter().try_for_each(|request| writeln!(out, "{}", request.line()))
    });
    let mut ticks = interval(Duration::from_secs(1) / options.rate.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    // Each process goes on where one before has ended, if no address sends 40 requests a second.
    let begin = (now() * 40.0) as usize;
    let mut sources = (begin..).flat_map(|round| options.from.iter().map(move |it| (*it, port(round))));
    let mut targets = options.to.iter().cycle();
    let mut input = tokio::io::stdin();
    let mut bytes = [0];
    let end = async { while matches!(input.read(&mut bytes).await, Ok(1..)) {} };
    let asking = async {
        loop {
            ticks.tick().await;
            if let (Some(from), Some(to)) = (sources.next(), targets.next()) {
                let (to, lines) = (to.clone(), lines.clone());
                tokio::spawn(async move { lines.send(request(from.into(), &to).await) });
            }
        }
    };
    tokio::select! {
        biased;
        () = end => {}
        () = tokio::time::sleep(Duration::from_secs(options.limit)) => {}
        () = asking => {}
    }
    tokio::time::sleep(LIMIT).await;
    drop(lines);
    writer.join().ok().context("the thread that writes has ended")??;
    // The thread that reads standard input may still wait.
    std::process::exit(0)
}

/// The port from which all addresses send in a round. A node remembers for two minutes to which pod
/// it sent a connection that nobody answered, and sends another from the same port there, too.
/// These ports come again after ten minutes.
fn port(round: usize) -> u16 {
    32_768 + (round % 28_000) as u16
}

/// The time in seconds of the epoch, which all processes of the machine share.
pub(crate) fn now() -> f64 {
    #[expect(clippy::disallowed_methods, reason = "processes compare it, with each other and with logs")]
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |it| it.as_secs_f64())
}

async fn request(from: SocketAddr, to: &str) -> Request {
    let at = now();
    let begin = Instant::now();
    let answer = match timeout(LIMIT, exchange(from, to)).await {
        Err(_) => Err("timeout".to_owned()),
        Ok(Err(error)) => Err(failure(error.kind())),
        Ok(Ok(text)) => match parse(&text) {
            Some((pod, role)) if is_asked(to, &pod) => Ok((pod, role)),
            Some(_) => Err("wrong-pod".to_owned()),
            None => Err("no-answer".to_owned()),
        },
    };
    Request { at, took: begin.elapsed().as_secs_f64() * 1e3, answer }
}

async fn exchange(from: SocketAddr, to: &str) -> std::io::Result<String> {
    // A client of a headless Service asks for the addresses before each connection.
    let to = lookup_host(to).await.ok().and_then(|mut all| all.next()).ok_or(ErrorKind::NotFound)?;
    let socket = TcpSocket::new_v4()?;
    socket.bind(from)?;
    let mut stream = socket.connect(to).await?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// Returns true if the name `to` is that of the pod, or of its StatefulSet. Any pod may answer at
/// an address.
fn is_asked(to: &str, pod: &str) -> bool {
    let name = to.split(['.', ':']).next().unwrap_or_default();
    to.parse::<SocketAddr>().is_ok() || pod == name || pod.rsplit_once('-').is_some_and(|it| it.0 == name)
}

fn parse(text: &str) -> Option<(String, String)> {
    let (_, body) = text.split_once("\r\n\r\n")?;
    let (pod, role) = body.trim_end().split_once(' ')?;
    Some((pod.to_owned(), role.to_owned()))
}

fn failure(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::ConnectionRefused => "refused".to_owned(),
        ErrorKind::ConnectionReset => "reset".to_owned(),
        ErrorKind::NotFound => "unresolved".to_owned(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "unreachable".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let answer = Ok(("web-1".to_owned(), "leads".to_owned()));
        for answer in [answer, Err("refused".to_owned())] {
            let request = Request { at: 1_700_000_000.25, took: 0.5, answer };
            assert_eq!(Request::parse(&request.line()).ok(), Some(request));
        }
        assert!(Request::parse("1 2 answer web-1").is_err());
    }

    #[test]
    fn a_name_is_that_of_a_pod_or_of_its_statefulset() {
        assert!(is_asked("web-1.web:80", "web-1") && !is_asked("web-1.web:80", "web-2"));
        assert!(is_asked("web.default:80", "web-1") && !is_asked("web.default:80", "other-1"));
        assert!(is_asked("10.96.0.20:80", "web-1"));
    }

    #[test]
    fn an_answer_names_pod_and_role() {
        assert_eq!(parse("HTTP/1.0 200 OK\r\n\r\nweb-1 leads\n"), Some(("web-1".into(), "leads".into())));
        assert_eq!(parse("HTTP/1.0 200 OK\r\n\r\n"), None);
        assert_eq!(parse(""), None);
    }
}
