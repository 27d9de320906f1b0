//! A label selector, as `kubectl -l` and the query parameter `labelSelector` have it (apimachinery
//! `labels.Parse`).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::StringMap;

/// A selector by labels. It selects an object that meets all requirements; without requirements it
/// selects everything.
///
/// ```
/// use kube_endpoint_core_model::{LabelSelector, StringMap};
/// let selector: LabelSelector = "tier in (web, api), !legacy".parse()?;
/// let labels: StringMap = [("tier", "api")].into_iter().collect();
/// assert!(selector.matches(&labels));
/// assert_eq!(selector.to_string(), "!legacy,tier in (api,web)");
/// # Ok::<(), kube_endpoint_core_model::InvalidLabelSelector>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector(Arc<[Requirement]>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    Exists,
    DoesNotExist,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

/// Why a label selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLabelSelector {
    /// A requirement has none of the known forms.
    #[error(
        "{0:?} is no requirement; write `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key`, `!key`, \
         `key>1` or `key<1`"
    )]
    Requirement(String),
    /// The key of a label is invalid.
    #[error(
        "{0:?} is no key of a label; write a name of letters, digits, `-`, `_` and `.`, at most 63 characters long, \
         optionally after a DNS subdomain and `/`"
    )]
    Key(String),
    /// The value of a label is invalid.
    #[error(
        "{0:?} is no value of a label; write letters, digits, `-`, `_` and `.`, at most 63 characters, and a letter or a \
         digit at both ends"
    )]
    Value(String),
    /// A value to compare with is no integer.
    #[error("{0:?} is no integer, which `>` and `<` need")]
    Integer(String),
}

impl LabelSelector {
    /// Returns true if labels meet all requirements. An absent label meets `!=`, `notin` and
    /// `!key`.
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// Returns true if this selects everything.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }
}

impl Requirement {
    fn matches(&self, labels: &StringMap) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.condition {
            Condition::Exists => value.is_some(),
            Condition::DoesNotExist => value.is_none(),
            Condition::In(values) => value.is_some_and(|value| values.contains(&**value)),
            Condition::NotIn(values) => value.is_none_or(|value| !values.contains(&**value)),
            Condition::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Condition::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }

    fn parse(text: &str) -> Result<Self, InvalidLabelSelector> {
        use Token::{Symbol, Word};

        let invalid = || InvalidLabelSelector::Requirement(text.trim_matches(is_space).to_owned());
        // A value that is missing is empty.
        let value = |tokens: &[Token<'_>]| match tokens {
            [] => checked_value(""),
            [Word(value)] => checked_value(value),
            _ => Err(invalid()),
        };
        let one = |tokens: &[Token<'_>]| Ok(BTreeSet::from([value(tokens)?]));
        let list = |tokens: &[Token<'_>]| {
            tokens.split(|token| *token == Symbol(",")).map(value).collect::<Result<BTreeSet<_>, _>>()
        };
        let integer = |tokens: &[Token<'_>]| {
            let value = value(tokens)?;
            value.parse().map_err(|_| InvalidLabelSelector::Integer(value))
        };
        match tokens(text).as_slice() {
            [Word(key)] => Self::new(key, Condition::Exists),
            [Symbol("!"), Word(key)] => Self::new(key, Condition::DoesNotExist),
            [Word(key), Symbol("=" | "=="), value @ ..] => Self::new(key, Condition::In(one(value)?)),
            [Word(key), Symbol("!="), value @ ..] => Self::new(key, Condition::NotIn(one(value)?)),
            [Word(key), Symbol(">"), value @ ..] => Self::new(key, Condition::GreaterThan(integer(value)?)),
            [Word(key), Symbol("<"), value @ ..] => Self::new(key, Condition::LessThan(integer(value)?)),
            [Word(key), Word("in"), Symbol("("), values @ .., Symbol(")")] => {
                Self::new(key, Condition::In(list(values)?))
            }
            [Word(key), Word("notin"), Symbol("("), values @ .., Symbol(")")] => {
                Self::new(key, Condition::NotIn(list(values)?))
            }
            _ => Err(invalid()),
        }
    }

    fn new(key: &str, condition: Condition) -> Result<Self, InvalidLabelSelector> {
        let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
        let is_subdomain = |text: &str| {
            let of_dns = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            text.len() <= 253 && text.split('.').all(|label| ends_with(label, of_dns, |byte| byte == b'-'))
        };
        if name.is_empty() || !is_name(name) || prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
            return Err(InvalidLabelSelector::Key(key.to_owned()));
        }
        Ok(Self { key: key.to_owned(), condition })
    }
}

/// Returns true if a text is not empty, begins and ends with an `outer` byte, and has only `outer`
/// and `inner` ones.
fn ends_with(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| outer(*byte) || inner(*byte))
        && bytes.first().is_some_and(|byte| outer(*byte))
        && bytes.last().is_some_and(|byte| outer(*byte))
}

fn is_name(text: &str) -> bool {
    text.len() <= 63 && ends_with(text, |byte| byte.is_ascii_alphanumeric(), |byte| b"-_.".contains(&byte))
}

/// A part of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'static str),
}

/// The longer ones come first.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

/// Returns true for white space, as apimachinery's lexer does.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let ends_word = |character: char| is_space(character) || "=!(),><".contains(character);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let length = match SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            Some(symbol) => {
                tokens.push(Token::Symbol(symbol));
                symbol.len()
            }
            None => {
                let (word, _) = rest.split_at(rest.find(ends_word).unwrap_or(rest.len()));
                tokens.push(Token::Word(word));
                word.len()
            }
        };
        rest = rest[length..].trim_start_matches(is_space);
    }
    tokens
}

/// Returns a value of a label, which may be empty.
fn checked_value(text: &str) -> Result<String, InvalidLabelSelector> {
    if text.is_empty() || is_name(text) {
        return Ok(text.to_owned());
    }
    Err(InvalidLabelSelector::Value(text.to_owned()))
}

/// Splits at the commas that are not in parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_u32);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

impl FromStr for LabelSelector {
    type Err = InvalidLabelSelector;

    fn from_str(text: &str) -> Result<Self, InvalidLabelSelector> {
        if text.chars().all(is_space) {
            return Ok(Self(Arc::new([])));
        }
        let parts: Result<Vec<_>, _> = requirements(text).into_iter().map(Requirement::parse).collect();
        let mut parts = parts?;
        // Equal selectors print alike, whatever their order.
        parts.sort_unstable();
        parts.dedup();
        Ok(Self(parts.into()))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Requirement { key, condition }) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}")?;
            let list =
                |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
            match condition {
                Condition::Exists => write!(f, "{key}")?,
                Condition::DoesNotExist => write!(f, "!{key}")?,
                Condition::In(values) if values.len() == 1 => write!(f, "{key}={}", list(values))?,
                Condition::In(values) => write!(f, "{key} in ({})", list(values))?,
                Condition::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", list(values))?,
                Condition::NotIn(values) => write!(f, "{key} notin ({})", list(values))?,
                Condition::GreaterThan(bound) => write!(f, "{key}>{bound}")?,
                Condition::LessThan(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> StringMap {
        text.split_whitespace().filter_map(|pair| pair.split_once('=')).collect()
    }

    #[test]
    fn requirements_are_matched() {
        let check = |selector: &str, text: &str, want: bool| {
            let parsed: LabelSelector = selector.parse().unwrap();
            assert_eq!(parsed.matches(&labels(text)), want, "{selector} {text}");
            let again: LabelSelector = parsed.to_string().parse().unwrap();
            assert_eq!(again, parsed, "{selector}");
        };
        check("", "", true);
        check(" ", "a=b", true);
        check("a=b", "a=b c=d", true);
        check("a==b", "a=b", true);
        check("a=b", "a=c", false);
        check("a=b", "", false);
        check("a=", "a=", true);
        check("a=", "", false);
        check("a!=b", "a=b", false);
        check("a!=b", "a=c", true);
        check("a!=b", "", true);
        check("a", "a=", true);
        check("a", "b=a", false);
        check("!a", "a=b", false);
        check(" ! a ", "b=a", true);
        check("a in (b, c)", "a=c", true);
        check("a in (b,c)", "a=d", false);
        check("a in(b)", "a=b", true);
        check("a notin (b,c)", "a=c", false);
        check("a notin (b,c)", "", true);
        check("a>3", "a=4", true);
        check("a>3", "a=3", false);
        check("a<3", "a=-1", true);
        check("a=,b=c", "a= b=c", true);
        check("a in ()", "a=", true);
        check("a in (b,)", "a=", true);
        check("in in (in,notin)", "in=notin", true);
        check("a<3", "a=x", false);
        check("example.com/a-b=c,!d, e in (f,g)", "example.com/a-b=c e=g", true);
        check("example.com/a-b=c,!d, e in (f,g)", "example.com/a-b=c e=g d=", false);
    }

    #[test]
    fn equal_selectors_are_written_alike() {
        let written = |text: &str| text.parse::<LabelSelector>().unwrap().to_string();
        assert_eq!(written("b in (y,x),a=1,a=1"), "a=1,b in (x,y)");
        assert_eq!(written("a==1,b in (x,y)"), written("b in (y , x), a = 1"));
    }

    #[test]
    fn errors_say_what_to_write() {
        let error = |text: &str| text.parse::<LabelSelector>().unwrap_err().to_string();
        let texts = [
            "a,,b",
            "a in b",
            "a in (b",
            "a is (b)",
            "A B=c",
            "-a=b",
            "a=b c",
            "a=-",
            "a>x",
            "Ex_/a=b",
            "a/b/=c",
            "=",
            "a<-1",
            "a,",
            "a in (b c)",
            "a=b!c",
            "a\u{a0}=b",
        ];
        insta::assert_snapshot!(texts.map(|text| format!("{text}: {}", error(text))).join("\n"));
    }
}
