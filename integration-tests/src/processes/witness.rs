//! Reads the request log of the API server, one JSON line for each request, and derives tenures and
//! answers from it.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cluster::service_of;

/// The kinds that the controllers write.
const OUTPUTS: [&str; 2] = ["endpoints", "endpointslices"];

/// One request. The log has requests in the order of their answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The arrival of the request, in microseconds since the server started.
    pub received: u64,
    /// The time of the answer, in microseconds since the server started.
    pub at: u64,
    pub user: String,
    /// `User-Agent`.
    pub agent: String,
    /// Such as `update`.
    pub verb: String,
    /// Such as `endpointslices`, or empty.
    pub resource: String,
    /// Such as `status`, or empty.
    pub subresource: String,
    /// Empty if there is no name.
    pub name: String,
    /// HTTP status, or 0 if the connection broke.
    pub status: u16,
}

impl Line {
    /// Returns the arrival of the request, as the time since the server started.
    pub fn arrival(&self) -> Duration {
        Duration::from_micros(self.received)
    }

    /// Returns the time of the answer, since the server started.
    pub fn time(&self) -> Duration {
        Duration::from_micros(self.at)
    }

    /// Returns true if it is a write.
    pub fn is_write(&self) -> bool {
        matches!(&*self.verb, "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Returns true if it is a write of Endpoints or an EndpointSlice, successful or not.
    pub fn writes_output(&self) -> bool {
        self.is_write() && OUTPUTS.contains(&&*self.resource)
    }

    /// Returns true if the server carried it out.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Reads the log while the server writes it.
#[derive(Debug)]
pub struct Witness {
    path: PathBuf,
    read: u64,
    lines: Vec<Line>,
}

impl Witness {
    /// Returns the log in `path`.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: 0, lines: Vec::new() }
    }

    /// Returns all requests so far, oldest first. A line that the server has not finished yet is
    /// left for the next call.
    ///
    /// # Panics
    ///
    /// If reading the log fails.
    pub fn lines(&mut self) -> &[Line] {
        let mut file = File::open(&self.path).unwrap();
        file.seek(SeekFrom::Start(self.read)).unwrap();
        let mut reader = BufReader::new(file);
        let mut text = String::new();
        while reader.read_line(&mut text).unwrap() > 0 && text.ends_with('\n') {
            self.read += text.len() as u64;
            self.lines.push(serde_json::from_str(&text).unwrap());
            text.clear();
        }
        &self.lines
    }
}

/// Writes of outputs by one user without one of another user in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    pub user: String,
    /// The time of the answer to the first of the writes.
    pub first: Duration,
    /// The time of the answer to the last of the writes.
    pub last: Duration,
    pub writes: usize,
}

/// Returns the users that wrote outputs, in order. If each user occurs once, no two wrote at the
/// same time.
pub fn tenures(lines: &[Line]) -> Vec<Tenure> {
    let mut tenures: Vec<Tenure> = Vec::new();
    for line in lines.iter().filter(|line| line.writes_output()) {
        match tenures.last_mut().filter(|tenure| tenure.user == line.user) {
            Some(tenure) => (tenure.last, tenure.writes) = (line.time(), tenure.writes + 1),
            None => tenures.push(Tenure {
                user: line.user.clone(),
                first: line.time(),
                last: line.time(),
                writes: 1,
            }),
        }
    }
    tenures
}

/// A change of a pod and the first write for its Service after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The arrival of the request for the change.
    pub changed: Duration,
    pub service: String,
    /// The time until a write of an output of the Service arrived, or `None` if there was no such
    /// write.
    pub after: Option<Duration>,
}

/// Returns the changes of pods' status and their answers: the next successful update of the
/// Service's object of `resource`, which is `endpoints` or `endpointslices`. A create does not
/// count, because its path does not name the object.
pub fn answers(lines: &[Line], resource: &str) -> Vec<Answer> {
    let mut next_write: std::collections::HashMap<&str, Duration> = std::collections::HashMap::new();
    let mut answers = Vec::new();
    let mut writes: Vec<&Line> =
        lines.iter().filter(|line| line.succeeded() && line.is_write() && !line.name.is_empty()).collect();
    // A controller may answer a change before the answer to the change is ready.
    writes.sort_by_key(|line| line.received);
    for line in writes.into_iter().rev() {
        if line.resource == resource {
            let service = if resource == "endpoints" { &*line.name } else { service_of(&line.name) };
            next_write.insert(service, line.arrival());
        } else if line.resource == "pods" && line.subresource == "status" {
            let service = service_of(&line.name);
            let after = next_write.get(service).map(|written| *written - line.arrival());
            answers.push(Answer { changed: line.arrival(), service: service.to_owned(), after });
        }
    }
    answers.reverse();
    answers
}

/// Returns the longest time that an answer took.
///
/// # Panics
///
/// If there are no changes, or a change has no answer.
pub fn worst(answers: &[Answer]) -> Duration {
    let unanswered: Vec<&Answer> = answers.iter().filter(|answer| answer.after.is_none()).collect();
    assert!(unanswered.is_empty(), "changes without an answer: {unanswered:?}");
    answers.iter().filter_map(|answer| answer.after).max().expect("no pod changed")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line(at: u64, user: &str, verb: &str, object: &str, status: u16) -> Line {
        let mut parts = object.split('/').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let (resource, name, subresource) = (next(), next(), next());
        Line {
            received: at,
            at: at + 1,
            user: user.to_owned(),
            verb: verb.to_owned(),
            resource,
            name,
            subresource,
            status,
            ..Line::default()
        }
    }

    #[test]
    fn writers_that_take_turns_have_several_tenures() {
        let lines = [
            line(1, "a", "create", "endpointslices", 201),
            line(2, "b", "update", "leases/x", 200),
            line(3, "a", "update", "endpoints/s", 409),
            line(4, "b", "list", "endpoints", 200),
            line(5, "b", "delete", "endpointslices/s-x", 200),
            line(6, "a", "update", "endpoints/s", 200),
        ];
        let found: Vec<(String, u128, usize)> = tenures(&lines)
            .into_iter()
            .map(|it| (it.user, (it.last - it.first).as_micros(), it.writes))
            .collect();
        let expected = [("a", 2, 2), ("b", 0, 1), ("a", 0, 1)];
        assert_eq!(found, expected.map(|(user, length, writes)| (user.to_owned(), length, writes)));
    }

    #[test]
    fn an_answer_is_the_next_successful_update_of_the_same_service() {
        let lines = [
            line(10, "t", "patch", "pods/s-1-0/status", 200),
            line(11, "a", "update", "endpointslices/s-2-abc", 200),
            line(12, "a", "update", "endpointslices/s-1-abc", 409),
            line(13, "t", "patch", "pods/s-2-0/status", 200),
            line(15, "a", "update", "endpointslices/s-1-abc", 200),
            line(16, "a", "update", "endpoints/s-2", 200),
        ];
        let after = |resource| -> Vec<Option<u128>> {
            answers(&lines, resource).iter().map(|it| it.after.map(|after| after.as_micros())).collect()
        };
        assert_eq!(after("endpointslices"), [Some(5), None]);
        assert_eq!(after("endpoints"), [None, Some(3)]);
        assert_eq!(worst(&answers(&lines, "endpointslices")[..1]), Duration::from_micros(5));
    }

    #[test]
    #[should_panic(expected = "changes without an answer")]
    fn a_change_without_an_answer_is_a_failure() {
        worst(&answers(&[line(10, "t", "patch", "pods/s-1-0/status", 200)], "endpoints"));
    }

    #[test]
    fn an_unfinished_line_is_read_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = File::create(&path).unwrap();
        let text = serde_json::to_string(&line(1, "a", "get", "pods/x", 200)).unwrap();
        let mut witness = Witness::new(&path);
        write!(file, "{text}\n{}", &text[..10]).unwrap();
        assert_eq!(witness.lines().len(), 1);
        writeln!(file, "{}", &text[10..]).unwrap();
        assert_eq!(witness.lines(), [line(1, "a", "get", "pods/x", 200), line(1, "a", "get", "pods/x", 200)]);
    }
}
