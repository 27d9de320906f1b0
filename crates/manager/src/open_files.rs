//! Raises the limit of open files, and keeps connections of clients within it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::settings::Settings;

/// The files that the process opens for itself, and some to spare: outputs, runtimes, connections
/// to the API server for lists, watches, the Lease and 8 writes at a time, and files that it reads
/// again. A leader with the default settings has 27 open, and 42 where the API server has no
/// HTTP/2.
const OWN: usize = 64;

/// The fewest connections of clients that must fit besides, for probes and scrapes.
const FEWEST_CONNECTIONS: usize = 16;

/// The limit is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit of open files is {limit}, and the process needs {}; raise it with `ulimit -n`, or LimitNOFILE in the unit of systemd",
    OWN + FEWEST_CONNECTIONS
)]
pub struct TooFewOpenFiles {
    limit: u64,
}

/// Raises this process's soft limit of open files to the hard limit, as Go's runtime does. Call it
/// before the process opens files or sockets.
///
/// # Errors
///
/// If the limit is too low to run the controllers and to serve probes: an informer, the Lease or a
/// probe would fail at some time.
pub fn raise_open_files_limit() -> Result<(), TooFewOpenFiles> {
    let limit = getrlimit(Resource::Nofile);
    // If the system refuses it, as for a hard limit above the kernel's, the soft limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    check(getrlimit(Resource::Nofile).current)
}

/// Checks a limit; `None` means that there is none.
fn check(limit: Option<u64>) -> Result<(), TooFewOpenFiles> {
    match limit {
        Some(limit) if limit < (OWN + FEWEST_CONNECTIONS) as u64 => Err(TooFewOpenFiles { limit }),
        _ => Ok(()),
    }
}

/// Returns the number of connections that clients may have: `most`, or fewer, so that clients never
/// take the files that the controllers need.
pub(crate) fn connections_that_fit(most: usize, settings: &Settings) -> usize {
    fitting(most, settings.namespaces.len(), getrlimit(Resource::Nofile).current)
}

fn fitting(most: usize, namespaces: usize, limit: Option<u64>) -> usize {
    // At most 64 connections carry the watches of single namespaces over HTTP/2.
    let own = OWN + (5 * namespaces).min(64);
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    most.min(limit.saturating_sub(own).max(FEWEST_CONNECTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_named_with_what_is_needed() {
        assert_eq!(check(None), Ok(()));
        assert_eq!(check(Some(80)), Ok(()));
        let error = check(Some(79)).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"the limit of open files is 79, and the process needs 80; raise it with `ulimit -n`, or LimitNOFILE in the unit of systemd");
    }

    #[test]
    fn clients_leave_the_files_that_the_process_needs() {
        assert_eq!(fitting(400, 0, None), 400);
        assert_eq!(fitting(400, 0, Some(1024)), 400);
        assert_eq!(fitting(400, 0, Some(464)), 400);
        assert_eq!(fitting(400, 0, Some(164)), 100);
        assert_eq!(fitting(400, 2, Some(164)), 90);
        assert_eq!(fitting(400, 300, Some(164)), 36);
        assert_eq!(fitting(400, 300, Some(80)), 16);
        assert_eq!(fitting(8, 0, Some(80)), 8, "tests ask for fewer");
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        raise_open_files_limit().unwrap();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
