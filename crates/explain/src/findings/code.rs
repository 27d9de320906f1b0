//! Codes: the stable names of all findings of an explanation. `docs/verdicts.md` has a section for
//! each.

use std::fmt;
use std::str::FromStr;

use kube_endpoint_core_model::page_of_docs;
use serde::{Serialize, Serializer};

use crate::findings::{About, Code};

/// The severity of a finding. Ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, without anything to do.
    Info,
    /// Part of the Service does not work, or stops working soon.
    Warning,
    /// Clients get no answer, or wrong ones.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A text that is neither the identifier nor the name of a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no code; write one such as `EP012` or `port-name-not-found` ({page} lists all)", page = PAGE)]
pub struct UnknownCode(pub String);

/// The page that describes the codes.
const PAGE: &str = page_of_docs!("verdicts.md");

/// The meaning of a code: its section of `docs/verdicts.md`, without its example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CodeExplanation {
    pub code: Code,
    pub name: &'static str,
    pub severity: Severity,
    /// The meaning, as one sentence.
    pub title: &'static str,
    /// When the finding holds, what it means, how its severity is decided. Lines end where those of
    /// a terminal may.
    pub text: String,
    /// The address of the section.
    pub page: String,
}

impl Code {
    /// Returns the identifier, such as `EP012`.
    pub fn id(self) -> &'static str {
        self.about().id
    }

    /// Returns the name, such as `port-name-not-found`.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// Returns the severity, unless a finding states another.
    pub fn severity(self) -> Severity {
        self.about().severity
    }

    /// Returns the meaning, as one sentence.
    pub fn title(self) -> &'static str {
        self.about().title
    }

    /// Returns true if the code may only mean that a write is under way. It is a problem if it is
    /// still there some seconds later.
    pub fn may_be_under_way(self) -> bool {
        self.about().may_be_under_way
    }

    /// Returns the address of the page that describes all codes.
    pub fn page() -> &'static str {
        PAGE
    }

    /// Returns what the code means: its section of `docs/verdicts.md`, without links and example.
    pub fn explanation(self) -> CodeExplanation {
        let About { name, severity, title, .. } = *self.about();
        CodeExplanation {
            code: self,
            name,
            severity,
            title,
            text: without_links(&self.about().text()),
            page: self.address(),
        }
    }

    /// Returns the address of the description of the code.
    pub fn address(self) -> String {
        format!("{PAGE}#{}-{}", self.id().to_lowercase(), self.name())
    }
}

/// Replaces each link of Markdown by its text.
fn without_links(markdown: &str) -> String {
    let (mut text, mut rest) = (String::new(), markdown);
    while let Some((before, after)) = rest.split_once("](") {
        let Some((_, end)) = after.split_once(')') else { break };
        let (start, label) = before.rsplit_once('[').unwrap_or((before, ""));
        text.extend([start, label]);
        rest = end;
    }
    text + rest
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    /// Reads an identifier or a name, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let is =
            |code: &&Self| code.id().eq_ignore_ascii_case(text) || code.name().eq_ignore_ascii_case(text);
        Self::ALL.iter().find(is).copied().ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_ascend_and_names_are_unique() {
        assert!(Code::ALL.is_sorted_by(|one, two| one.id() < two.id()));
        let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, two| one < two));
    }

    #[test]
    fn identifiers_and_names_have_one_form() {
        for code in Code::ALL {
            let digits = code.id().strip_prefix("EP").unwrap_or_default();
            assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{code}");
            assert!(code.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{code}");
            assert!(code.title().ends_with('.'), "{code}");
        }
    }

    #[test]
    fn a_code_is_read_by_identifier_or_name() {
        let check = |text: &str, want: Option<Code>| assert_eq!(text.parse().ok(), want, "{text}");
        check("EP012", Some(Code::PortNameNotFound));
        check("ep012", Some(Code::PortNameNotFound));
        check("port-name-not-found", Some(Code::PortNameNotFound));
        check("EP999", None);
        check("", None);
    }

    #[test]
    fn the_documentation_has_no_links() {
        assert_eq!(
            without_links("see [EP073](#ep073-x) and [a](b), or [c] (d)"),
            "see EP073 and a, or [c] (d)"
        );
        assert!(Code::ALL.iter().all(|code| !code.explanation().text.contains("](")));
    }

    #[test]
    fn an_unknown_code_is_an_error_that_says_what_to_write() {
        insta::assert_snapshot!(
            "EP1".parse::<Code>().unwrap_err(),
            @r#""EP1" is no code; write one such as `EP012` or `port-name-not-found` (https://github.com/kube-endpoint-manager/kube-endpoint-manager/blob/main/docs/verdicts.md lists all)"#
        );
    }
}
