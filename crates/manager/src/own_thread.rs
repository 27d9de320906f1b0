//! A task with a thread and a runtime of its own.

use std::panic::resume_unwind;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// How much the thread yields to the others of the process. Where it competes with one of them for
/// a processor, Linux gives it a quarter.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// Runs a task that may take all the time of a processor, so that it does not keep the other tasks
/// of the process waiting. Dropping the future ends the task.
///
/// It ends when the task ends, and panics if the task does. It also ends, with a line in the log,
/// if the operating system refuses a thread or what a runtime needs.
pub(crate) async fn on_own_thread(name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    let (running, stopped) = oneshot::channel::<()>();
    let (ending, ended) = oneshot::channel::<()>();
    let body = move || {
        // It is dropped last, also after a panic.
        let _ending = ending;
        // On Linux this is about the calling thread, and those that it starts. A system that
        // refuses it shares its processors evenly.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(NICENESS);
        match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = stopped => {}
                    () = task => {}
                }
            }),
            Err(error) => tracing::error!(thread = name, %error, "cannot start a runtime"),
        }
    };
    let thread = match thread::Builder::new().name(name.to_owned()).spawn(body) {
        Ok(thread) => thread,
        Err(error) => return tracing::error!(thread = name, %error, "cannot start a thread"),
    };
    let _ = ended.await;
    drop(running);
    // The thread has nothing left to do, so this does not wait.
    if let Err(panic) = thread.join() {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LATE: Duration = Duration::from_secs(20);

    /// Sends when it is dropped.
    struct Dropped(mpsc::Sender<&'static str>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send("dropped").unwrap();
        }
    }

    #[tokio::test]
    async fn a_task_that_takes_all_of_its_thread_delays_no_other() {
        let (release, released) = mpsc::channel::<()>();
        let task = tokio::spawn(on_own_thread("busy", async move { released.recv().unwrap() }));
        // The runtime of this test has one thread.
        tokio::time::sleep(SOON).await;
        assert!(!task.is_finished());
        release.send(()).unwrap();
        tokio::time::timeout(LATE, task).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn the_future_ends_as_its_task_does() {
        on_own_thread("ends", async { tokio::time::sleep(Duration::from_millis(1)).await }).await;
        let panicked = tokio::spawn(on_own_thread("panics", async { panic!("on purpose") })).await;
        assert!(panicked.unwrap_err().to_string().contains("on purpose"));
    }

    #[tokio::test]
    async fn dropping_the_future_ends_the_task() {
        let (sender, receiver) = mpsc::channel();
        let dropped = Dropped(sender.clone());
        let task = tokio::spawn(on_own_thread("waits", async move {
            sender.send("begun").unwrap();
            pending::<()>().await;
            drop(dropped);
        }));
        tokio::time::sleep(SOON).await;
        assert_eq!(receiver.recv_timeout(LATE), Ok("begun"));
        assert!(receiver.try_recv().is_err());
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(receiver.recv_timeout(LATE), Ok("dropped"));
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn only_its_own_thread_yields_to_others() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        let (sender, receiver) = mpsc::channel();
        on_own_thread("nice", async move { sender.send(niceness()).unwrap() }).await;
        assert_eq!((receiver.recv().unwrap(), niceness()), ((before + NICENESS).min(19), before));
    }
}
