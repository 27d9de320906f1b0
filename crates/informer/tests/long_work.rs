//! Long work and the other tasks of a runtime with one thread.

use std::sync::mpsc::channel;
use std::time::Duration;

use kube_endpoint_informer::long_work;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_task_runs_meanwhile() {
    let working = tokio::spawn(async {
        let (sender, receiver) = channel();
        tokio::spawn(async move { sender.send(()) });
        long_work(|| receiver.recv_timeout(Duration::from_secs(60)))
    });
    assert_eq!(working.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_runtime_without_other_threads_does_the_work_itself() {
    assert_eq!(long_work(|| 7), 7);
}
