//! A label selector, as `kubectl -l` and the query parameter `labelSelector` have it (apimachinery
//! `labels.Parse`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;

use crate::StringMap;
use crate::meta::or_default;

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
    /// An expression has an unknown operator.
    #[error("{0:?} is no operator; write `In`, `NotIn`, `Exists` or `DoesNotExist`")]
    Operator(String),
    /// An expression has no values, and its operator compares with values.
    #[error("the expression with the key {key:?} has the operator {operator} and no values; add one")]
    NoValues { key: String, operator: &'static str },
    /// An expression has values, and its operator compares with none.
    #[error("the expression with the key {key:?} has the operator {operator} and values; remove them")]
    Values { key: String, operator: &'static str },
}

/// A selector as fields of the API have it (`metav1.LabelSelector`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorFields {
    /// Labels that an object must have.
    #[serde(deserialize_with = "or_default")]
    pub match_labels: BTreeMap<String, String>,
    /// Expressions that the labels must meet.
    #[serde(deserialize_with = "or_default")]
    pub match_expressions: Vec<LabelExpression>,
}

/// An expression of a [`LabelSelectorFields`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LabelExpression {
    /// The key of a label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values that `In` and `NotIn` compare with.
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<String>,
}

impl TryFrom<&LabelSelectorFields> for LabelSelector {
    type Error = InvalidLabelSelector;

    /// Reads a selector (apimachinery `LabelSelectorAsSelector`). Empty fields select everything.
    fn try_from(fields: &LabelSelectorFields) -> Result<Self, InvalidLabelSelector> {
        let labels = fields.match_labels.iter().map(|(key, value)| {
            Requirement::new(key, Condition::In(BTreeSet::from([checked_value(value)?])))
        });
        let expressions = fields.match_expressions.iter().map(Requirement::of_expression);
        Ok(Self::all(labels.chain(expressions).collect::<Result<_, _>>()?))
    }
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

    /// Returns the keys of the labels that decide.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|requirement| requirement.key.as_str())
    }

    /// Returns, for each requirement that compares with values (`=` and `in`), its key and values.
    /// A selected object has one of these labels for each of them, so an index can hold the
    /// selector under the labels of one.
    pub fn alternatives(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.iter().filter_map(|Requirement { key, condition }| match condition {
            Condition::In(values) => Some((key.as_str(), values)),
            _ => None,
        })
    }

    /// Returns each requirement as a selector of its own.
    pub fn requirements(&self) -> impl Iterator<Item = Self> {
        self.0.iter().map(|one| Self(Arc::new([one.clone()])))
    }

    /// Returns each requirement of the API's fields, and a selector of what meets all others and
    /// not this one. It leaves a requirement out if that selector would select objects without
    /// labels, which have nothing in common with those that are meant.
    pub fn misses(&self) -> impl Iterator<Item = (Self, Self)> {
        self.0.iter().enumerate().filter_map(|(at, one)| {
            let mut all = self.0.to_vec();
            *all.get_mut(at)? = one.negated()?;
            let miss = Self::all(all);
            (!miss.matches(&StringMap::default())).then(|| (Self(Arc::new([one.clone()])), miss))
        })
    }

    /// Returns the selector with all of these requirements. Equal selectors print alike, whatever
    /// the order.
    fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_unstable();
        requirements.dedup();
        Self(requirements.into())
    }
}

impl Requirement {
    fn negated(&self) -> Option<Self> {
        let condition = match &self.condition {
            Condition::Exists => Condition::DoesNotExist,
            Condition::DoesNotExist => Condition::Exists,
            Condition::In(values) => Condition::NotIn(values.clone()),
            Condition::NotIn(values) => Condition::In(values.clone()),
            Condition::GreaterThan(_) | Condition::LessThan(_) => return None,
        };
        Some(Self { key: self.key.clone(), condition })
    }

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

    fn of_expression(expression: &LabelExpression) -> Result<Self, InvalidLabelSelector> {
        let LabelExpression { key, operator, values } = expression;
        let list = |operator| match values.as_slice() {
            [] => Err(InvalidLabelSelector::NoValues { key: key.clone(), operator }),
            values => values.iter().map(|value| checked_value(value)).collect::<Result<BTreeSet<_>, _>>(),
        };
        let none = |operator, condition| match values.as_slice() {
            [] => Ok(condition),
            _ => Err(InvalidLabelSelector::Values { key: key.clone(), operator }),
        };
        let condition = match operator.as_str() {
            "In" => Condition::In(list("In")?),
            "NotIn" => Condition::NotIn(list("NotIn")?),
            "Exists" => none("Exists", Condition::Exists)?,
            "DoesNotExist" => none("DoesNotExist", Condition::DoesNotExist)?,
            _ => return Err(InvalidLabelSelector::Operator(operator.clone())),
        };
        Self::new(key, condition)
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
        if name.is_empty() || !is_label_value(name) || prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
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

/// Returns true if a text can be the value of a label and is not empty.
pub(crate) fn is_label_value(text: &str) -> bool {
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
    if text.is_empty() || is_label_value(text) {
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
        Ok(Self::all(requirements(text).into_iter().map(Requirement::parse).collect::<Result<_, _>>()?))
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
    use serde_json::json;

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

    fn fields(value: serde_json::Value) -> Result<LabelSelector, InvalidLabelSelector> {
        LabelSelector::try_from(&serde_json::from_value::<LabelSelectorFields>(value).unwrap())
    }

    #[test]
    fn fields_of_the_api_are_the_selector_that_kubectl_would_take() {
        let check = |value: serde_json::Value, want: &str| {
            let selector = fields(value.clone()).unwrap();
            assert_eq!(selector, want.parse().unwrap(), "{value}");
        };
        check(json!({}), "");
        check(json!({"matchLabels": null, "matchExpressions": null}), "");
        check(json!({"matchLabels": {"b": "2", "a": ""}}), "a=,b=2");
        check(
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}),
            "a in (x,y)",
        );
        check(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": [""]}]}), "a!=");
        check(
            json!({"matchLabels": {"app": "web"}, "matchExpressions": [
                {"key": "track", "operator": "Exists"}, {"key": "old", "operator": "DoesNotExist", "values": []},
            ]}),
            "!old,app=web,track",
        );
        check(
            json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}),
            "a=b",
        );
    }

    #[test]
    fn errors_of_fields_name_the_key() {
        let expression = |key: &str, operator: &str, values: &[&str]| {
            let value = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
            fields(value).unwrap_err().to_string()
        };
        let errors = [
            expression("a", "In", &[]),
            expression("a", "NotIn", &[]),
            expression("a", "Exists", &["b"]),
            expression("a", "DoesNotExist", &["b"]),
            expression("a", "Gt", &["1"]),
            expression("a b", "Exists", &[]),
            expression("a", "In", &["-"]),
            fields(json!({"matchLabels": {"a": "b c"}})).unwrap_err().to_string(),
            fields(json!({"matchLabels": {"/a": "b"}})).unwrap_err().to_string(),
        ];
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn requirements_with_values_are_alternatives() {
        let selector: LabelSelector = "a in (x,y),b=z,!c,d,e!=f".parse().unwrap();
        let alternatives: Vec<_> = selector.alternatives().collect();
        assert_eq!(format!("{alternatives:?}"), r#"[("a", {"x", "y"}), ("b", {"z"})]"#);
        assert_eq!(selector.keys().collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn a_miss_meets_all_requirements_but_one() {
        let selector: LabelSelector = "a in (x,y),b!=z,!c,d".parse().unwrap();
        let requirements: Vec<String> = selector.requirements().map(|one| one.to_string()).collect();
        assert_eq!(requirements, ["a in (x,y)", "b!=z", "!c", "d"]);
        let check = |selector: &str, want: &[[&str; 2]]| {
            let selector: LabelSelector = selector.parse().unwrap();
            let misses: Vec<[String; 2]> =
                selector.misses().map(|(one, miss)| [one.to_string(), miss.to_string()]).collect();
            assert_eq!(misses, want, "{selector}");
        };
        check("a=x,b!=z", &[["b!=z", "a=x,b=z"]]);
        check("a=x,d", &[["a=x", "a!=x,d"], ["d", "a=x,!d"]]);
        check("!c", &[["!c", "c"]]);
        check("a=x", &[]);
        check("a>1,b=x", &[["b=x", "a>1,b!=x"]]);
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
