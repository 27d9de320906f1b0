//! Plots of files, and the lines of a file for other tests.

use super::*;
use record::{Exit, Process};

/// Returns the lines of forty minutes.
pub(super) fn lines() -> Vec<Line> {
    let start = Start {
        time: "2026-01-01T00:00:00Z".into(),
        command: "manager".into(),
        server: "kube-apiserver v1.36.2".into(),
        work: "1 namespace; 8 changes a second".into(),
        seed: 7,
        cpus: 2,
    };
    let process = |replica: usize, at: f64| Process {
        replica,
        pid: 10 + replica as u32,
        age: at,
        rss_mb: 30.0 + replica as f64,
        descriptors: 19,
        threads: 4,
        cpu_s: at / 100.0,
    };
    let sample = |at: u32| {
        let at = f64::from(at);
        Line::Sample(Sample {
            at,
            replicas: vec![process(0, at), process(1, at)],
            slice_writes: 100,
            endpoints_writes: 80,
            changes: 80,
            calm_ms: vec![20.0, 30.0],
            disturbed_ms: if at == 600.0 { vec![20.0, 9_000.0] } else { Vec::new() },
            ..Sample::default()
        })
    };
    let fault = |at, until, kind| Line::Fault(Happened { at, until, kind, replicas: vec![0] });
    let how = "manager ended by itself (exit status: 1). Its last output:\n    error: leader election lost";
    let mut lines = vec![
        Line::Start(start),
        fault(100.0, 101.5, Kind::Cut),
        fault(200.0, 230.0, Kind::Stall),
        fault(300.0, 330.0, Kind::Stall),
        Line::Exit(Exit { at: 240.0, replica: 0, by_itself: true, how: how.into() }),
        Line::Exit(Exit { at: 250.0, replica: 1, by_itself: false, how: String::new() }),
    ];
    lines.extend((10..=2_400).step_by(10).map(sample));
    lines.push(Line::End(End {
        at: 2_700.0,
        quiet_after: 10.5,
        changes: [("pod replaced".to_owned(), 300), ("readiness of a pod".to_owned(), 900)].into(),
        own_writes: 0,
        upstream_writes: Some(0),
        checked_for: 120.0,
    }));
    lines
}

#[test]
fn plots_are_made_of_a_file_that_may_end_early() {
    let folder = tempfile::tempdir().unwrap();
    let (file, output) = (folder.path().join("soak.jsonl"), folder.path().join("plots"));
    let recorder = Recorder::create(&file).unwrap();
    lines()[..20].iter().for_each(|line| recorder.write(line).unwrap());
    let options = PlotOptions { file: file.clone(), output: output.clone() };
    assert!(plot(&options).unwrap().unwrap().contains("bytes stalled"));
    let svg = std::fs::read_to_string(output.join("soak-memory.svg")).unwrap();
    assert!(svg.contains("\nreplica 1\n"), "{svg}");
    std::fs::write(&file, "{}").unwrap();
    assert_eq!(plot(&options).unwrap(), None, "the file is one of `growth`");
}
