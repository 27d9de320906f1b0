//! Writes lint reports in the XML of JUnit, which GitLab and Jenkins show.
//!
//! A Service is a test case, so that a CI system that compares two reports tells which Services
//! have been repaired. It fails if it has a problem with which the command fails. A slice or
//! Endpoints without a Service is a test case, too.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use kube_endpoint_core_model::{ObjectKey, harmless};
use kube_endpoint_explain::{FailOn, Lint, LintReport};
use quick_xml::Writer;
use quick_xml::events::BytesText;

/// The maximum number of characters of a message.
const LONGEST: usize = 10_000;

/// The name of the suite, and of the test case that tells which kinds could not be read.
const PROGRAM: &str = "kubectl-diagnose-svc lint";

/// The problems of one object.
#[derive(Default)]
struct Case<'a> {
    failing: Vec<&'a Lint>,
    others: Vec<&'a Lint>,
}

/// The numbers of a suite.
#[derive(Default)]
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

impl Counts {
    fn attributes(&self) -> [(&'static str, String); 4] {
        let of = |name, count: usize| (name, count.to_string());
        [
            of("tests", self.tests),
            of("failures", self.failures),
            of("errors", self.errors),
            of("skipped", self.skipped),
        ]
    }
}

/// Returns the report as XML. Characters that XML cannot hold, or that a terminal would obey, are
/// escaped as in tables.
///
/// # Errors
///
/// This does not fail: it writes to memory.
pub(crate) fn junit(report: &LintReport, fail_on: FailOn) -> io::Result<String> {
    // By namespace, then by kind and name. A problem of the cluster has no namespace.
    let mut suites: BTreeMap<&str, BTreeMap<(&str, &str), Case<'_>>> = BTreeMap::new();
    fn case<'s, 'a>(
        suites: &'s mut BTreeMap<&'a str, BTreeMap<(&'a str, &'a str), Case<'a>>>,
        kind: &'a str,
        object: &'a ObjectKey,
    ) -> &'s mut Case<'a> {
        let namespace = if object.namespace.is_empty() { "cluster" } else { &*object.namespace };
        suites.entry(namespace).or_default().entry((kind, &object.name)).or_default()
    }
    for service in &report.checked {
        case(&mut suites, "Service", service);
    }
    for lint in &report.problems {
        let case = case(&mut suites, lint.kind, &lint.object);
        if fail_on.fails(lint.severity) { &mut case.failing } else { &mut case.others }.push(lint);
    }
    let is_incomplete = report.is_incomplete(fail_on);
    let of_reading = Counts {
        tests: 1,
        errors: usize::from(is_incomplete),
        skipped: usize::from(!is_incomplete && !report.not_read.is_empty()),
        failures: 0,
    };
    let counts = |cases: &BTreeMap<_, Case<'_>>| Counts {
        tests: cases.len(),
        failures: cases.values().filter(|case| !case.failing.is_empty()).count(),
        ..Counts::default()
    };
    let all = suites.values().map(counts).fold(Counts { ..of_reading }, |sum, one| Counts {
        tests: sum.tests + one.tests,
        failures: sum.failures + one.failures,
        ..sum
    });
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(quick_xml::events::Event::Decl(quick_xml::events::BytesDecl::new(
        "1.0",
        Some("UTF-8"),
        None,
    )))?;
    element(&mut writer, "testsuites", &[("name", PROGRAM)], &all).write_inner_content(|writer| {
        element(writer, "testsuite", &[("name", PROGRAM), ("time", "0")], &of_reading)
            .write_inner_content(|writer| reading(writer, report, is_incomplete))?;
        for (namespace, cases) in &suites {
            let name = shown(namespace);
            element(writer, "testsuite", &[("name", &name), ("time", "0")], &counts(cases))
                .write_inner_content(|writer| {
                    cases.iter().try_for_each(|((kind, name), of)| {
                        test_case(writer, namespace, &format!("{kind} {name}"), of)
                    })
                })?;
        }
        Ok(())
    })?;
    Ok(String::from_utf8_lossy(&writer.into_inner()).into_owned() + "\n")
}

/// Escapes a text of a cluster, so that it has one line.
fn shown(text: &str) -> Cow<'_, str> {
    harmless(text, LONGEST)
}

fn element<'w>(
    writer: &'w mut Writer<Vec<u8>>,
    name: &'w str,
    attributes: &[(&str, &str)],
    counts: &Counts,
) -> quick_xml::writer::ElementWriter<'w, Vec<u8>> {
    let counts = counts.attributes();
    let counts = counts.iter().map(|(name, count)| (*name, &**count));
    writer.create_element(name).with_attributes(attributes.iter().copied().chain(counts))
}

/// Writes the test case that tells which kinds could not be read.
fn reading(writer: &mut Writer<Vec<u8>>, report: &LintReport, is_incomplete: bool) -> io::Result<()> {
    let attributes = [("classname", PROGRAM), ("name", "all objects could be read"), ("time", "0")];
    let case = writer.create_element("testcase").with_attributes(attributes);
    let notes: Vec<Cow<'_, str>> = report.not_read.iter().map(|note| shown(note)).collect();
    let message = notes.join(" ");
    match (report.not_read.is_empty(), is_incomplete) {
        (true, _) => case.write_empty().map(drop),
        (false, is_incomplete) => case
            .write_inner_content(|writer| {
                let name = if is_incomplete { "error" } else { "skipped" };
                writer.create_element(name).with_attribute(("message", &*message)).write_empty().map(drop)
            })
            .map(drop),
    }
}

fn test_case(writer: &mut Writer<Vec<u8>>, namespace: &str, name: &str, of: &Case<'_>) -> io::Result<()> {
    let (namespace, name) = (shown(namespace), shown(name));
    let attributes = [("classname", &*namespace), ("name", &*name), ("time", "0")];
    let case = writer.create_element("testcase").with_attributes(attributes);
    if of.failing.is_empty() && of.others.is_empty() {
        return case.write_empty().map(drop);
    }
    let text =
        |problems: &[&Lint]| problems.iter().map(|lint| paragraph(lint)).collect::<Vec<_>>().join("\n");
    case.write_inner_content(|writer| {
        if let [worst, more @ ..] = &*of.failing {
            let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
            let message = format!("{} {}: {}{more}", worst.code, worst.name, shown(&worst.message));
            let attributes = [("type", worst.code.id()), ("message", &*message)];
            let failure = writer.create_element("failure").with_attributes(attributes);
            failure.write_text_content(BytesText::new(&text(&of.failing)))?;
        }
        if !of.others.is_empty() {
            let out = writer.create_element("system-out");
            out.write_text_content(BytesText::new(&text(&of.others)))?;
        }
        Ok(())
    })
    .map(drop)
}

/// Returns a problem with its remedy, in lines.
fn paragraph(lint: &Lint) -> String {
    let Lint { severity, code, name, remedy, .. } = lint;
    let [said, advised] = lint.sentences();
    let mut lines = vec![format!("{severity} {code} {name}: {}", shown(&said)), shown(&advised).into_owned()];
    lines.extend(remedy.commands().map(|command| format!("  {}", shown(&command))));
    lines.push(code.address());
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use kube_endpoint_explain::{LintOptions, Objects, Options, Severity, lint};
    use quick_xml::Reader;
    use quick_xml::events::Event;
    use serde_json::{Value, json};

    use super::*;

    fn report(objects: impl IntoIterator<Item = Value>) -> LintReport {
        let objects = Objects::read(objects).unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        lint(&objects, now, &Options::default(), &LintOptions { include_info: true, ..Default::default() })
    }

    fn service(name: &str, spec: Value) -> Value {
        json!({"kind": "Service", "metadata": {"name": name, "namespace": "shop"}, "spec": spec})
    }

    fn objects() -> [Value; 4] {
        let ports = json!([{"port": 80}]);
        [
            service("nobody", json!({"selector": {"app": "x"}, "ports": &ports})),
            service("alias", json!({"type": "ExternalName", "externalName": "example.com"})),
            // Somebody else writes its endpoints.
            service("database", json!({"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": &ports})),
            json!({"kind": "EndpointSlice", "metadata": {"name": "database-1", "namespace": "shop",
                    "labels": {"kubernetes.io/service-name": "database"}}, "addressType": "IPv4",
                "ports": [{"name": "", "port": 5432, "protocol": "TCP"}], "endpoints": [{"addresses": ["10.9.9.9"]}]}),
        ]
    }

    /// Returns the names and attributes of the elements, after their end and order were checked.
    fn elements(xml: &str) -> Vec<(String, BTreeMap<String, String>)> {
        let mut reader = Reader::from_str(xml);
        reader.config_mut().check_end_names = true;
        let mut found = Vec::new();
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => return found,
                Event::Start(tag) | Event::Empty(tag) => {
                    let attribute = |attribute: quick_xml::events::attributes::Attribute<'_>| {
                        let name = attribute.key.as_ref().to_owned();
                        let value = quick_xml::escape::unescape(&attribute.value).unwrap().into_owned();
                        (name, value)
                    };
                    let attributes = tag.attributes().map(|it| attribute(it.unwrap())).collect();
                    found.push((tag.name().as_ref().to_owned(), attributes));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn each_service_is_a_test_case() {
        insta::assert_snapshot!(junit(&report(objects()), FailOn::default()).unwrap());
    }

    #[test]
    fn a_test_case_fails_if_the_command_does() {
        let report = report(objects());
        let failing = |severity| {
            let fail_on = FailOn { severity, strict: false };
            let xml = junit(&report, fail_on).unwrap();
            let failures = elements(&xml).iter().filter(|(name, _)| name == "failure").count();
            assert_eq!(report.exit_code(fail_on) == 1, failures > 0);
            failures
        };
        assert_eq!(failing(Some(Severity::Error)), 1);
        assert_eq!(failing(None), 0);
    }

    #[test]
    fn counts_are_those_of_the_elements() {
        let mut report = report(objects());
        report.not_read = vec!["You may not read pods.".to_owned()];
        report.known.pods = false;
        let all = elements(&junit(&report, FailOn::default()).unwrap());
        let count = |name: &str| all.iter().filter(|(element, _)| element == name).count().to_string();
        let (_, sums) = &all[0];
        for (attribute, element) in
            [("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")]
        {
            assert_eq!(sums[attribute], count(element), "{attribute}");
        }
        assert_eq!(sums["errors"], "1");
    }

    #[test]
    fn nodes_alone_are_skipped_unless_strict() {
        let mut report = report([]);
        report.not_read = vec!["You may not read nodes.".to_owned()];
        report.known.nodes = false;
        let names = |strict| {
            let fail_on = FailOn { strict, ..FailOn::default() };
            let all = elements(&junit(&report, fail_on).unwrap());
            all.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(false), "testsuites testsuite testcase skipped");
        assert_eq!(names(true), "testsuites testsuite testcase error");
    }

    #[test]
    fn hostile_text_ends_no_element_and_holds_only_characters_of_xml() {
        let hostile = "\"'<>&]]><!--\u{0}\u{1b}[2J\u{b}\u{9b}\u{fffe}\u{ffff}\u{202e}\r\n\t</failure><x a='";
        let mut report = report(objects());
        report.not_read = vec![hostile.to_owned()];
        for lint in &mut report.problems {
            lint.message = hostile.to_owned();
            lint.remedy.sentence = hostile.to_owned();
            lint.object = ObjectKey::new(hostile, hostile);
        }
        let xml = junit(&report, FailOn::default()).unwrap();
        let names: std::collections::BTreeSet<_> = elements(&xml).into_iter().map(|(name, _)| name).collect();
        let known = ["error", "failure", "system-out", "testcase", "testsuite", "testsuites"];
        assert_eq!(names.into_iter().collect::<Vec<_>>(), known);
        assert!(xml.chars().all(|c| c == '\n' || kube_endpoint_core_model::is_harmless(c)), "{xml:?}");
    }
}
