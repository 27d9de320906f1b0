//! Runs the API server in a process of its own (`src/bin/apiserver-process.rs`): starts it, tells
//! it to stop and start listening, and makes kubeconfigs for it.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use kube_endpoint_processes::Process;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::witness::Witness;

/// The configuration of the server process, as JSON in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerConfig {
    /// The initial objects.
    pub objects: Vec<Value>,
    /// Number of users, named by [`user_name`].
    pub users: usize,
    /// The path of its request log.
    pub log: PathBuf,
}

/// Returns the name of a user of the server. Each process that sends requests is another user, so
/// that the log tells them apart.
pub fn user_name(user: usize) -> String {
    format!("user-{user}")
}

/// The user that may read `/metrics` of replicas: the test itself.
pub const SCRAPER: usize = 0;

/// Returns the bearer token of a user.
pub fn user_token(user: usize) -> String {
    format!("token-of-user-{user}")
}

/// The API server's process.
#[derive(Debug)]
pub struct ServerProcess {
    process: Process,
    commands: ChildStdin,
    replies: BufReader<ChildStdout>,
    address: SocketAddr,
    config: ServerConfig,
    folder: PathBuf,
}

impl ServerProcess {
    /// Starts `program`, which is `env!("CARGO_BIN_EXE_apiserver-process")`. Its files are in
    /// `folder`.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(program: &Path, folder: &Path, config: ServerConfig) -> Self {
        let file = folder.join("apiserver.json");
        std::fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
        let mut command = Command::new(program);
        command.arg(file).stdin(Stdio::piped());
        let log = folder.join("apiserver.log");
        let mut process = Process::start("apiserver", command, &log, Some(Stdio::piped())).unwrap();
        let commands = process.child().stdin.take().unwrap();
        let mut replies = BufReader::new(process.child().stdout.take().unwrap());
        let address = read_line(&mut replies, &process);
        let address = address.parse().unwrap_or_else(|_| panic!("not an address: {address}"));
        Self { process, commands, replies, address, config, folder: folder.to_owned() }
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the process, for signals.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns a reader of its request log.
    pub fn witness(&self) -> Witness {
        Witness::new(&self.config.log)
    }

    /// Closes the port and breaks all connections, as if the server was gone. Its objects remain.
    ///
    /// # Panics
    ///
    /// If the server process has ended.
    pub fn stop_listening(&mut self) {
        self.command("stop-listening");
    }

    /// Listens on the same port again.
    ///
    /// # Panics
    ///
    /// If the server process has ended or the port is taken.
    pub fn listen_again(&mut self) {
        self.command("listen");
    }

    fn command(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
        let reply = read_line(&mut self.replies, &self.process);
        assert_eq!(reply, "done", "{command}");
    }

    /// Writes a kubeconfig for a user and returns its path.
    ///
    /// # Panics
    ///
    /// If writing the file fails.
    pub fn kubeconfig(&self, user: usize) -> PathBuf {
        assert!(user < self.config.users, "the server knows {} users", self.config.users);
        let path = self.folder.join(format!("{}.kubeconfig", user_name(user)));
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {{server: \"http://{}\"}}\nusers:\n- name: u\n  \
             user: {{token: {}}}\ncontexts:\n- name: c\n  context: {{cluster: c, user: u}}\ncurrent-context: c\n",
            self.address,
            user_token(user),
        );
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn read_line(replies: &mut BufReader<ChildStdout>, process: &Process) -> String {
    let mut line = String::new();
    let read = replies.read_line(&mut line).unwrap();
    assert!(read > 0, "the API server's process ended:\n{}", process.log());
    line.trim().to_owned()
}
