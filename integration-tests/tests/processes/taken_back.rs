//! Tests a leader that is killed, and whose container restarts with the same identity file.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use kube_endpoint_integration_tests::processes::{LeaseTimes, Scene, Size};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{APISERVER, TO_END, worst_since};

/// The longest time for which a change may wait: a process starts, lists and takes the Lease back.
const LONGEST_GAP: Duration = Duration::from_secs(5);

/// A leader with an identity file, and a standby without.
struct Pod {
    scene: Scene,
    file: PathBuf,
    /// The user of the process that leads.
    user: String,
}

impl Pod {
    async fn start(size: Size) -> Self {
        let mut scene = Box::pin(Scene::start(APISERVER, size)).await;
        let file = scene.folder().join("identity");
        let mut pod = Self { user: String::new(), file, scene };
        pod.restart();
        scene = pod.scene;
        let leader = scene.leader().await;
        scene.start_replica(&[]);
        scene.settled().await;
        scene.wait_until_all_stand_by().await;
        scene.start_flips();
        tokio::time::sleep(size.steady).await;
        let user = scene.replicas[leader].user.clone();
        Self { scene, user, ..pod }
    }

    /// Starts the next process of the container.
    fn restart(&mut self) {
        let flag = format!("--leader-elect-identity-file={}", self.file.display());
        self.scene.start_replica(&[&flag, "-v=1"]);
    }

    /// Kills the leader, and waits until its process has ended, as a kubelet does.
    async fn kill(&mut self) {
        let leader = self.scene.leader().await;
        self.user = self.scene.signal(leader, Signal::KILL);
        self.scene.replicas[leader].process.wait(TO_END).await;
    }

    /// Checks that the process that is not the last one to have started leads, and only after the
    /// Lease of the killed process has expired.
    async fn assert_standby_leads(&mut self, mark: usize, what: &str) {
        let leader = self.scene.leader_after(&self.user.clone()).await;
        let last = self.scene.replicas.last().unwrap().user.clone();
        assert_ne!(self.scene.replicas[leader].user, last, "{what}");
        tokio::time::sleep(self.scene.size.steady).await;
        self.scene.rest().await;
        let gap = worst_since(&mut self.scene, mark, what);
        assert!(gap > self.scene.size.lease.duration / 2, "{gap:?}");
    }

    fn log(&self) -> String {
        self.scene.replicas.last().unwrap().process.log()
    }
}

fn long_lease(size: Size) -> Size {
    let lease = LeaseTimes {
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    Size { lease, ..size }
}

/// The next process goes on long before the Lease would expire. A second crash leaves the Lease to
/// the standby.
#[tokio::test(flavor = "multi_thread")]
async fn after_sigkill_the_next_process_of_the_container_goes_on_and_after_a_second_one_a_standby() {
    let mut pod = Pod::start(long_lease(Size::from_environment())).await;
    let mark = pod.scene.mark();
    pod.kill().await;
    pod.restart();
    let next = pod.scene.leader_after(&pod.user.clone()).await;
    assert_eq!(next, pod.scene.replicas.len() - 1, "the next process of the container leads");
    tokio::time::sleep(pod.scene.size.steady).await;
    assert!(pod.log().contains("took the lease back"), "{}", pod.log());
    pod.scene.rest().await;
    let gap = worst_since(&mut pod.scene, mark, "SIGKILL, with an identity file");
    assert!(gap < LONGEST_GAP, "{gap:?}");

    pod.scene.start_flips();
    let mark = pod.scene.mark();
    pod.kill().await;
    pod.restart();
    pod.assert_standby_leads(mark, "a second SIGKILL").await;
    assert!(pod.log().contains("had followed a crash"), "{}", pod.log());
    pod.scene.finish().await;
    assert_eq!(pod.scene.assert_one_writer_at_a_time().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_another_boot_leaves_the_lease_to_the_standby() {
    let mut pod = Pod::start(Size::from_environment().sharing_cores()).await;
    let mark = pod.scene.mark();
    pod.kill().await;
    let mut record: Value = serde_json::from_slice(&std::fs::read(&pod.file).unwrap()).unwrap();
    assert!(record["bootId"].is_string(), "{record}");
    record["bootId"] = "8b1c6a0e-0000-4000-8000-000000000000".into();
    std::fs::write(&pod.file, record.to_string()).unwrap();
    pod.restart();
    pod.assert_standby_leads(mark, "SIGKILL, and another boot").await;
    assert!(pod.log().contains("the machine has booted"), "{}", pod.log());
    pod.scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_a_living_process_has_locked_leaves_the_lease_to_the_standby() {
    let mut pod = Pod::start(Size::from_environment().sharing_cores()).await;
    let mark = pod.scene.mark();
    pod.kill().await;
    let living = File::open(&pod.file).unwrap();
    living.try_lock().unwrap();
    pod.restart();
    pod.assert_standby_leads(mark, "SIGKILL, and the file is locked").await;
    assert!(pod.log().contains("another process has locked"), "{}", pod.log());
    drop(living);
    pod.scene.finish().await;
}

/// A process that ends in order releases the Lease, and its end is no crash.
#[tokio::test(flavor = "multi_thread")]
async fn after_sigterm_the_file_names_nobody() {
    let mut pod = Pod::start(Size::from_environment().sharing_cores()).await;
    let leader = pod.scene.leader().await;
    let ended = pod.scene.signal(leader, Signal::TERM);
    let status = pod.scene.replicas[leader].process.wait(TO_END).await;
    assert!(status.success(), "{status}");
    let record: Value = serde_json::from_slice(&std::fs::read(&pod.file).unwrap()).unwrap();
    assert!(record["identity"].is_null() && record["bootId"].is_string(), "{record}");
    pod.scene.leader_after(&ended).await;
    pod.scene.finish().await;
}
