//! Work that takes milliseconds, in a runtime that has one thread for all tasks.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that takes longer than a few milliseconds, such as comparing and indexing hundreds of
/// thousands of objects. Another thread runs the other tasks meanwhile, such as the renewal of a
/// lease and the answers to probes.
///
/// It may cost the start of a thread, so do not call it for short work. In a runtime with only one
/// thread, as in tests under a paused clock, the other tasks wait.
pub fn long_work<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
