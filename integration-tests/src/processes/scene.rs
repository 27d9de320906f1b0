//! The API server, replicas of the binary and the load, for one test.
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_endpoint_processes::{POLL, Process, raise_file_limit};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::binary::binary;
use super::cluster::objects;
use super::flips::Flips;
use super::outputs::Outputs;
use super::server::{SCRAPER, ServerConfig, ServerProcess, user_name};
use super::size::Size;
use super::witness::{Answer, Line, Witness, answers, tenures};

/// Lets the scenes of a program take turns if each needs both cores: one scene takes both permits,
/// or two take one each.
static CORES: Semaphore = Semaphore::const_new(2);

/// Number of users of the server: the test and each process of a replica.
const USERS: usize = 40;

/// The user of the test itself.
const TEST_USER: usize = SCRAPER;

/// The path of the Lease.
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-endpoint-manager";

/// A time limit longer than any wait takes on a busy machine, apart from those for the lease.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running replica.
#[derive(Debug)]
pub struct Replica {
    /// The user of its requests.
    pub user: String,
    pub process: Process,
    /// True if the test expects the process to end.
    pub may_end: bool,
}

/// All processes of a test. Dropping it ends them.
pub struct Scene {
    /// The replicas, in the order of their start.
    pub replicas: Vec<Replica>,
    pub server: ServerProcess,
    pub client: Client,
    pub size: Size,
    witness: Witness,
    flips: Option<Flips>,
    /// Number of pods that the load has changed.
    flipped: usize,
    next_user: usize,
    sibling: PathBuf,
    // The folder is dropped last, because the processes have files in it.
    folder: TempDir,
    _cores: SemaphorePermit<'static>,
}

impl Scene {
    /// Starts the API server, once no other scene of this program exists, or only one and both have
    /// [`Size::shares_cores`]. `apiserver` is `env!("CARGO_BIN_EXE_apiserver-process")`.
    ///
    /// # Panics
    ///
    /// If the server does not start.
    pub async fn start(apiserver: &str, size: Size) -> Self {
        let objects = objects(size.services, size.pods_per_service);
        Self::start_on(apiserver.as_ref(), size, objects).await
    }

    /// As [`Self::start`], with these objects on the server.
    ///
    /// # Panics
    ///
    /// If the server does not start.
    pub async fn start_on(apiserver: &Path, size: Size, objects: Vec<Value>) -> Self {
        let cores = CORES.acquire_many(if size.shares_cores { 1 } else { 2 }).await.unwrap();
        raise_file_limit();
        let folder = tempfile::tempdir().unwrap();
        let config = ServerConfig { objects, users: USERS, log: folder.path().join("requests.jsonl") };
        let sibling = apiserver.to_owned();
        let server = ServerProcess::start(&sibling, folder.path(), config);
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig(TEST_USER)).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        Self {
            replicas: Vec::new(),
            witness: server.witness(),
            server,
            client,
            size,
            flips: None,
            flipped: 0,
            next_user: TEST_USER + 1,
            sibling,
            folder,
            _cores: cores,
        }
    }

    /// Returns a scene with `replicas` replicas that elect a leader, whose outputs are complete,
    /// under load.
    ///
    /// # Panics
    ///
    /// If it is not ready in time.
    pub async fn with_replicas(apiserver: &str, size: Size, replicas: usize) -> Self {
        let mut scene = Self::start(apiserver, size).await;
        for _ in 0..replicas {
            scene.start_replica(&[]);
        }
        scene.settled().await;
        scene.wait_until_all_stand_by().await;
        scene.start_flips();
        tokio::time::sleep(size.steady).await;
        scene
    }

    /// Returns the folder with the files of the processes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a replica with leader election on. It is a user of its own. Returns its place in
    /// [`Self::replicas`].
    pub fn start_replica(&mut self, arguments: &[&str]) -> usize {
        self.start_replica_with(arguments, |_| {})
    }

    /// As [`Self::start_replica`], with a change of its command, such as an environment variable.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_replica_with(&mut self, arguments: &[&str], change: impl FnOnce(&mut Command)) -> usize {
        let mut command = self.command(&binary(&self.sibling), arguments);
        change(&mut command);
        self.start_command(command, &self.next_log())
    }

    /// As [`Self::start_replica`], with its output in a file of the caller's, such as `/dev/full`.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_replica_logging_to(&mut self, arguments: &[&str], log: &Path) -> usize {
        self.start_command(self.command(&binary(&self.sibling), arguments), log)
    }

    /// Returns the file for the output of the next replica.
    fn next_log(&self) -> PathBuf {
        self.folder.path().join(format!("{}.log", user_name(self.next_user)))
    }

    fn start_command(&mut self, command: Command, log: &Path) -> usize {
        let user = user_name(self.next_user);
        self.next_user += 1;
        let process = Process::start(&user, command, log, None).unwrap();
        self.replicas.push(Replica { user, process, may_end: false });
        self.replicas.len() - 1
    }

    /// Returns the command of the next replica.
    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env_remove("KUBECONFIG")
            .env_remove("RUST_LOG")
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .arg("--kubeconfig")
            .arg(self.server.kubeconfig(self.next_user))
            .arg(format!("--kube-api-qps={}", self.size.qps))
            .arg(format!("--kube-api-burst={}", self.size.qps * 3 / 2));
        let given = |flag: &str| arguments.iter().any(|argument| argument.starts_with(flag));
        if !given("--leader-elect=") {
            command.arg("--leader-elect=true").args(self.size.lease.flags());
        }
        if !given("--secure-port=") {
            command.arg("--secure-port=0");
        }
        command.args(arguments);
        command
    }

    /// Starts the load, or goes on with it.
    pub fn start_flips(&mut self) {
        self.flips = Some(Flips::start(self.client.clone(), self.size, self.flipped));
    }

    /// Ends the load, waits until the outputs are complete and checks them: they agree with the
    /// pods, and a new manager would write nothing.
    ///
    /// # Panics
    ///
    /// If a check fails.
    pub async fn finish(&mut self) {
        let outputs = self.rest().await;
        assert_eq!(outputs.writes_of_a_new_manager(), Vec::<String>::new());
    }

    /// Ends the load, and waits until the outputs agree with the pods.
    ///
    /// # Panics
    ///
    /// If the load has changed no pod, or the outputs stay different.
    pub async fn rest(&mut self) -> Outputs {
        if let Some(flips) = self.flips.take() {
            let before = std::mem::replace(&mut self.flipped, flips.stop().await);
            assert!(self.flipped > before, "no pod has changed");
        }
        self.settled().await
    }

    /// Waits until the outputs agree with the pods.
    ///
    /// # Panics
    ///
    /// If they are still different after the lease duration and a minute more.
    pub async fn settled(&mut self) -> Outputs {
        let deadline = Instant::now() + self.patience();
        loop {
            let outputs = Outputs::read(&self.client).await;
            let differences = match &outputs {
                Ok(outputs) => outputs.differences(),
                Err(error) => vec![error.to_string()],
            };
            self.assert_running();
            match outputs {
                Ok(outputs) if differences.is_empty() => return outputs,
                _ => {
                    let few = &differences[..differences.len().min(5)];
                    assert!(Instant::now() < deadline, "{} differences: {few:#?}", differences.len());
                }
            }
            tokio::time::sleep(POLL * 10).await;
        }
    }

    /// Waits until a condition holds.
    ///
    /// # Panics
    ///
    /// If it does not hold after the lease duration and a minute more.
    pub async fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + self.patience();
        while !condition(self) {
            self.assert_running();
            assert!(Instant::now() < deadline, "waited too long: {what}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Checks that no process has ended by itself.
    fn assert_running(&mut self) {
        for replica in self.replicas.iter_mut().filter(|replica| !replica.may_end) {
            let status = replica.process.exit_status();
            assert!(status.is_none(), "{} has ended: {status:?}", replica.user);
        }
    }

    fn patience(&self) -> Duration {
        PATIENCE + self.size.lease.duration * 2
    }

    /// Returns the requests that the server has answered so far.
    pub fn lines(&mut self) -> &[Line] {
        self.witness.lines()
    }

    /// Returns the number of requests so far, to look at later ones only.
    pub fn mark(&mut self) -> usize {
        self.witness.lines().len()
    }

    /// Returns the changes of pods since `mark`, with the times that each waited for its slice and
    /// for its Endpoints.
    pub fn answers_since(&mut self, mark: usize) -> Vec<Answer> {
        let lines = &self.witness.lines()[mark..];
        ["endpointslices", "endpoints"].iter().flat_map(|resource| answers(lines, resource)).collect()
    }

    /// Returns the users that have written outputs, in order.
    pub fn writers(&mut self) -> Vec<String> {
        tenures(self.witness.lines()).into_iter().map(|tenure| tenure.user).collect()
    }

    /// Checks that no two replicas wrote at the same time: no replica wrote after another one had
    /// begun. Returns the writers in order.
    ///
    /// # Panics
    ///
    /// If two did.
    pub fn assert_one_writer_at_a_time(&mut self) -> Vec<String> {
        let writers = self.writers();
        let again: Vec<&String> = writers
            .iter()
            .enumerate()
            .filter(|(at, user)| writers[..*at].contains(user))
            .map(|it| it.1)
            .collect();
        assert!(again.is_empty(), "wrote again after another one: {again:?}\n{:#?}", tenures(self.lines()));
        writers
    }

    /// Returns the user that wrote the Lease last, if it is a replica.
    fn holder(&mut self) -> Option<String> {
        let of_lease = |line: &&Line| {
            line.resource == "leases"
                && line.is_write()
                && line.succeeded()
                && line.user != user_name(TEST_USER)
        };
        self.witness.lines().iter().rev().find(of_lease).map(|line| line.user.clone())
    }

    /// Returns the replica that leads: it wrote the Lease last and was the last to write an output.
    ///
    /// # Panics
    ///
    /// If no replica leads in time.
    pub async fn leader(&mut self) -> usize {
        let mut found = None;
        self.wait_until("a replica leads", |scene| {
            let holder = scene.holder().filter(|holder| scene.writers().last() == Some(holder));
            found = scene.replicas.iter().position(|replica| Some(&replica.user) == holder.as_ref());
            found.is_some()
        })
        .await;
        found.unwrap_or_default()
    }

    /// Waits until another replica than `user` leads.
    ///
    /// # Panics
    ///
    /// If no other replica leads in time.
    pub async fn leader_after(&mut self, user: &str) -> usize {
        let user = user.to_owned();
        self.wait_until("another replica writes", |scene| scene.writers().last() != Some(&user)).await;
        self.leader().await
    }

    /// Waits until each replica takes part in the election, which it does once its caches are
    /// complete.
    ///
    /// # Panics
    ///
    /// If a replica does not in time.
    pub async fn wait_until_all_stand_by(&mut self) {
        self.wait_until("each replica takes part in the election", |scene| {
            let lines = scene.witness.lines();
            let asks = |user: &str| lines.iter().any(|line| line.user == user && line.resource == "leases");
            scene.replicas.iter().all(|replica| asks(&replica.user))
        })
        .await;
    }

    /// Returns the last lines of the log of each replica.
    pub fn last_lines(&self, count: usize) -> String {
        self.replicas.iter().map(|it| it.process.last_lines(count)).collect()
    }

    /// Removes a replica from the scene, and kills it if it still runs.
    pub fn remove(&mut self, replica: usize) {
        self.replicas.remove(replica);
    }

    /// Sends a signal to a replica, after which its process may end. Returns its user.
    pub fn signal(&mut self, replica: usize, signal: Signal) -> String {
        let replica = &mut self.replicas[replica];
        replica.may_end = true;
        replica.process.signal(signal);
        replica.user.clone()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln_logs(&self.last_lines(20));
        }
    }
}

#[expect(clippy::print_stderr, reason = "the output of a failed test")]
fn eprintln_logs(logs: &str) {
    eprintln!("{logs}");
}
