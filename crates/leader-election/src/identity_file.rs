//! The proof that the former process of a container has ended: a file that each process locks and
//! leaves its identity in.
//!
//! A container that is killed restarts in the same pod, and finds a Lease that its former process
//! holds. The system releases the lock of a file when the last thread of the process that holds it
//! has ended. So a process that gets the lock knows that the process named in the file has ended,
//! if the file is from this machine and this boot. It may take back a Lease of exactly this holder
//! ([`Elector::with_former`](crate::Elector::with_former)), and needs not wait until the Lease
//! expires.
//!
//! A process that ends often would keep the Lease from a standby that works. So if the former
//! process had followed a crash, too, less than [`CRASH_PERIOD`] ago, the Lease is left to expire.
//!
//! [`Record::succeed`] decides, from the text of the file and the state of the machine.
//! [`IdentityFile`] locks, reads and writes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

/// The time in which a second crash leaves the Lease to the standbys.
pub const CRASH_PERIOD: Duration = Duration::from_secs(600);
/// The longest file that is read, in bytes. An identity is shorter than a name of an object.
const LONGEST: u64 = 4096;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const UPTIME: &str = "/proc/uptime";

/// The state of the machine at the start of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The random identifier of the present boot.
    pub boot_id: String,
    /// The time since the boot. All processes share this clock, and nobody sets it.
    pub uptime: Duration,
}

impl Machine {
    /// Reads the state from `/proc`.
    ///
    /// # Errors
    ///
    /// The error of reading a file, or that a file has no valid value.
    pub fn read() -> io::Result<Self> {
        let boot_id = std::fs::read_to_string(BOOT_ID)?.trim().to_owned();
        let uptime = std::fs::read_to_string(UPTIME)?;
        let uptime = uptime.split(' ').next().and_then(|seconds| seconds.trim().parse().ok());
        let uptime = uptime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match uptime {
            Some(uptime) if !boot_id.is_empty() => Ok(Self { boot_id, uptime }),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("no values in {BOOT_ID} and {UPTIME}"),
            )),
        }
    }
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The process that locked the file last, or `None` if it has ended in order.
    identity: Option<String>,
    boot_id: String,
    /// The [`Machine::uptime`] at the last start after a crash.
    crashed: Option<Duration>,
}

/// The reason why a process takes back no Lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFormer {
    #[error("no process has left its identity")]
    FirstStart,
    #[error("the content is not the record of a process")]
    NoRecord,
    #[error("the machine has booted since the record was written")]
    OtherBoot,
    /// It released the Lease if it held it.
    #[error("the former process ended in order")]
    EndedInOrder,
    #[error(
        "the former process {identity} had followed a crash {ago:?} ago; a standby takes over when the lease expires"
    )]
    CrashedAgain { identity: String, ago: Duration },
}

impl Record {
    /// Returns the record of a process that has the lock, and the identity of the former process
    /// if it has ended without a release. `text` is the content of the file.
    pub fn succeed(text: &str, identity: &str, machine: &Machine) -> (Self, Result<String, NoFormer>) {
        let mut record =
            Self { identity: Some(identity.to_owned()), boot_id: machine.boot_id.clone(), crashed: None };
        if text.is_empty() {
            return (record, Err(NoFormer::FirstStart));
        }
        let Some(before) = Self::parse(text) else { return (record, Err(NoFormer::NoRecord)) };
        if before.boot_id != machine.boot_id {
            return (record, Err(NoFormer::OtherBoot));
        }
        let Some(former) = before.identity else {
            record.crashed = before.crashed;
            return (record, Err(NoFormer::EndedInOrder));
        };
        record.crashed = Some(machine.uptime);
        let ago = before.crashed.map(|crashed| machine.uptime.saturating_sub(crashed));
        match ago.filter(|ago| *ago < CRASH_PERIOD) {
            Some(ago) => (record, Err(NoFormer::CrashedAgain { identity: former, ago })),
            None => (record, Ok(former)),
        }
    }

    /// Notes that the process ends in order: it has released the Lease, or does not hold it.
    pub fn end_in_order(&mut self) {
        self.identity = None;
    }

    /// Returns the content of the file.
    pub fn text(&self) -> String {
        let crashed = self.crashed.map(|crashed| crashed.as_secs_f64());
        json!({"identity": self.identity, "bootId": self.boot_id, "crashed": crashed}).to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        let record: Value = serde_json::from_str(text).ok()?;
        let identity = match &record["identity"] {
            Value::Null => None,
            identity => Some(identity.as_str().filter(|identity| !identity.is_empty())?.to_owned()),
        };
        let boot_id = record["bootId"].as_str()?.to_owned();
        let crashed = match &record["crashed"] {
            Value::Null => None,
            seconds => Some(Duration::try_from_secs_f64(seconds.as_f64()?).ok()?),
        };
        Some(Self { identity, boot_id, crashed })
    }
}

/// The reason why a file proves nothing and takes no record.
#[derive(Debug, thiserror::Error)]
pub enum IdentityFileError {
    /// Another process has the lock, so it has not ended.
    #[error("another process has locked {}", .0.display())]
    Locked(PathBuf),
    #[error("cannot {what} {}: {error}", .file.display())]
    Io { what: &'static str, file: PathBuf, error: io::Error },
}

/// A locked file with the identity of this process.
///
/// Keep it until the process has ended: whoever gets the lock takes this process for dead.
#[derive(Debug)]
pub struct IdentityFile {
    file: File,
    path: PathBuf,
    record: Record,
}

impl IdentityFile {
    /// Locks the file, and writes `identity` into it. Makes the file if it does not exist. Also
    /// returns the identity of the former process if it has ended without a release.
    ///
    /// # Errors
    ///
    /// [`IdentityFileError`]. The file then does not name this process, unless the write failed at
    /// its end.
    pub fn open(path: &Path, identity: &str) -> Result<(Self, Result<String, NoFormer>), IdentityFileError> {
        let failed = |what, file: &Path| {
            let file = file.to_owned();
            move |error| IdentityFileError::Io { what, file, error }
        };
        let machine = Machine::read().map_err(failed("read", Path::new("/proc")))?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(failed("open", path))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => IdentityFileError::Locked(path.to_owned()),
            TryLockError::Error(error) => failed("lock", path)(error),
        })?;
        let mut bytes = Vec::new();
        (&file).take(LONGEST).read_to_end(&mut bytes).map_err(failed("read", path))?;
        let text = String::from_utf8_lossy(&bytes);
        let (record, former) = Record::succeed(&text, identity, &machine);
        let mut this = Self { file, path: path.to_owned(), record };
        this.write()?;
        Ok((this, former))
    }

    /// Notes that this process ends in order: it has released the Lease, or does not hold it. The
    /// file stays locked.
    ///
    /// # Errors
    ///
    /// [`IdentityFileError::Io`]. The next process then takes this end for a crash.
    pub fn end_in_order(&mut self) -> Result<(), IdentityFileError> {
        self.record.end_in_order();
        self.write()
    }

    /// Writes the record. The file keeps its inode, which has the lock. Half of a record is none.
    fn write(&mut self) -> Result<(), IdentityFileError> {
        let written = (|| {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(self.record.text().as_bytes())
        })();
        written.map_err(|error| IdentityFileError::Io { what: "write", file: self.path.clone(), error })
    }
}

#[cfg(test)]
mod tests;
