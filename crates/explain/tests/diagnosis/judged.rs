//! Compares what the program says about a case with what is right.

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::references::{REFERRERS, Referrer, is_namespaced};
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{
    Code, LintOptions, LintReport, Objects, Options, Remedy, Status, explain, explain_backends, explain_pod,
    lint,
};
use kube_endpoint_testing::Cluster;

use super::followed;
use crate::fault_manifests::Fault;

/// The answer to a case, and what is wrong with it.
pub(crate) struct Judged {
    /// The code of the first finding, or that of no finding.
    pub(crate) first: Option<Code>,
    pub(crate) text: String,
    /// Sentences about the parts that are not right.
    pub(crate) wrong: Vec<String>,
    /// True if a fault is called no fault.
    pub(crate) is_false_ok: bool,
    /// True if something is wrong with a healthy cluster.
    pub(crate) is_false_alarm: bool,
}

/// The parts of an explanation that a test compares.
struct Answer {
    first: Option<Code>,
    is_fine: bool,
    text: String,
    remedy: Remedy,
}

/// No line is wrapped.
const LAYOUT: Layout = Layout { columns: 100_000, ..Layout::NARROW };

fn options(case: &Fault) -> Options {
    case.options().with_known(case.known())
}

fn linted(case: &Fault, objects: &Objects) -> LintReport {
    lint(objects, case.now(), &options(case), &LintOptions::default()).with_root_cause(case.now())
}

/// Explains the subject of a case.
fn answer(case: &Fault, cluster: &Cluster) -> Option<Answer> {
    let (objects, options, key) = (case.readable(cluster), options(case), case.key());
    let topology = objects.topology();
    match case.subject.split_once('/')?.0 {
        "service" => {
            let said = explain(&objects, &key, &topology, case.now(), None, &options)?;
            let first = said.to_do.first();
            Some(Answer {
                first: Some(first.map_or(Code::Published, |advice| advice.code)),
                is_fine: matches!(said.verdict.status, Status::Ok | Status::NoEndpoints),
                text: said.text(LAYOUT, case.now()).render(Colors::Off),
                remedy: first.map(|advice| advice.remedy.clone()).unwrap_or_default(),
            })
        }
        "pod" => {
            let said = explain_pod(&objects, &key, &topology, case.now(), &options)?;
            let bad = said.services.iter().find(|one| one.code != Code::Published);
            Some(Answer {
                first: bad.or(said.services.first()).map(|one| one.code),
                is_fine: said.is_published(),
                text: said.text(LAYOUT, case.now()).render(Colors::Off),
                remedy: bad.and_then(|one| one.pod.remedy()).unwrap_or_default(),
            })
        }
        kind => {
            let kind = *REFERRERS.iter().find(|one| one.eq_ignore_ascii_case(kind))?;
            let namespace = if is_namespaced(kind) { "default" } else { "" };
            let of = Referrer { kind, object: ObjectKey::new(namespace, &*key.name) };
            let said = explain_backends(&objects, &of, case.now(), &options)?;
            let first = said.to_do.first().map(|advised| &advised.advice);
            Some(Answer {
                first: Some(first.map_or(Code::Published, |advice| advice.code)),
                is_fine: matches!(said.status, Status::Ok | Status::NoEndpoints),
                text: said.text(LAYOUT).render(Colors::Off),
                remedy: first.map(|advice| advice.remedy.clone()).unwrap_or_default(),
            })
        }
    }
}

/// Returns the answer to a case, and what is wrong with it.
pub(crate) fn judge(case: &Fault) -> Judged {
    let cluster = case.settled(case.now(), &case.options());
    let report = linted(case, &case.readable(&cluster));
    let mut text = String::new();
    let mut wrong = Vec::new();
    let answer = answer(case, &cluster);
    match &answer {
        Some(answer) => text.push_str(&answer.text),
        None => wrong.push(format!("{} cannot be explained", case.subject)),
    }
    if !report.problems.is_empty() {
        text.push_str(&format!("\nlint:\n{}", report.text(LAYOUT).render(Colors::Off)));
    }
    let said = answer.as_ref().map_or("", |answer| &*answer.text).to_lowercase();
    let first = answer.as_ref().and_then(|answer| answer.first);
    let is_fine = answer.as_ref().is_some_and(|answer| answer.is_fine);
    let (is_false_alarm, is_false_ok) = match case.healthy {
        true => (!is_fine || !report.problems.is_empty(), false),
        false => (false, is_fine),
    };
    if is_false_alarm {
        wrong.push("it is healthy, and not called so".to_owned());
    }
    if is_false_ok {
        wrong.push("it is called healthy".to_owned());
    }
    if !case.healthy {
        if report.problems.is_empty() && case.subject.starts_with("service/") {
            wrong.push("lint is silent".to_owned());
        }
        if first.is_none_or(|first| first.id() != case.code) {
            let first = first.map_or("none", Code::id);
            wrong.push(format!("the first code is {first}, not {}", case.code));
        }
    }
    let lacks = case.says.iter().filter(|words| !said.contains(&words.to_lowercase()));
    wrong.extend(lacks.map(|words| format!("it does not say {words:?}")));
    let has = case.says_not.iter().filter(|words| said.contains(&words.to_lowercase()));
    wrong.extend(has.map(|words| format!("it says {words:?}")));
    if !case.receives.is_empty()
        && let Some(answer) = &answer
    {
        wrong.extend(followed::follow(case, cluster, &answer.remedy).err());
    }
    Judged { first, text, wrong, is_false_ok, is_false_alarm }
}

/// Returns the sentence of what is still wrong, after the remedy.
pub(super) fn is_right(case: &Fault, cluster: &Cluster) -> Result<(), String> {
    let report = linted(case, &case.readable(cluster));
    match report.problems.first() {
        Some(lint) => Err(format!("after the remedy, there is {}: {}", lint.code, lint.message)),
        None => Ok(()),
    }
}
