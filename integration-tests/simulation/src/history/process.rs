//! The actions on processes, clocks and the server's storage.

use super::fault::Manager;
use super::request_fault::{RequestClass, RequestFault};
use crate::text::text_enum;

text_enum! {
    /// An action on a process, a clock or the server's storage. Times are in milliseconds unless
    /// the name says otherwise.
    pub enum Process {
        /// Ends a manager as SIGKILL does. It restarts after some time.
        "kill" Kill { manager: Manager, away: u32 }
        /// Ends a manager at one of its next writes, before or after the server handles it. It
        /// restarts two seconds later.
        "kill-at-write" KillAtWrite { manager: Manager, nth: u8, applied: bool }
        /// Does the same at one of its next writes of the Lease.
        "kill-at-lease-write" KillAtLeaseWrite { manager: Manager, nth: u8, applied: bool }
        /// Ends a manager as SIGTERM does.
        "stop" Stop { manager: Manager, away: u32 }
        /// Stops all tasks for some time, as the suspension of the host does. Clocks go on.
        "suspend" Suspend { seconds: u32 }
        /// Does the same. If it lasts longer than the Lease, another process has the Lease when the
        /// tasks run again.
        "suspend-past-lease" SuspendPastLease { seconds: u32 }
        /// Runs a manager that writes without a Lease.
        "second-leader" SecondLeader { seconds: u32 }
        /// Sets the clock of a manager's host, which a process reads when it starts.
        "manager-clock" ManagerClock { manager: Manager, seconds: i64 }
        /// Sets the server's clock.
        "server-clock" ServerClock { seconds: i64 }
        /// Sets the server back to the state that it had some time before.
        "restore" Restore { seconds: u32 }
        /// Drops the history from which watches resume.
        "compact" Compact {}
        /// Removes the holder of the Lease, or deletes the Lease.
        "edit-lease" EditLease { delete: bool }
        /// A fault at one of the next requests of the managers in a class, before or after the
        /// server handles it. No seed alone leads here.
        "at-request" AtRequest { request: RequestClass, nth: u8, handled: bool, fault: RequestFault }
    }
}

impl Process {
    /// The word of faults at single requests, which only a sweep places.
    pub const AT_REQUEST: &str = "at-request";
}
