//! A soak of a few seconds with the real controllers as processes, on an embedded API server.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kube_endpoint_integration_tests::processes::binary;
use serde_json::Value;

fn scale() -> Command {
    Command::new(env!("CARGO_BIN_EXE_scale"))
}

/// Runs a soak of a small cluster. With this seed, the first fault stops both replicas.
fn soak(output: &Path) -> Output {
    let program = binary(Path::new(env!("CARGO_BIN_EXE_scale")));
    // A standby takes over soon.
    let manager = format!(
        "'{}' --kubeconfig={{kubeconfig}} --secure-port=0 --leader-elect-lease-duration=2s --leader-elect-renew-deadline=1500ms \
         --leader-elect-retry-period=200ms",
        program.display()
    );
    let mut command = scale();
    command.args([
        "soak",
        "--for=5s",
        "--services=6",
        "--pods=24",
        "--nodes=2",
        "--namespaces=2",
        "--rate=20",
    ]);
    command.args(["--fault-every=0.8", "--sample=0.5", "--settle=0.7", "--check=1"]);
    command.arg("--seed=8").arg("--command").arg(manager).arg("--output").arg(output);
    command.stdin(Stdio::null()).output().unwrap()
}

fn lines(file: &Path, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["line"] == kind).collect()
}

#[test]
fn a_soak_survives_faults_and_restarts_and_ends_with_nothing_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let output = soak(folder.path());
    let file = folder.path().join("soak.jsonl");
    let faults = lines(&file, "fault");
    assert!(output.status.success(), "{output:?}\n{faults:#?}");
    let kinds: BTreeSet<&str> = faults.iter().map(|fault| fault["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains("terminate"), "{kinds:?}");
    assert!(kinds.contains("cut") || kinds.contains("refuse") || kinds.contains("stall"), "{kinds:?}");
    assert!(lines(&file, "exit").iter().any(|exit| exit["by_itself"] == false));
    let samples = lines(&file, "sample");
    let processes: BTreeSet<u64> = samples
        .iter()
        .flat_map(|sample| sample["replicas"].as_array().unwrap())
        .map(|process| process["pid"].as_u64().unwrap())
        .collect();
    assert!(processes.len() > 2, "{processes:?}");
    let of = |key: &str| samples.iter().map(|sample| sample[key].as_u64().unwrap()).sum::<u64>();
    assert!(of("changes") > 50 && of("slice_writes") > 20 && of("endpoints_writes") > 20, "{samples:#?}");
    let end = &lines(&file, "end")[0];
    assert_eq!((&end["own_writes"], &end["upstream_writes"]), (&0.into(), &Value::Null), "{end:#}");

    let table = String::from_utf8(output.stdout).unwrap();
    for text in ["2 namespaces, 6 Services, 24 pods", "readiness of a pod", "latency around faults"] {
        assert!(table.contains(text), "{text} is missing in\n{table}");
    }
    let again = folder.path().join("again");
    let plot = scale().arg("plot").arg(&file).arg("-o").arg(&again).output().unwrap();
    assert!(plot.status.success(), "{plot:?}");
    assert_eq!(String::from_utf8(plot.stdout).unwrap(), table);
    for name in ["soak-memory.svg", "soak-descriptors.svg", "soak-latency.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(svg.starts_with("<svg"));
        assert_eq!(svg, std::fs::read_to_string(again.join(name)).unwrap());
    }
}
