use std::fs;

use super::*;

fn machine(boot_id: &str, seconds: u64) -> Machine {
    Machine { boot_id: boot_id.to_owned(), uptime: Duration::from_secs(seconds) }
}

/// Starts a process on a file with this content. Returns what the file says then, and the former
/// identity or the reason why there is none.
fn start(text: &str, identity: &str, machine: &Machine) -> (String, String) {
    let (record, former) = Record::succeed(text, identity, machine);
    (record.text(), former.unwrap_or_else(|why| why.to_string()))
}

#[test]
fn a_process_after_a_killed_one_knows_its_identity() {
    let (left, why) = start("", "a1", &machine("boot", 100));
    assert_eq!(left, r#"{"bootId":"boot","crashed":null,"identity":"a1"}"#);
    assert_eq!(why, "no process has left its identity");
    let (left, former) = start(&left, "a2", &machine("boot", 200));
    assert_eq!(left, r#"{"bootId":"boot","crashed":200.0,"identity":"a2"}"#);
    assert_eq!(former, "a1");
}

#[test]
fn a_second_crash_within_ten_minutes_proves_nothing_and_a_later_one_does() {
    let mut text = start("", "a0", &machine("boot", 0)).0;
    let mut check = |identity: &str, seconds: u64, want: &str| {
        let (left, former) = start(&text, identity, &machine("boot", seconds));
        assert_eq!(former, want, "{text} at {seconds}");
        text = left;
    };
    check("a1", 1000, "a0");
    let again = |identity: &str, ago: &str| {
        format!(
            "the former process {identity} had followed a crash {ago} ago; a standby takes over when the lease expires"
        )
    };
    check("a2", 1599, &again("a1", "599s"));
    // The crash that was not followed by a take-back counts, too.
    check("a3", 2198, &again("a2", "599s"));
    check("a4", 2798, "a3");
    // The clock went back, which a machine's uptime does not.
    check("a5", 10, &again("a4", "0ns"));
}

#[test]
fn a_process_that_ended_in_order_leaves_no_identity_and_its_crashes_stay_known() {
    let (first, _) = Record::succeed("", "a1", &machine("boot", 0));
    let (mut second, former) = Record::succeed(&first.text(), "a2", &machine("boot", 100));
    assert_eq!(former, Ok("a1".to_owned()));
    second.end_in_order();
    let (third, former) = Record::succeed(&second.text(), "a3", &machine("boot", 200));
    assert_eq!(former, Err(NoFormer::EndedInOrder));
    let (_, former) = Record::succeed(&third.text(), "a4", &machine("boot", 300));
    let ago = Duration::from_secs(200);
    assert_eq!(former, Err(NoFormer::CrashedAgain { identity: "a3".into(), ago }));
}

#[test]
fn a_record_of_another_boot_proves_nothing() {
    let (left, _) = start("", "a1", &machine("boot", 100));
    let (left, why) = start(&left, "a2", &machine("boot2", 100));
    assert_eq!(why, "the machine has booted since the record was written");
    assert_eq!(
        start(&left, "a3", &machine("boot2", 101)).1,
        "a2",
        "the crashes of another boot do not count"
    );
}

#[test]
fn anything_but_a_record_proves_nothing_and_is_replaced() {
    for text in [
        " ",
        "a1",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"identity":"a1"}"#,
        r#"{"identity":"","bootId":"boot"}"#,
        r#"{"identity":7,"bootId":"boot"}"#,
        r#"{"identity":"a1","bootId":7}"#,
        r#"{"identity":"a1","bootId":"boot","crashed":"x"}"#,
        r#"{"identity":"a1","bootId":"boot","crashed":-1}"#,
        r#"{"identity":"a1","bootId":"boot","crashed":1e300}"#,
        r#"{"identity":"a1","bootId":"boot"}{"identity":"a1","bootId":"boot"}"#,
        r#"{"identity":"a1","bootId":"bo"#,
        "\u{fffd}\u{fffd}",
    ] {
        let (record, former) = Record::succeed(text, "a2", &machine("boot", 1));
        assert_eq!(former, Err(NoFormer::NoRecord), "{text}");
        assert_eq!(Record::succeed(&record.text(), "a3", &machine("boot", 2)).1, Ok("a2".to_owned()));
    }
}

fn open(path: &Path, identity: &str) -> (IdentityFile, Result<String, NoFormer>) {
    IdentityFile::open(path, identity).unwrap()
}

#[test]
fn a_file_names_the_process_that_locked_it_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity");
    let (file, former) = open(&path, "a-long-identity");
    assert_eq!(former, Err(NoFormer::FirstStart));
    drop(file);
    let (file, former) = open(&path, "a2");
    assert_eq!(former, Ok("a-long-identity".to_owned()));
    drop(file);
    let (_, former) = open(&path, "a3");
    assert!(
        matches!(&former, Err(NoFormer::CrashedAgain { identity, .. }) if identity == "a2"),
        "{former:?}"
    );
    // The time between two crashes.
    let text = fs::read_to_string(&path).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["bootId"], fs::read_to_string(BOOT_ID).unwrap().trim());
    record["crashed"] = (Machine::read().unwrap().uptime.as_secs_f64() - 601.0).into();
    if record["crashed"].as_f64() > Some(0.0) {
        fs::write(&path, record.to_string()).unwrap();
        assert_eq!(open(&path, "a4").1, Ok("a3".to_owned()));
    }
}

#[test]
fn a_process_that_ends_in_order_leaves_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity");
    let (mut file, _) = open(&path, "a1");
    file.end_in_order().unwrap();
    assert!(
        matches!(IdentityFile::open(&path, "x"), Err(IdentityFileError::Locked(_))),
        "it is not over yet"
    );
    drop(file);
    assert_eq!(open(&path, "a2").1, Err(NoFormer::EndedInOrder));
}

#[test]
fn a_file_that_a_living_process_has_locked_proves_nothing_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity");
    let (living, _) = open(&path, "a1");
    let before = fs::read_to_string(&path).unwrap();
    let error = IdentityFile::open(&path, "a2").unwrap_err();
    assert_eq!(error.to_string(), format!("another process has locked {}", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    drop(living);
    assert_eq!(open(&path, "a3").1, Ok("a1".to_owned()));
}

#[test]
fn a_long_file_is_read_in_part_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity");
    let (record, _) = Record::succeed("", "a1", &Machine::read().unwrap());
    fs::write(&path, record.text() + &" ".repeat(1 << 20)).unwrap();
    assert_eq!(open(&path, "a2").1, Ok("a1".to_owned()));
    assert!(fs::metadata(&path).unwrap().len() < 200);
    fs::write(&path, [0xff; 5000]).unwrap();
    assert_eq!(open(&path, "a3").1, Err(NoFormer::NoRecord));
    assert!(fs::metadata(&path).unwrap().len() < 200);
}

#[test]
fn a_file_that_cannot_be_made_or_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/identity");
    let error = IdentityFile::open(&missing, "a").unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot open {}: ", missing.display())), "{error}");
    let error = IdentityFile::open(folder.path(), "a").unwrap_err().to_string();
    assert!(error.contains("cannot open"), "a folder: {error}");
    // A file system that is read-only, as a container's root.
    let error = IdentityFile::open(Path::new("/proc/kube-endpoint-manager"), "a").unwrap_err().to_string();
    assert!(error.contains("cannot open"), "{error}");
    // A disk that is full.
    let error = IdentityFile::open(Path::new("/dev/full"), "a").unwrap_err().to_string();
    assert!(error.contains("/dev/full: "), "{error}");
}
