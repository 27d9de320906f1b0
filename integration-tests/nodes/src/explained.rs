//! The explanation of the Service while clients ask it, second by second.

use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::ask::{Request, now};
use crate::cluster::Cluster;

/// The time in which kube-proxy programs what the slices say.
const PROXY: f64 = 1.0;

/// The answer of the plugin about the Service `web`, from the start of the command to the end.
#[derive(Clone, Debug, PartialEq)]
struct Explained {
    begin: f64,
    end: f64,
    /// The status, the code and the message.
    verdict: String,
}

/// Asks the plugin once a second until it is told to end.
pub(crate) struct Explaining {
    end: Sender<()>,
    thread: JoinHandle<Vec<Explained>>,
}

impl Explaining {
    /// `program` is the path of the plugin.
    pub(crate) fn new(cluster: &Cluster, program: &Path) -> Self {
        let cluster = Cluster { script: cluster.script.clone() };
        let program = program.to_string_lossy().into_owned();
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || poll(&cluster, &program, &ended));
        Self { end, thread }
    }

    /// Ends, and returns a row for each verdict, as long as it lasted.
    pub(crate) fn finish(self, requests: &[Request]) -> Vec<String> {
        drop(self.end);
        let explained = self.thread.join().unwrap_or_default();
        let mut begin = explained.first().map_or(0.0, |it| it.begin);
        let start = begin;
        let mut rows = Vec::new();
        for same in explained.chunk_by(|a, b| a.verdict == b.verdict) {
            let end = same.last().map_or(begin, |it| it.end);
            let mark = if same.iter().any(|it| it.differs(requests)) { " **differs**" } else { "" };
            let failed = during(begin, end, requests).filter(|it| it.answer.is_err()).count();
            let all = during(begin, end, requests).count();
            let (from, to) = (begin - start, end - start);
            let verdict = &same[0].verdict;
            rows.push(format!(
                "  {from:6.1} s to {to:6.1} s: {failed} of {all} requests failed{mark}: {verdict}"
            ));
            begin = end;
        }
        rows
    }
}

impl Explained {
    /// Returns true if clients contradict the verdict.
    fn differs(&self, requests: &[Request]) -> bool {
        let all = during(self.begin, self.end, requests).count();
        let failed = during(self.begin, self.end, requests).filter(|it| it.answer.is_err()).count();
        let (is_ok, is_down) = (self.verdict.starts_with("ok "), self.verdict.starts_with("down "));
        is_ok && failed * 5 > all || is_down && (all - failed) * 5 > all
    }
}

/// The requests that kube-proxy may have sent by what was true between two times.
fn during(begin: f64, end: f64, requests: &[Request]) -> impl Iterator<Item = &Request> {
    requests.iter().filter(move |it| (begin - PROXY..end).contains(&it.at))
}

fn poll(cluster: &Cluster, program: &str, ended: &Receiver<()>) -> Vec<Explained> {
    let mut all = Vec::new();
    loop {
        let begin = now();
        let mut command = cluster.command(&["run", program, "explain", "web", "--output=json"]);
        let output = command.stdin(Stdio::null()).output();
        let verdict = output.map_or_else(
            |error| error.to_string(),
            |it| verdict(&it.stdout).unwrap_or_else(|| String::from_utf8_lossy(&it.stderr).trim().to_owned()),
        );
        all.push(Explained { begin, end: now(), verdict });
        if ended.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
            return all;
        }
    }
}

fn verdict(json: &[u8]) -> Option<String> {
    let explanation: Value = serde_json::from_slice(json).ok()?;
    let verdict = &explanation["verdict"];
    let text = |name: &str| verdict[name].as_str();
    let code = text("code").or_else(|| verdict["code"]["code"].as_str()).unwrap_or("-");
    Some(format!("{} {code} {}", text("status")?, text("message")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_that_clients_contradict_is_marked() {
        let answer = |failed: bool| match failed {
            false => Ok(("web-1".to_owned(), "follows".to_owned())),
            true => Err("refused".to_owned()),
        };
        let requests = |failed: usize| -> Vec<Request> {
            (0..10)
                .map(|it| Request { at: 100.0 + it as f64 / 10.0, took: 1.0, answer: answer(it < failed) })
                .collect()
        };
        let differs = |failed, verdict: &str| {
            let verdict = verdict.to_owned();
            Explained { begin: 100.0, end: 101.0, verdict }.differs(&requests(failed))
        };
        assert!(!differs(2, "ok EP000") && differs(3, "ok EP000"));
        assert!(!differs(8, "down EP030") && differs(7, "down EP030"));
        assert!(!differs(5, "degraded EP013"));
    }
}
