use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};

use kube_endpoint_api_writer::{Operation, SyncContext, WriteError};
use kube_endpoint_core_model::{ObjectKey, ResourceVersion};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn clock() -> Clock {
    Clock::starting_at("2026-12-01T00:00:00.5Z".parse().unwrap())
}

/// Opens an audit log, and returns it with its metrics.
fn open(path: &Path) -> (AuditLog, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let log = metrics::with_local_recorder(&recorder, || AuditLog::open(path, clock()).unwrap());
    (log, recorder.handle())
}

/// Records the create of an object with this name.
fn write(log: &AuditLog, name: &str) {
    let object = ObjectKey::new("shop", name);
    log.observer("endpointslice-controller").wrote(&WriteRecord {
        operation: Operation::Create,
        kind: "EndpointSlice",
        object: &object,
        version_before: None,
        version_after: Some(ResourceVersion(7)),
        code: Some(201),
        error: None,
        sync: None,
    });
}

/// Returns the names in the lines of a file. All lines must be JSON.
fn names(path: &Path) -> Vec<String> {
    let lines = fs::read_to_string(path).unwrap();
    let name = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["name"].as_str().unwrap().to_owned()
    };
    lines.lines().map(name).collect()
}

fn count(metrics: &PrometheusHandle, series: &str) -> u64 {
    let page = metrics.render();
    let line =
        page.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{series}: {page}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

const WRITTEN: &str = "audit_log_lines_total ";
const QUEUE_FULL: &str = r#"audit_log_lost_lines_total{reason="queue_full"}"#;
const WRITE_FAILED: &str = r#"audit_log_lost_lines_total{reason="write_failed"}"#;

/// The log escapes the answers of a server or webhook, since somebody may read it in a terminal.
#[tokio::test]
async fn hostile_text_is_escaped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let (log, _) = open(&path);
    let hostile = "\u{1b}[2J\u{9b}m\u{202e}\n";
    let object = ObjectKey::new("shop", hostile);
    let error = WriteError::Refused { code: 403, message: hostile.to_owned() };
    log.observer("endpointslice-controller").wrote(&WriteRecord {
        operation: Operation::Create,
        kind: "EndpointSlice",
        object: &object,
        version_before: None,
        version_after: None,
        code: Some(403),
        error: Some(&error),
        sync: None,
    });
    log.flush(LONG).await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.trim_end().chars().all(kube_endpoint_core_model::is_harmless), "{text:?}");
    assert_eq!(names(&path), [hostile]);
}

#[tokio::test]
async fn a_line_has_the_write_its_answer_and_the_sync_with_its_cause() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let (log, _) = open(&path);
    let context =
        SyncContext::new("endpoint_slice".into(), ObjectKey::new("shop", "web"), vec!["pod", "retry"]);
    let observer = log.observer("endpointslice-controller");
    context
        .scope(async {
            SyncContext::note(|details| {
                details.trigger_time = Some("2026-11-30T23:59:59Z".parse().unwrap());
                (details.pods, details.outputs, details.endpoints) = (Some(3), Some(1), Some(2));
                details.updates = 1;
            });
            let object = ObjectKey::new("shop", "web-abc");
            let update = WriteRecord {
                operation: Operation::Update,
                kind: "EndpointSlice",
                object: &object,
                version_before: Some(ResourceVersion(4)),
                version_after: Some(ResourceVersion(5)),
                code: Some(200),
                error: None,
                sync: Some(&context),
            };
            observer.wrote(&update);
            let conflict = WriteError::Conflict("it changed:\n\"really\"".into());
            let (code, version_after) = (Some(409), None);
            observer.wrote(&WriteRecord { error: Some(&conflict), code, version_after, ..update });
            let lost = WriteError::Unknown("no answer".into());
            let (code, version_before) = (None, None);
            observer.wrote(&WriteRecord {
                error: Some(&lost),
                code,
                version_after,
                version_before,
                sync: None,
                ..update
            });
        })
        .await;
    log.flush(LONG).await;
    let text = fs::read_to_string(&path).unwrap();
    // The clock of the log runs during the test.
    let without_time = |line: &str| {
        let rest = line.strip_prefix("{\"time\":\"2026-12-01T00:0").unwrap();
        format!("{{{}", rest.split_once("Z\",").unwrap().1)
    };
    insta::assert_snapshot!(text.lines().map(without_time).collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn the_file_is_for_its_owner_only_and_is_appended_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    for name in ["one", "two"] {
        let (log, _) = open(&path);
        write(&log, name);
        log.flush(LONG).await;
    }
    assert_eq!(names(&path), ["one", "two"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[tokio::test]
async fn a_file_that_was_renamed_or_deleted_is_opened_anew() {
    let directory = tempfile::tempdir().unwrap();
    let (path, rotated) = (directory.path().join("audit.log"), directory.path().join("audit.log.1"));
    let (log, metrics) = open(&path);
    write(&log, "one");
    log.flush(LONG).await;
    fs::rename(&path, &rotated).unwrap();
    write(&log, "two");
    log.flush(LONG).await;
    assert_eq!((names(&rotated), names(&path)), (vec!["one".to_owned()], vec!["two".to_owned()]));
    fs::remove_file(&path).unwrap();
    write(&log, "three");
    log.flush(LONG).await;
    assert_eq!(names(&path), ["three"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    // Truncates the file in place.
    fs::write(&path, "").unwrap();
    write(&log, "four");
    log.flush(LONG).await;
    assert_eq!(names(&path), ["four"]);
    assert_eq!(count(&metrics, WRITTEN), 4);
}

#[tokio::test]
async fn a_fifo_needs_a_reader_and_never_blocks_the_caller() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let error = AuditLog::open(&path, clock()).err().unwrap().to_string();
    assert!(error.contains("it is a FIFO that no process reads"), "{error}");
    // This handle also counts as a reader of the FIFO.
    let reader = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let (log, metrics) = open(&path);
    // More than a pipe holds.
    let lines = 1000;
    (0..lines).for_each(|number| write(&log, &format!("s{number}")));
    log.flush(Duration::from_millis(100)).await;
    assert!(count(&metrics, WRITTEN) < lines, "the pipe was full");
    let mut read = BufReader::new(reader).lines();
    for number in 0..lines {
        let line: serde_json::Value = serde_json::from_str(&read.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["name"], format!("s{number}"));
    }
    log.flush(LONG).await;
    assert_eq!((count(&metrics, WRITTEN), count(&metrics, WRITE_FAILED)), (lines, 0));
}

#[tokio::test]
async fn lines_are_lost_and_counted_while_the_disk_is_full_and_written_when_it_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    symlink("/dev/full", &path).unwrap();
    let (log, metrics) = open(&path);
    write(&log, "one");
    write(&log, "two");
    log.flush(LONG).await;
    assert_eq!((count(&metrics, WRITE_FAILED), count(&metrics, WRITTEN)), (2, 0));
    fs::remove_file(&path).unwrap();
    write(&log, "three");
    log.flush(LONG).await;
    assert_eq!(names(&path), ["three"]);
    // The directory is gone, and comes back.
    let directory = directory.keep();
    fs::remove_dir_all(&directory).unwrap();
    write(&log, "four");
    log.flush(LONG).await;
    assert_eq!((count(&metrics, WRITE_FAILED), count(&metrics, WRITTEN)), (3, 1));
    fs::create_dir(&directory).unwrap();
    write(&log, "five");
    log.flush(LONG).await;
    assert_eq!(names(&path), ["five"]);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_line_after_a_torn_one_begins_on_a_line_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let mut output = Output::open(&path).unwrap();
    output.append(b"one\n").unwrap();
    output.tear(b"tw");
    output.append(b"three\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntw\nthree\n");
}

#[expect(clippy::disallowed_methods, reason = "its thread does not wait for tokio's clock")]
#[tokio::test]
async fn an_output_that_is_not_read_delays_nobody_and_its_lines_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    // Opens the FIFO for both, because opening it for one would wait. Nobody reads from it.
    let reader = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let (log, metrics) = open(&path);
    let started = std::time::Instant::now();
    let lines = 2 * CAPACITY;
    for _ in 0..lines {
        write(&log, "one");
    }
    assert!(started.elapsed() < LONG);
    assert!(count(&metrics, QUEUE_FULL) > 0);
    let started = std::time::Instant::now();
    log.flush(Duration::from_millis(50)).await;
    assert!(started.elapsed() < LONG, "a shutdown waits for no longer than its limit");
    assert!(log.waiting.load(Ordering::Acquire) > 0);
    drop(reader);
}

#[test]
fn a_path_that_cannot_be_opened_is_an_error() {
    let error = AuditLog::open(Path::new("/no/such/directory/audit.log"), clock()).err().unwrap();
    insta::assert_snapshot!(error, @"cannot open the audit log /no/such/directory/audit.log: No such file or directory (os error 2); give the path of a file that can be created or appended to");
}
