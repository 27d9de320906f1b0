//! Reads audit logs and metrics line by line: a log may be larger than memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use kube_endpoint_explain::retire::{AuditLog, Metrics};

/// The longest line that is read, in bytes. Events with whole objects are shorter than a few of
/// these; a file without line ends must not fill the memory.
const LONGEST_LINE: usize = 16 << 20;

/// Reads audit logs; one of them may be standard input. Returns `None` if there are none.
///
/// # Errors
///
/// An error if a file cannot be read, or has no audit event.
pub(super) fn audit_log(files: &[PathBuf]) -> anyhow::Result<Option<AuditLog>> {
    let is_stdin = |file: &&PathBuf| *file == Path::new("-");
    ensure!(
        files.iter().filter(is_stdin).count() <= 1,
        "--audit-log - is standard input, so it can be given once"
    );
    let mut all: Option<AuditLog> = None;
    for file in files {
        let log = all.get_or_insert_default();
        log.begin();
        let before = (log.lines(), log.events());
        let name = if is_stdin(&file) {
            "standard input".to_owned()
        } else {
            format!("the audit log {}", file.display())
        };
        if is_stdin(&file) {
            add_log(std::io::stdin().lock(), &name, log)?;
        } else {
            add_log(open(file, &name)?, &name, log)?;
        }
        let (lines, events) = (log.lines() - before.0, log.events() - before.1);
        ensure!(lines > 0, "{name} is empty; give an audit log that has events");
        if events == 0 {
            let lines = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
            bail!(
                "{name} has no audit event in {lines}; each line has to be an event of audit.k8s.io as JSON"
            );
        }
    }
    Ok(all)
}

fn add_log(read: impl BufRead, name: &str, log: &mut AuditLog) -> anyhow::Result<()> {
    lines(read, name, |line| match line {
        Some(line) => log.add(line),
        None => log.add_damaged(),
    })
}

/// Reads metrics of API servers, one file for each. Returns `None` if there are none.
///
/// # Errors
///
/// An error if a file cannot be read, or has no metrics of an API server.
pub(super) fn metrics(files: &[PathBuf]) -> anyhow::Result<Option<Vec<Metrics>>> {
    let mut all = Vec::new();
    for file in files {
        let name = format!("the file {}", file.display());
        let mut metrics = Metrics::default();
        lines(open(file, &name)?, &name, |line| {
            if let Some(line) = line {
                metrics.add(&String::from_utf8_lossy(line));
            }
        })?;
        ensure!(
            metrics.is_of_api_server(),
            "{name} has no metrics of an API server; write it with `kubectl get --raw /metrics`"
        );
        all.push(metrics);
    }
    Ok(Some(all).filter(|all| !all.is_empty()))
}

fn open(file: &Path, name: &str) -> anyhow::Result<BufReader<File>> {
    let opened = File::open(file).with_context(|| format!("{name} cannot be read"))?;
    Ok(BufReader::with_capacity(1 << 16, opened))
}

/// Hands each line over, without its end, or `None` for one that is too long.
fn lines(mut read: impl BufRead, name: &str, mut each: impl FnMut(Option<&[u8]>)) -> anyhow::Result<()> {
    let failed = || format!("{name} cannot be read");
    let start = read.fill_buf().with_context(failed)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        bail!(
            "{name} is compressed with gzip; unpack it, or for an audit log: `zcat FILE | kubectl diagnose-svc retire --audit-log -`"
        );
    }
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX);
        if read.by_ref().take(limit).read_until(b'\n', &mut line).with_context(failed)? == 0 {
            return Ok(());
        }
        if line.last() == Some(&b'\n') || line.len() < LONGEST_LINE {
            each(Some(&line));
        } else {
            each(None);
            read.skip_until(b'\n').with_context(failed)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_read() {
        let event = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get"}"#;
        let mut text = vec![b'x'; LONGEST_LINE + 5];
        text.push(b'\n');
        text.extend(event);
        let mut log = AuditLog::default();
        add_log(&*text, "the text", &mut log).unwrap();
        assert_eq!((log.lines(), log.events()), (2, 1));
        let mut exact = vec![b' '; LONGEST_LINE - event.len() - 1];
        exact.extend(event);
        exact.push(b'\n');
        exact.extend(event);
        let mut log = AuditLog::default();
        add_log(&*exact, "the text", &mut log).unwrap();
        assert_eq!((log.lines(), log.events()), (2, 2));
    }
}
