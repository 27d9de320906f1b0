//! Checks PromQL: it parses, and the metrics and labels that it names are on the metrics page.

use std::collections::BTreeSet;

use promql_parser::label::MatchOp;
use promql_parser::parser::{Expr, VectorSelector, parse};

use crate::deploy::metrics_page::MetricsPage;

/// Labels that Prometheus adds to each series of a target.
const OF_TARGET: [&str; 2] = ["job", "instance"];

/// Labels whose values appear only after such an answer.
const OPEN_ENDED: [&str; 1] = ["code"];

/// Checks an expression. Returns the labels that its result can have.
///
/// # Errors
///
/// A text about the fault.
pub(crate) fn check(query: &str, page: &MetricsPage) -> Result<BTreeSet<String>, String> {
    let expression = parse(query).map_err(|error| format!("{query}: {error}"))?;
    labels(&expression, page).map_err(|error| format!("{query}: {error}"))
}

/// Returns the labels that the result of an expression can have.
fn labels(expression: &Expr, page: &MetricsPage) -> Result<BTreeSet<String>, String> {
    let both = |left: &Expr, right: &Expr| -> Result<BTreeSet<String>, String> {
        Ok(labels(left, page)?.union(&labels(right, page)?).cloned().collect())
    };
    match expression {
        Expr::Aggregate(aggregate) => {
            let inner = labels(&aggregate.expr, page)?;
            let Some(modifier) = &aggregate.modifier else { return Ok(BTreeSet::new()) };
            let named: BTreeSet<String> = modifier.labels().labels.iter().cloned().collect();
            if let Some(unknown) = named.difference(&inner).next() {
                return Err(format!("nothing has the label {unknown}"));
            }
            Ok(if modifier.is_include() { named } else { inner.difference(&named).cloned().collect() })
        }
        Expr::Unary(unary) => labels(&unary.expr, page),
        Expr::Binary(binary) => both(&binary.lhs, &binary.rhs),
        Expr::Paren(paren) => labels(&paren.expr, page),
        Expr::Subquery(subquery) => labels(&subquery.expr, page),
        Expr::VectorSelector(selector) => of_selector(selector, page),
        Expr::MatrixSelector(matrix) => of_selector(&matrix.vs, page),
        Expr::Call(call) => {
            let arguments = call.args.args.iter().map(|argument| labels(argument, page));
            let mut all: BTreeSet<String> =
                arguments.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
            if call.func.name == "histogram_quantile" && !all.remove("le") {
                return Err("histogram_quantile needs the label le".to_owned());
            }
            Ok(all)
        }
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => Ok(BTreeSet::new()),
    }
}

fn of_selector(selector: &VectorSelector, page: &MetricsPage) -> Result<BTreeSet<String>, String> {
    let name = selector.name.as_deref().ok_or("a selector has no name")?;
    let matchers = &selector.matchers.matchers;
    let job = matchers.iter().find(|matcher| matcher.name == "job");
    if job.is_none_or(|job| job.op != MatchOp::Equal || job.value != "kube-endpoint-manager") {
        return Err(format!("{name} is not limited to the job kube-endpoint-manager"));
    }
    let of_target = OF_TARGET.map(str::to_owned);
    if name == "up" {
        return Ok(of_target.into());
    }
    let known = page.series.get(name).ok_or_else(|| format!("there is no metric {name}"))?;
    for matcher in matchers.iter().filter(|matcher| !OF_TARGET.contains(&matcher.name.as_str())) {
        let values =
            known.get(&matcher.name).ok_or_else(|| format!("{name} has no label {}", matcher.name))?;
        let is_exact = matches!(matcher.op, MatchOp::Equal | MatchOp::NotEqual);
        if is_exact && !OPEN_ENDED.contains(&matcher.name.as_str()) && !values.contains(&matcher.value) {
            return Err(format!("{name} has no {}={}, but {values:?}", matcher.name, matcher.value));
        }
    }
    Ok(known.keys().cloned().chain(of_target).collect())
}

/// Returns the labels that a text refers to, as `{{ $labels.name }}` (rules) or `{{name}}`
/// (legends).
pub(crate) fn referenced(text: &str) -> BTreeSet<String> {
    let spans = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    let names = spans.flat_map(|span| {
        let dotted = span.split("$labels.").skip(1);
        let words = dotted.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
        let mut names: Vec<String> = words.map(str::to_owned).collect();
        if !span.contains('$') {
            names.push(span.trim().to_owned());
        }
        names
    });
    names.collect()
}

pub(crate) mod tests {
    use super::*;

    #[track_caller]
    fn check_query(query: &str, expected: Result<&[&str], &str>) {
        let page = MetricsPage::parse(
            "# TYPE queue gauge\nqueue{name=\"a\"} 1\n# TYPE took histogram\ntook_bucket{le=\"1\",verb=\"GET\"} 1\n",
        );
        match (check(query, &page), expected) {
            (Ok(labels), Ok(expected)) => assert_eq!(labels.iter().collect::<Vec<_>>(), expected, "{query}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{query}: {error}"),
            (result, _) => panic!("{query}: {result:?}"),
        }
    }

    pub(crate) fn mistakes_are_found() {
        const JOB: &str = "job=\"kube-endpoint-manager\"";
        check_query("sum(queue", Err("sum(queue"));
        check_query("queue", Err("not limited to the job"));
        check_query("queue{job=\"other\"}", Err("not limited to the job"));
        check_query(&format!("depth{{{JOB}}}"), Err("no metric depth"));
        check_query(&format!("queue{{{JOB},kind=\"a\"}}"), Err("no label kind"));
        check_query(&format!("queue{{{JOB},name=\"b\"}}"), Err("no name=b"));
        check_query(&format!("sum by (kind) (queue{{{JOB}}})"), Err("the label kind"));
    }
}
