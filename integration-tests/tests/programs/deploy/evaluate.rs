//! Evaluates the part of PromQL that the alerts use, over metrics pages that do not change.
//! Counters do not grow, so that the functions of a range give 0.

use std::collections::BTreeMap;

use promql_parser::parser::{AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, VectorSelector, parse};

use crate::deploy::metrics_page::samples;

pub(crate) type Labels = BTreeMap<String, String>;

/// The series of a job, as Prometheus has them.
#[derive(Debug, Default)]
pub(crate) struct Series(Vec<(String, Labels, f64)>);

/// A number, or numbers with labels.
enum Value {
    Scalar(f64),
    Vector(Vec<(Labels, f64)>),
}

impl Series {
    /// Adds the series of one replica after Prometheus has read this page from it.
    pub(crate) fn scraped(mut self, instance: &str, page: &str) -> Self {
        let target = Labels::from([("job", "kube-endpoint-manager"), ("instance", instance)].map(owned));
        self.0.push(("up".to_owned(), target.clone(), 1.0));
        for (name, labels, value) in samples(page) {
            let labels = labels.into_iter().map(owned).chain(target.clone()).collect();
            self.0.push((name.to_owned(), labels, value));
        }
        self
    }

    /// Returns the result of an expression, which fires an alert unless it is empty.
    pub(crate) fn evaluate(&self, query: &str) -> Vec<(Labels, f64)> {
        self.vector(&parse(query).unwrap())
    }

    fn vector(&self, expression: &Expr) -> Vec<(Labels, f64)> {
        match self.value(expression) {
            Value::Vector(vector) => vector,
            Value::Scalar(_) => panic!("{expression} is a number"),
        }
    }

    fn value(&self, expression: &Expr) -> Value {
        match expression {
            Expr::NumberLiteral(number) => Value::Scalar(number.val),
            Expr::Paren(inner) => self.value(&inner.expr),
            Expr::VectorSelector(selector) => Value::Vector(self.selected(selector)),
            Expr::Aggregate(aggregate) => Value::Vector(self.aggregated(aggregate)),
            Expr::Binary(binary) => Value::Vector(self.compared(binary)),
            Expr::Call(call) if call.func.name == "time" => Value::Scalar(self.time()),
            Expr::Call(call) => Value::Vector(self.called(call)),
            other => panic!("{other} is not known here"),
        }
    }

    /// Returns the time of the query: that of the latest start of a process.
    fn time(&self) -> f64 {
        let starts = self.0.iter().filter(|(name, ..)| name == "process_start_time_seconds");
        starts.map(|(_, _, start)| *start).fold(0.0, f64::max)
    }

    fn selected(&self, selector: &VectorSelector) -> Vec<(Labels, f64)> {
        let matches = |labels: &Labels| {
            let matchers = &selector.matchers.matchers;
            matchers.iter().all(|it| it.is_match(labels.get(&it.name).map_or("", String::as_str)))
        };
        let named = self.0.iter().filter(|(name, ..)| Some(name) == selector.name.as_ref());
        named
            .filter(|(_, labels, _)| matches(labels))
            .map(|(_, labels, value)| (labels.clone(), *value))
            .collect()
    }

    fn aggregated(&self, aggregate: &AggregateExpr) -> Vec<(Labels, f64)> {
        let mut groups: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
        for (mut labels, value) in self.vector(&aggregate.expr) {
            match &aggregate.modifier {
                None => labels.clear(),
                Some(LabelModifier::Include(kept)) => labels.retain(|label, _| kept.labels.contains(label)),
                Some(LabelModifier::Exclude(dropped)) => {
                    labels.retain(|label, _| !dropped.labels.contains(label));
                }
            }
            groups.entry(labels).or_default().push(value);
        }
        let fold = |values: Vec<f64>| match aggregate.op.to_string().as_str() {
            "max" => values.into_iter().fold(f64::NAN, f64::max),
            "min" => values.into_iter().fold(f64::NAN, f64::min),
            "sum" => values.into_iter().sum(),
            "count" => values.len() as f64,
            other => panic!("{other} is not known here"),
        };
        groups.into_iter().map(|(labels, values)| (labels, fold(values))).collect()
    }

    fn compared(&self, binary: &BinaryExpr) -> Vec<(Labels, f64)> {
        let (left, right) = (self.value(&binary.lhs), self.value(&binary.rhs));
        let of: Vec<Labels> = match (&left, &right) {
            (Value::Vector(of), _) | (_, Value::Vector(of)) => {
                of.iter().map(|(labels, _)| labels.clone()).collect()
            }
            _ => panic!("{binary} is a number"),
        };
        let value_of = |side: &Value, labels: &Labels| match side {
            Value::Scalar(number) => Some(*number),
            Value::Vector(all) => all.iter().find(|(other, _)| other == labels).map(|(_, value)| *value),
        };
        let result = |left: f64, right: f64| match binary.op.to_string().as_str() {
            "==" => (left == right).then_some(left),
            ">" => (left > right).then_some(left),
            "/" => Some(left / right),
            "-" => Some(left - right),
            other => panic!("{other} is not known here"),
        };
        of.into_iter()
            .filter_map(|labels| {
                let value = result(value_of(&left, &labels)?, value_of(&right, &labels)?)?;
                Some((labels, value))
            })
            .collect()
    }

    fn called(&self, call: &Call) -> Vec<(Labels, f64)> {
        let of = call.args.args.last().unwrap();
        match (call.func.name, &**of) {
            ("rate" | "increase" | "changes", Expr::MatrixSelector(matrix)) => {
                self.selected(&matrix.vs).into_iter().map(|(labels, _)| (labels, 0.0)).collect()
            }
            ("absent", of) if self.vector(of).is_empty() => vec![(Labels::new(), 1.0)],
            ("absent", _) => Vec::new(),
            // This is the value for a histogram without observations.
            ("histogram_quantile", of) => {
                let without_bucket = |(mut labels, _): (Labels, f64)| {
                    labels.remove("le");
                    (labels, f64::NAN)
                };
                self.vector(of).into_iter().map(without_bucket).collect()
            }
            (other, _) => panic!("{other} is not known here"),
        }
    }
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

pub(crate) fn expressions_are_evaluated() {
    let page = "# TYPE depth gauge\ndepth{name=\"a\"} 3\ndepth{name=\"b\"} 0\ndone_total 5\nprocess_start_time_seconds 9\n";
    let series = Series::default().scraped("one", page).scraped("two", page.replace(" 3", " 4").as_str());
    let check = |query: &str, want: &str| {
        let shown = series.evaluate(query).into_iter().map(|(labels, value)| {
            let labels: Vec<String> =
                labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{}:{value}", labels.join(","))
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), want, "{query}");
    };
    check("max(depth)", ":4");
    check("max(depth{name=\"b\"}) == 0", ":0");
    check("max(depth{name=\"a\"}) == 0", "");
    check("max(unknown) == 0", "");
    check("sum by (name) (depth) > 1", "name=a:7");
    check("min by (instance, name) (depth{name=~\"a|c\",instance!=\"two\"})", "instance=one,name=a:3");
    check("count(up{job=\"kube-endpoint-manager\"} == 1) == 1", "");
    check("count(up{instance=\"one\"} == 1) == 1", ":1");
    check("absent(up{job=\"kube-endpoint-manager\"} == 1)", "");
    check("absent(up{job=\"other\"} == 1)", ":1");
    check("time() - max(depth) > 4", ":5");
    check("time() - max(depth) > 5", "");
    check("sum(increase(done_total[1h])) > 0", "");
    check("sum(rate(done_total[5m])) / sum(rate(done_total[5m])) > 0.05", "");
    check("sum by (instance) (depth) / sum by (instance) (depth)", "instance=one:1 instance=two:1");
    check("histogram_quantile(0.9, sum by (le) (rate(done_total[5m]))) > 1", "");
}
