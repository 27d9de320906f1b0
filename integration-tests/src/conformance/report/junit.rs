//! The report in the XML of JUnit, which GitLab and Jenkins show.

use std::io;

use kube_endpoint_controllers::harmless;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::{HandOver, Outcome, Report, Written};

/// A test case.
struct Case {
    name: String,
    seconds: f64,
    result: Result,
}

enum Result {
    Passed,
    Skipped(String),
    /// The message, and the details.
    Failed(String, String),
}

impl Report {
    /// Returns the report as XML. Characters that XML cannot hold are escaped as Rust does.
    ///
    /// # Errors
    ///
    /// This does not fail: it writes to memory.
    pub fn junit(&self) -> io::Result<String> {
        let suites = [
            ("recordings", self.recording_cases()),
            ("hand-over", self.hand_over_cases()),
            ("run", self.run_cases()),
        ];
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
        writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let all = counts(suites.iter().flat_map(|(_, cases)| cases));
        let name = format!("conformance on Kubernetes {}", shown(&self.server.version));
        let root = writer.create_element("testsuites").with_attribute(("name", &*name));
        root.with_attributes(borrowed(&all)).write_inner_content(|writer| {
            for (name, cases) in &suites {
                let started = format!("{:.0}", self.started);
                let attributes = [("name", *name), ("timestamp", started.trim_end_matches('Z'))];
                let suite = writer.create_element("testsuite").with_attributes(attributes);
                suite.with_attributes(borrowed(&counts(cases))).write_inner_content(|writer| {
                    cases.iter().try_for_each(|case| case.write(writer, name))
                })?;
            }
            Ok(())
        })?;
        Ok(String::from_utf8_lossy(&writer.into_inner()).into_owned() + "\n")
    }

    fn recording_cases(&self) -> Vec<Case> {
        let case = |recording: &super::Recording| {
            let result = match &recording.outcome {
                Outcome::Passed => Result::Passed,
                Outcome::Skipped(reason) => Result::Skipped(reason.clone()),
                Outcome::Failed(failures) => {
                    let steps: Vec<&str> = failures.iter().map(|failure| &*failure.step).collect();
                    let details: String = failures.iter().map(ToString::to_string).collect();
                    Result::Failed(format!("step {}", steps.join(", ")), details)
                }
            };
            Case { name: recording.name.clone(), seconds: recording.took.as_secs_f64(), result }
        };
        self.recordings.iter().map(case).collect()
    }

    fn run_cases(&self) -> Vec<Case> {
        let of = |(name, failed): (&str, Option<String>)| {
            case(name, failed.map_or(Result::Passed, |reason| Result::Failed(first_line(&reason), reason)))
        };
        self.parts().into_iter().map(of).collect()
    }

    fn hand_over_cases(&self) -> Vec<Case> {
        match &self.hand_over {
            HandOver::Skipped(reason) => vec![case("hand-over", Result::Skipped(reason.clone()))],
            HandOver::Failed(reason) => {
                vec![case("hand-over", Result::Failed(first_line(reason), reason.clone()))]
            }
            HandOver::Played(played) => {
                let listed = |written: &[Written]| {
                    written.iter().map(|it| format!("{}\n{}", it.object, it.change)).collect::<String>()
                };
                let details = [listed(&played.taken_over), played.still_due.clone(), listed(&played.back)];
                let parts = played.parts().into_iter().zip(details);
                let of = |((name, failed), details): ((&str, Option<String>), String)| {
                    case(name, failed.map_or(Result::Passed, |reason| Result::Failed(reason, details)))
                };
                parts.map(of).collect()
            }
        }
    }
}

impl Case {
    fn write(&self, writer: &mut Writer<Vec<u8>>, suite: &str) -> io::Result<()> {
        let (name, seconds) = (shown(&self.name), format!("{:.1}", self.seconds));
        let attributes = [("classname", suite), ("name", &*name), ("time", &*seconds)];
        let case = writer.create_element("testcase").with_attributes(attributes);
        match &self.result {
            Result::Passed => case.write_empty().map(drop),
            Result::Skipped(reason) => case
                .write_inner_content(|writer| {
                    let skipped = writer.create_element("skipped");
                    skipped.with_attribute(("message", &*shown(reason))).write_empty().map(drop)
                })
                .map(drop),
            Result::Failed(message, details) => case
                .write_inner_content(|writer| {
                    let failure = writer.create_element("failure");
                    let failure = failure.with_attribute(("message", &*shown(message)));
                    let details: Vec<String> = details.lines().map(shown).collect();
                    failure.write_text_content(BytesText::new(&details.join("\n"))).map(drop)
                })
                .map(drop),
        }
    }
}

/// Returns a test case that took no time of its own.
fn case(name: &str, result: Result) -> Case {
    Case { name: name.to_owned(), seconds: 0.0, result }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the attributes that count test cases.
fn counts<'a>(cases: impl IntoIterator<Item = &'a Case>) -> [(&'static str, String); 5] {
    let [mut tests, mut failures, mut skipped] = [0; 3];
    let mut seconds = 0.0;
    for case in cases {
        tests += 1;
        failures += u32::from(matches!(case.result, Result::Failed(..)));
        skipped += u32::from(matches!(case.result, Result::Skipped(_)));
        seconds += case.seconds;
    }
    [
        ("tests", tests.to_string()),
        ("failures", failures.to_string()),
        ("errors", "0".to_owned()),
        ("skipped", skipped.to_string()),
        ("time", format!("{seconds:.1}")),
    ]
}

fn borrowed<'a>(attributes: &'a [(&'static str, String)]) -> impl Iterator<Item = (&'a str, &'a str)> {
    attributes.iter().map(|(name, value)| (*name, &**value))
}

/// Returns a text on one line, with characters that XML can hold.
fn shown(text: &str) -> String {
    harmless(text, usize::MAX).into_owned()
}
