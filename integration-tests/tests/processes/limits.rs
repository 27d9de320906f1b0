//! Tests a leader that the system gives few open files or no more memory.

use std::process::Command;
use std::time::Duration;

use kube_endpoint_integration_tests::processes::{Pages, Scene, Size, free_port};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::common::{APISERVER, TO_END, worst_since};
use crate::slow_clients::{connect, connect_and_send, open};

/// The minimum number of open files with which the process starts.
const OPEN_FILES: usize = 80;

/// More clients than it may have files.
const CLIENTS: usize = 200;

/// Makes a shell set a limit before it becomes the program.
fn after(setting: &str, command: &mut Command) {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{setting}; exec \"$0\" \"$@\""));
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    *command = shell;
}

/// Returns a leader with pages and a limit, under load, and a standby without the limit.
async fn leader_and_standby(pages: Pages, setting: &str) -> Scene {
    let mut scene = Box::pin(Scene::start(APISERVER, Size::from_environment().sharing_cores())).await;
    let [port, address] = pages.flags();
    scene.start_replica_with(&[&port, &address], |command| after(setting, command));
    scene.settled().await;
    scene.leader().await;
    scene.start_replica(&[]);
    scene.wait_until_all_stand_by().await;
    scene.start_flips();
    tokio::time::sleep(scene.size.steady).await;
    scene
}

/// Clients that send next to nothing take all connections that the leader keeps. It has files left
/// for a new connection to the API server.
#[tokio::test(flavor = "multi_thread")]
async fn clients_leave_a_leader_with_few_open_files_those_that_it_needs() {
    let pages = Pages::on(free_port());
    let mut scene = leader_and_standby(pages, &format!("ulimit -n {OPEN_FILES}")).await;
    let mark = scene.mark();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.extend(connect(pages.port()).await.ok());
    }
    scene.wait_until("clients are cut off", |_| open(&clients) < CLIENTS / 2).await;
    assert!(open(&clients) > 8, "{} connections", open(&clients));
    // All connections to the server break, for less than the renew deadline.
    scene.server.stop_listening();
    tokio::time::sleep(Duration::from_millis(200)).await;
    scene.server.listen_again();
    tokio::time::sleep(scene.size.lease.duration * 2).await;
    assert!(scene.replicas[0].process.open_files().unwrap() <= OPEN_FILES);
    scene.finish().await;
    assert_eq!(scene.assert_one_writer_at_a_time().len(), 1, "the leader still leads");
    let log = scene.replicas[0].process.log();
    assert!(!log.contains("Too many open files"), "{log}");
    worst_since(&mut scene, mark, "80 open files");
}

/// Returns most of a ClientHello of 60,000 bytes, which TLS keeps until the rest comes. All clients
/// together need more memory than a process keeps free.
fn long_beginning() -> Vec<u8> {
    const LENGTH: [u8; 2] = 60_000_u16.to_be_bytes();
    const RECORD: [u8; 2] = 15_000_u16.to_be_bytes();
    let mut payload = vec![0; 45_000];
    payload[..4].copy_from_slice(&[1, 0, LENGTH[0], LENGTH[1]]);
    let records = payload.chunks(15_000).map(|part| [&[22, 3, 1], &RECORD[..], part].concat());
    records.collect::<Vec<_>>().concat()
}

/// The system refuses memory: the process says so on a line and ends at once. It cannot release the
/// Lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_memory_ends_and_a_standby_goes_on_when_the_lease_has_expired() {
    let pages = Pages::on(free_port());
    // With a backtrace there are more lines.
    let mut scene = leader_and_standby(pages, "export RUST_BACKTRACE=0").await;
    let leader = scene.replicas[0].user.clone();
    scene.replicas[0].may_end = true;
    let mark = scene.mark();
    let process = Pid::from_raw(i32::try_from(scene.replicas[0].process.id()).unwrap()).unwrap();
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(process), Resource::Data, nothing).unwrap();
    let mut clients = Vec::new();
    while clients.len() < 2 * CLIENTS && scene.replicas[0].process.exit_status().is_none() {
        clients.extend(connect_and_send(pages.port(), &long_beginning()).await.ok());
    }
    let status = scene.replicas[0].process.wait(TO_END).await;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::ABORT.as_raw()));
    let log = scene.replicas[0].process.log();
    let says_why = |line: &str| line.starts_with("memory allocation of ") && line.ends_with(" bytes failed");
    assert!(log.lines().any(says_why), "{log}");
    scene.leader_after(&leader).await;
    tokio::time::sleep(scene.size.steady).await;
    scene.finish().await;
    assert_eq!(scene.assert_one_writer_at_a_time().len(), 2);
    let gap = worst_since(&mut scene, mark, "no memory");
    assert!(gap < scene.size.longest_gap_after_kill(), "{gap:?}");
}
