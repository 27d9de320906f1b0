//! Label selectors: equality and set syntax, after apimachinery's `labels/selector.go`.

use crate::status::Status;
use crate::validation::names::{label_value, qualified_name};

/// A parsed label selector; the default one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    DoesNotExist,
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`. Rejects a malformed selector (400) with
    /// upstream's message.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut parser = Parser { tokens: tokens(text), position: 0 };
        let mut requirements = parser.selector().map_err(Status::bad_request)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Returns true if an object matches, given a lookup of its labels.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.test.passes(get(&requirement.key)))
    }

    /// Returns true if it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Test {
    fn passes(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::In(values) => value.is_some_and(|v| values.iter().any(|one| **one == *v)),
            Self::NotIn(values) => value.is_none_or(|v| values.iter().all(|one| **one != *v)),
            Self::GreaterThan(bound) => number().is_some_and(|n| n > *bound),
            Self::LessThan(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

/// A word (keywords `in` and `notin` included, as they may also be values) or a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'static str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) => text,
            Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let length = if let Some(symbol) = SYMBOLS.into_iter().find(|s| rest.starts_with(s)) {
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else {
            let ends = |c: char| is_space(c) || matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
            let end = rest.find(ends).unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..end]));
            end
        };
        rest = rest[length..].trim_start_matches(is_space);
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Symbol("!") => {}
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            let requirement =
                self.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
            requirements.push(requirement);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => {
                    if !matches!(self.peek(), Token::Word(_) | Token::Symbol("!")) {
                        return Err(format!(
                            "found '{}', expected: identifier after ','",
                            self.peek().text()
                        ));
                    }
                }
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token == Token::Symbol("!");
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        let errors = qualified_name(key);
        if !errors.is_empty() {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", errors.join("; ")));
        }
        let test = if negated {
            Test::DoesNotExist
        } else if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            Test::Exists
        } else {
            self.test(key)?
        };
        Ok(Requirement { key: key.into(), test })
    }

    fn test(&mut self, key: &str) -> Result<Test, String> {
        match self.next() {
            Token::Word("in") => Ok(Test::In(checked(key, self.values()?)?)),
            Token::Word("notin") => Ok(Test::NotIn(checked(key, self.values()?)?)),
            Token::Symbol("=" | "==") => Ok(Test::In(checked(key, vec![self.value()?])?)),
            Token::Symbol("!=") => Ok(Test::NotIn(checked(key, vec![self.value()?])?)),
            Token::Symbol(">") => Ok(Test::GreaterThan(self.number(key)?)),
            Token::Symbol("<") => Ok(Test::LessThan(self.number(key)?)),
            other => Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
        }
    }

    fn value(&mut self) -> Result<&'a str, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok("");
        }
        match self.next() {
            Token::Word(value) => Ok(value),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value()?;
        let number = value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        })?;
        checked(key, vec![value])?;
        Ok(number)
    }

    /// Parses the values in parentheses; a missing value, as in `(a,)`, is the empty string.
    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        match self.peek() {
            Token::Word(_) | Token::Symbol(",") => {}
            Token::Symbol(")") => {
                self.next();
                return Ok(vec![""]);
            }
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.push(value);
                    match self.peek() {
                        Token::Symbol("," | ")") => {}
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() || matches!(self.peek(), Token::Symbol("," | ")")) {
                        values.push("");
                    }
                }
                Token::Symbol(")") => break,
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

fn checked(key: &str, values: Vec<&str>) -> Result<Vec<Box<str>>, String> {
    let mut errors = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let wrong = label_value(value);
        if !wrong.is_empty() {
            errors.push(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", wrong.join("; ")));
        }
    }
    match errors.as_slice() {
        [] => Ok(values.into_iter().map(Box::from).collect()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        LabelSelector::parse(selector)
            .unwrap()
            .matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn selectors_match_as_upstream() {
        let labels: &[(&str, &str)] = &[("app", "web"), ("tier", ""), ("n", "7"), ("in", "in")];
        let check = |selector: &str, expected: bool| {
            assert_eq!(selects(selector, labels), expected, "{selector}");
        };
        check("", true);
        check("  ", true);
        check("app=web", true);
        check("app == web", true);
        check("app=db", false);
        check("app!=db", true);
        check("missing!=db", true);
        check("missing=", false);
        check("tier=", true);
        check("tier=,app=web", true);
        check("app in (web, db)", true);
        check("app in (db)", false);
        check("tier in ()", true);
        check("tier in (a,)", true);
        check("tier in (,a)", true);
        check("app notin (db),tier", true);
        check("missing notin (db)", true);
        check("app notin (web)", false);
        check("app", true);
        check("!app", false);
        check("!missing", true);
        check("n>6,n<8", true);
        check("n>7", false);
        check("app>1", false);
        check("missing<1", false);
        check("in in (in, notin)", true);
        check("in=in", true);
        check("app=web,!tier", false);
    }

    #[test]
    fn unreadable_selectors_are_refused_in_upstreams_words() {
        let message = |selector: &str| LabelSelector::parse(selector).unwrap_err().message;
        let all: Vec<String> = [
            "a,",
            "=b",
            "a=b c",
            "a in",
            "a in b",
            "a in (b",
            "a in (b c)",
            "a in (=)",
            "a b",
            "!",
            "a=(",
            "a,,b",
            "a>b",
            "-a=b",
            "x/y/z",
            "A/b",
            "a=-b",
            "a in (-b,_c)",
            "a=b,)",
        ]
        .into_iter()
        .map(|selector| format!("{selector:12} {}", message(selector)))
        .collect();
        insta::assert_snapshot!(all.join("\n"), @r#"
        a,           found '', expected: identifier after ','
        =b           found '=', expected: !, identifier, or 'end of string'
        a=b c        found 'c', expected: ',' or 'end of string'
        a in         unable to parse requirement: found '' expected: '('
        a in b       unable to parse requirement: found 'b' expected: '('
        a in (b      unable to parse requirement: found '', expected: ',' or ')'
        a in (b c)   unable to parse requirement: found 'c', expected: ',' or ')'
        a in (=)     unable to parse requirement: found '=', expected: ',', ')' or identifier
        a b          unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt
        !            unable to parse requirement: found '', expected: identifier
        a=(          unable to parse requirement: found '(', expected: identifier
        a,,b         found ',', expected: identifier after ','
        a>b          unable to parse requirement: values[0]: Invalid value: "b": for 'Gt', 'Lt' operators, the value must be an integer
        -a=b         unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        x/y/z        unable to parse requirement: <nil>: Invalid value: "x/y/z": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
        A/b          unable to parse requirement: <nil>: Invalid value: "A/b": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        a=-b         unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        a in (-b,_c) unable to parse requirement: [values[0][a]: Invalid value: "-b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?'), values[1][a]: Invalid value: "_c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]
        a=b,)        found ')', expected: identifier after ','
        "#);
        assert_eq!(LabelSelector::parse("a in").unwrap_err().code, 400);
    }
}
