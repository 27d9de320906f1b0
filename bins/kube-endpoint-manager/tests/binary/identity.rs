//! Tests the identity of a candidate for the Lease.

use crate::common::Process;

/// Returns the identity with which a process campaigns, from its log.
fn identity(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut process =
        Process::start(folder.path(), &[&["--embedded", "--leader-elect=true", "-v=1"], arguments].concat());
    let line = process.wait_for_line("attempting to acquire leader lease");
    let (_, identity) = line.split_once("identity=\"").unwrap_or_else(|| panic!("no identity: {line}"));
    identity.split('"').next().unwrap().to_owned()
}

#[test]
fn replicas_with_one_seed_have_two_identities() {
    let [one, other] = [(); 2].map(|()| identity(&["--seed=7"]));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let prefix = format!("{}_", host.trim());
    assert!(one.starts_with(&prefix) && other.starts_with(&prefix), "{one} {other}");
    assert_ne!(one, other);
    let given = "--leader-elect-identity=one";
    assert_eq!(identity(&["--seed=7", given]), "one");
}
