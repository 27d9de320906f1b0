//! The embedded API server as a process, for tests: `apiserver-process CONFIG.json`
//! (`processes::ServerConfig`).
//!
//! It prints the address on which it listens, then reads commands from standard input, one on a
//! line, and prints `done` after each: `stop-listening` closes the port and breaks all connections,
//! `listen` listens on the same port again. It writes each request to the log as a line of JSON
//! (`processes::Line`). It ends when standard input is closed.
#![allow(clippy::print_stdout, reason = "standard output is how the test reads its answers")]

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, LoggedRequest, PolicyRule, User};
use kube_endpoint_integration_tests::processes::{Line, SCRAPER, ServerConfig, user_name, user_token};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: apiserver-process CONFIG.json")?;
    let config: ServerConfig = serde_json::from_slice(&std::fs::read(path)?)?;
    let server = server(&config)?;
    let listener = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let address = listener.address();
    println!("{address}");
    let mut listener = Some(listener);
    let mut commands = BufReader::new(stdin()).lines();
    while let Some(command) = commands.next_line().await? {
        match &*command {
            "stop-listening" => drop(listener.take()),
            "listen" => listener = Some(listen_on(&server, address).await?),
            other => return Err(format!("{other:?} is not a command").into()),
        }
        println!("done");
    }
    Ok(())
}

fn server(config: &ServerConfig) -> Result<EmbeddedApiServer, Box<dyn Error>> {
    let (sender, lines) = channel();
    let log = open_log(&config.log)?;
    std::thread::spawn(move || write_log(log, &lines));
    let mut builder = EmbeddedApiServer::builder()
        .track_managers()
        .load(config.objects.iter().cloned())
        .require_token()
        .policy_rule(PolicyRule {
            subjects: vec![user_name(SCRAPER)],
            verbs: vec!["get".to_owned()],
            non_resource_urls: vec!["/metrics".to_owned()],
            ..PolicyRule::default()
        })
        .on_request(move |request| {
            // The thread ends with the process.
            let _ = sender.send(line_of(request));
        });
    for user in 0..config.users {
        builder = builder.token(user_token(user), User { name: user_name(user), groups: Vec::new() });
    }
    Ok(builder.build()?)
}

/// Listens on a port, which broken connections may still hold for a moment.
async fn listen_on(
    server: &EmbeddedApiServer,
    address: SocketAddr,
) -> Result<kube_endpoint_embedded_apiserver::Listener, Box<dyn Error>> {
    let mut attempts = 0;
    loop {
        match server.listen(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if attempts == 100 => return Err(error.into()),
            Err(_) => attempts += 1,
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn open_log(path: &Path) -> std::io::Result<BufWriter<File>> {
    File::create(path).map(BufWriter::new)
}

/// Writes lines until the process ends, in its own thread, so that the disk delays no answer.
fn write_log(mut log: BufWriter<File>, lines: &Receiver<Line>) {
    while let Ok(line) = lines.recv() {
        let written = std::iter::once(line).chain(lines.try_iter()).try_for_each(|line| {
            serde_json::to_writer(&mut log, &line)?;
            log.write_all(b"\n")
        });
        if written.and_then(|()| log.flush()).is_err() {
            // The test cannot go on without the log.
            std::process::exit(1);
        }
    }
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn line_of(logged: &LoggedRequest) -> Line {
    let request = &logged.request;
    Line {
        received: micros(logged.received),
        at: micros(logged.at),
        user: request.user.clone(),
        agent: request.user_agent.clone(),
        verb: request.verb.to_owned(),
        resource: request.plural().to_owned(),
        subresource: request.subresource.clone(),
        name: request.name.clone(),
        status: logged.status,
    }
}
