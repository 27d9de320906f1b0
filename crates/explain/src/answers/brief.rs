//! An explanation of at most 8 KiB, for programs that read no more, such as those that ask a
//! language model. Its size does not depend on that of the cluster.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp, harmless_json, is_harmless};
use serde::Serialize;

use crate::answers::explanation::{Advice, Explanation, ServiceVerdict, Status};
use crate::answers::history::LastChange;
use crate::facts::details::write_optional_time;
use crate::findings::Code;
use crate::findings::code::Severity;
use crate::findings::counts::Counts;
use crate::findings::evidence::{Evidence, EvidenceObject};
use crate::findings::pod::PodExplanation;

/// The most bytes of the document as indented JSON, with its version and its kind.
pub const BRIEF_BYTES: usize = 8 * 1024;

/// The bytes of the version and the kind, and of the numbers in `omitted`, which may still grow.
const RESERVED: usize = 300;

/// The most bytes of a sentence.
const SENTENCE: usize = 1000;

/// The most bytes of another text, such as a name.
const TEXT: usize = 400;

/// The most pods that one reason names.
const EXAMPLES: usize = 3;

/// The short form of an explanation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Brief {
    pub service: ObjectKey,
    /// The state and its cause.
    pub verdict: ServiceVerdict,
    #[serde(serialize_with = "write_optional_time", skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_change: Option<LastChange>,
    /// The finding to which evidence, remedy and commands belong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<BriefCause>,
    /// The fields on which the cause rests.
    pub evidence: Vec<Evidence>,
    /// The remedy for the cause, as a sentence. Empty if the Service is OK.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// The commands of the remedy. They are whole: a part of one may do something else.
    pub commands: Vec<String>,
    /// Sentences about what is not known.
    pub not_known: Vec<String>,
    pub pods_by_publication: Counts,
    /// The pods by their code, the most frequent first.
    pub pods: Vec<BriefPods>,
    pub omitted: Omitted,
}

/// The code and the severity of the cause.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BriefCause {
    pub code: Code,
    pub severity: Severity,
}

/// The pods with one code.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BriefPods {
    pub code: Code,
    pub pods: usize,
    /// Names of some of them.
    pub examples: Vec<Text>,
}

/// The numbers of what a short form leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Omitted {
    /// Findings other than the cause.
    pub findings: usize,
    pub evidence: usize,
    pub commands: usize,
    pub not_known: usize,
    /// Pods that no reason names.
    pub pods: usize,
    /// Texts without their ends.
    pub texts: usize,
}

impl Explanation {
    /// Returns the short form: at most [`BRIEF_BYTES`] of indented JSON.
    pub fn brief(&self) -> Brief {
        let cause: Option<&Advice> = self.to_do.get(self.cause().unwrap_or_default());
        // Nothing has to be done.
        let helped = cause.filter(|_| self.verdict.status != Status::Ok);
        let mut cuts = Cuts::default();
        let ObjectKey { namespace, name } = &self.service;
        let mut brief = Brief {
            service: ObjectKey { namespace: cuts.name(namespace), name: cuts.name(name) },
            verdict: ServiceVerdict {
                message: cuts.text(&self.verdict.message, SENTENCE),
                ..self.verdict.clone()
            },
            since: self.since,
            last_change: self
                .last_change
                .as_ref()
                .map(|change| LastChange { at: change.at, what: cuts.text(&change.what, TEXT) }),
            cause: cause.map(|cause| BriefCause { code: cause.code, severity: cause.severity }),
            evidence: Vec::new(),
            remedy: helped.map(|cause| cuts.text(&cause.remedy.sentence, SENTENCE)).unwrap_or_default(),
            commands: Vec::new(),
            not_known: Vec::new(),
            pods_by_publication: self.pods_by_publication,
            pods: Vec::new(),
            omitted: Omitted::default(),
        };
        let evidence = cause.map_or(&[][..], |cause| &cause.evidence).iter().map(|it| cuts.evidence(it));
        let evidence: Vec<Evidence> = evidence.collect();
        let commands = helped.into_iter().flat_map(|cause| cause.remedy.commands());
        let unknown =
            self.to_do.iter().filter(|it| it.code == Code::NotKnown && it.code != self.verdict.code);
        let unknown = unknown.map(|it| &it.message).chain(&self.not_read);
        let unknown: Vec<String> = unknown.map(|text| cuts.text(text, SENTENCE)).collect();
        let pods = self.pods_by_code(&mut cuts);
        let omitted = Omitted {
            findings: self.to_do.len() - usize::from(cause.is_some()),
            evidence: brief.add(evidence, |brief| &mut brief.evidence),
            commands: brief.add(commands, |brief| &mut brief.commands),
            not_known: brief.add(unknown, |brief| &mut brief.not_known),
            pods: 0,
            texts: cuts.0,
        };
        brief.add(pods, |brief| &mut brief.pods);
        let named: usize = brief.pods.iter().map(|group| group.examples.len()).sum();
        brief.omitted = Omitted { pods: self.pods.len() - named, ..omitted };
        brief
    }

    fn pods_by_code(&self, cuts: &mut Cuts) -> Vec<BriefPods> {
        let mut by_code: BTreeMap<Code, Vec<&PodExplanation>> = BTreeMap::new();
        self.pods.iter().for_each(|pod| by_code.entry(pod.code()).or_default().push(pod));
        let groups = by_code.into_iter().map(|(code, pods)| BriefPods {
            code,
            pods: pods.len(),
            examples: pods.iter().take(EXAMPLES).map(|pod| cuts.name(&pod.name)).collect(),
        });
        let mut groups: Vec<BriefPods> = groups.collect();
        groups.sort_by_key(|group| Reverse(group.pods));
        groups
    }
}

impl Brief {
    /// Adds those items to a list that fit. Returns the number of the others.
    fn add<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        list: impl Fn(&mut Self) -> &mut Vec<T>,
    ) -> usize {
        let mut omitted = 0;
        for item in items {
            list(self).push(item);
            if self.bytes().is_none_or(|bytes| bytes + RESERVED > BRIEF_BYTES) {
                list(self).pop();
                omitted += 1;
            }
        }
        omitted
    }

    /// Returns the number of bytes as indented JSON.
    fn bytes(&self) -> Option<usize> {
        Some(harmless_json(&serde_json::to_string_pretty(self).ok()?).len())
    }
}

/// Cuts texts, and counts them.
#[derive(Default)]
struct Cuts(usize);

impl Cuts {
    /// Returns a text of at most this many bytes of JSON.
    fn text(&mut self, text: &str, most: usize) -> String {
        let mut bytes = 0;
        let fits = |c: &char| {
            bytes += match c {
                '"' | '\\' => 2,
                c if is_harmless(*c) => c.len_utf8(),
                // One escape, or two halves.
                _ => 12,
            };
            bytes <= most
        };
        let kept: String = text.chars().take_while(fits).collect();
        if kept.len() == text.len() {
            return kept;
        }
        self.0 += 1;
        kept + "…"
    }

    fn name(&mut self, name: &Text) -> Text {
        self.text(name, TEXT).into()
    }

    fn evidence(&mut self, evidence: &Evidence) -> Evidence {
        let Evidence { object: EvidenceObject { kind, namespace, name }, field, value } = evidence;
        Evidence {
            object: EvidenceObject {
                kind: kind.clone(),
                namespace: self.name(namespace),
                name: self.name(name),
            },
            field: self.text(field, TEXT),
            value: value.as_ref().map(|value| self.text(value, TEXT)),
        }
    }
}
