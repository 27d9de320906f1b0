//! The causes of adds.

use std::sync::Arc;

use futures::FutureExt;
use kube_endpoint_workqueue::{Causes, RetryPolicy, WorkQueue, run_workers_observed};
use parking_lot::Mutex;
use tokio::time::advance;

use crate::{millis, queue};

const POD: Causes = Causes::number(1);
const SERVICE: Causes = Causes::number(2);

fn take(queue: &WorkQueue<&'static str>) -> Option<Causes> {
    queue.get_with_causes().now_or_never().flatten().map(|(_, causes)| causes)
}

#[tokio::test(start_paused = true)]
async fn a_worker_learns_the_causes_of_all_adds_that_were_merged() {
    let queue = queue();
    queue.add_after_for("a", millis(100), POD);
    queue.add_after_for("a", millis(50), SERVICE);
    queue.add("a");
    assert_eq!(take(&queue), Some(Causes::NONE), "the delayed adds are not answered yet");
    queue.add_for("a", POD);
    queue.add_for("a", POD);
    queue.done(&"a");
    assert_eq!(take(&queue), Some(POD), "what was added meanwhile");
    queue.done(&"a");
    advance(millis(50)).await;
    assert_eq!(take(&queue), Some(POD.and(SERVICE)), "the delayed adds");
    queue.done(&"a");
    advance(millis(1000)).await;
    assert_eq!(take(&queue), None);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_a_cause() {
    let queue = queue();
    queue.add_for("a", POD);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sync = {
        let seen = Arc::clone(&seen);
        move |_, causes| {
            seen.lock().push(causes);
            async { Err::<(), _>("no") }
        }
    };
    let workers = tokio::spawn(run_workers_observed(queue, RetryPolicy::default(), 1, sync, |_| {}));
    tokio::time::sleep(millis(3500)).await;
    workers.abort();
    assert_eq!(*seen.lock(), [POD, Causes::RETRY, Causes::RETRY]);
}

#[test]
fn causes_are_a_set_of_sixteen() {
    let all = (0..16).map(Causes::number).fold(Causes::NONE, Causes::and);
    assert!((0..16).all(|number| all.contains(Causes::number(number))));
    assert_eq!(Causes::number(0), Causes::RETRY);
    assert_eq!((Causes::number(16), Causes::number(255)), (Causes::NONE, Causes::NONE));
    assert!(Causes::NONE.is_empty() && !POD.is_empty() && !POD.contains(SERVICE));
}
