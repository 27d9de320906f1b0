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

/// The answer of the plugin about the Service `web`, from the start of the command to its end.
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
            rows.push(row(start, begin, end, &same[0].verdict, requests));
            begin = end;
        }
        rows
    }
}

fn row(start: f64, begin: f64, end: f64, verdict: &str, requests: &[Request]) -> String {
    let meant = requests.iter().filter(|it| (begin - PROXY..end).contains(&it.at));
    let (failed, answered): (Vec<_>, Vec<_>) = meant.partition(|it| it.answer.is_err());
    let all = failed.len() + answered.len();
    let wrong = (verdict.starts_with("ok ") && failed.len() * 5 > all)
        || (verdict.starts_with("down ") && answered.len() * 5 > all);
    let mark = if wrong { " **differs**" } else { "" };
    format!(
        "  {:6.1} s to {:6.1} s: {} of {all} requests failed{mark}: {verdict}",
        begin - start,
        end - start,
        failed.len()
    )
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
        let row = |failed, verdict| row(90.0, 100.0, 101.0, verdict, &requests(failed));
        insta::assert_snapshot!(
            [row(2, "ok EP000"), row(3, "ok EP000"), row(8, "down EP030"), row(7, "down EP030")].join("\n"),
            @r"
        10.0 s to   11.0 s: 2 of 10 requests failed: ok EP000
        10.0 s to   11.0 s: 3 of 10 requests failed **differs**: ok EP000
        10.0 s to   11.0 s: 8 of 10 requests failed: down EP030
        10.0 s to   11.0 s: 7 of 10 requests failed **differs**: down EP030
        "
        );
    }
}
