//! A small server that notes each request with its headers, and answers by a function of the path.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// A request: its path with the query, and its headers. `|` is between the values of a repeated
/// one.
pub(crate) type Request = (String, BTreeMap<String, String>);

/// The server.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Recorder {
    /// Starts a server. `answer` returns the status and the JSON for a path with its query.
    pub(crate) async fn start(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let mut lines = Vec::new();
                    loop {
                        let mut line = String::new();
                        if !stream.read_line(&mut line).await.is_ok_and(|length| length > 2) {
                            break;
                        }
                        lines.push(line.trim().to_owned());
                    }
                    let Some(first) = lines.first() else { return };
                    let path = first.split(' ').nth(1).unwrap().to_owned();
                    let mut headers: BTreeMap<String, String> = BTreeMap::new();
                    for (name, value) in lines.iter().skip(1).filter_map(|line| line.split_once(": ")) {
                        let all = headers.entry(name.to_lowercase()).or_default();
                        *all = if all.is_empty() { value.to_owned() } else { format!("{all}|{value}") };
                    }
                    let (status, body) = answer(&path);
                    log.lock().unwrap().push((path, headers));
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.get_mut().write_all((head + &body).as_bytes()).await;
                });
            }
        });
        Self { address, requests }
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}
