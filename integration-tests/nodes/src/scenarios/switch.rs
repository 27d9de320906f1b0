//! A Service whose selector changes: blue/green by one patch, and a canary.

use std::thread::sleep;
use std::time::Duration;

use super::{Bed, POLITE, print};
use crate::ask::{Request, now};
use crate::controllers::Subject;
use crate::figures::Figures;
use crate::workloads::Workload;

const GREEN: Workload<'_> = Workload { name: "green", ..POLITE };
/// The seconds between two changes.
const PAUSE: u64 = 5;

/// A change of the selector, from pods whose names begin with one text to those of another.
struct Switch {
    name: &'static str,
    selector: &'static str,
    from: Option<&'static str>,
    to: Option<&'static str>,
}

const SWITCHES: [Switch; 3] = [
    Switch { name: "blue/green", selector: r#"{"app":"green"}"#, from: Some("web-"), to: Some("green-") },
    Switch { name: "canary", selector: r#"{"app":null,"group":"all"}"#, from: None, to: Some("web-") },
    Switch { name: "back", selector: r#"{"app":"web","group":null}"#, from: Some("green-"), to: None },
];

impl Bed<'_> {
    /// Measures when the last answer of the old pods comes, and the first of the new ones.
    pub(super) fn switch(&self) -> anyhow::Result<()> {
        for subject in [Subject::Upstream, Subject::Ours] {
            subject.start(self.cluster)?;
            POLITE.start(self.cluster)?;
            GREEN.start(self.cluster)?;
            sleep(Duration::from_secs(8));
            let clients = self.clients(&["1", "2"])?;
            sleep(Duration::from_secs(2));
            let mut times = Vec::new();
            for switch in SWITCHES.iter().cycle().take(SWITCHES.len() * self.options.rounds) {
                times.push((now(), switch));
                let patch = format!(r#"--patch={{"spec":{{"selector":{}}}}}"#, switch.selector);
                self.cluster.kubectl(&["patch", "service", "web", "--type=merge", &patch])?;
                sleep(Duration::from_secs(PAUSE));
            }
            let requests = clients.finish()?;
            let failed = Figures::new(self.options.rounds, &requests, Vec::new()).failed();
            print(&format!("{}: {} requests, {failed} failed", subject.name(), requests.len()));
            for switch in &SWITCHES {
                let times = times.iter().filter(|(_, it)| it.name == switch.name).map(|(at, _)| *at);
                let times: Vec<f64> = times.collect();
                let last = switch.from.map(|from| worst(&times, &requests, from, f64::max));
                let first = switch.to.map(|to| worst(&times, &requests, to, f64::min));
                let text = |it: Option<f64>| it.map_or("-".to_owned(), |it| format!("{it:.2} s"));
                print(&format!(
                    "  {}: last answer of the old pods after {}, first of the new ones after {}",
                    switch.name,
                    text(last),
                    text(first)
                ));
            }
        }
        self.cluster.delete("deployment,service", "green")
    }
}

/// Returns the longest of the waits after these times. A wait is the time of the answer that `pick`
/// chooses of those of the pods.
fn worst(times: &[f64], requests: &[Request], pods: &str, pick: fn(f64, f64) -> f64) -> f64 {
    let wait = |at: &f64| {
        let answered = requests.iter().filter(|it| it.answer.as_ref().is_ok_and(|it| it.0.starts_with(pods)));
        let after = answered.map(|it| it.at - at).filter(|it| (0.0..PAUSE as f64).contains(it));
        after.reduce(pick)
    };
    times.iter().filter_map(wait).fold(0.0, f64::max)
}
