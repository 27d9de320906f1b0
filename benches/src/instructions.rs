//! Instruction counts: reads Callgrind's output and the committed table, compares them, and checks
//! how counts grow.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The committed table begins with these lines.
const HEADER: &str = "\
# Instructions of each benchmark in benches/benches/instructions, in the dev profile on x86-64. A count past 105 % of its
# figure fails the gate. docs/performance.md (\"Instruction counts\") says how the figures are counted, and when to change them.
";

/// A count over this percentage of its figure is a regression.
const MOST_PERCENT: u64 = 105;
/// A count under this percentage of its figure needs a new figure, because the old one would let
/// later changes pass.
const LEAST_PERCENT: u64 = 90;

/// A limit for the growth of a cost with the size of a cluster.
struct Law {
    /// The growing quantity, for messages.
    grows: &'static str,
    /// The small cost is the sum of the counts whose names begin with this.
    small: &'static str,
    /// The prefix for the cost in a larger cluster.
    large: &'static str,
    /// The large cost must be less than this percentage of the small one.
    less_than_percent: u64,
}

const LAWS: [Law; 7] = [
    Law {
        grows: "one pod event among 10,000 instead of 100 Services",
        small: "flip, 100 pods, 100 Services: ",
        large: "flip, 100 pods, 10,000 Services: ",
        less_than_percent: 130,
    },
    Law {
        grows: "one pod event among 50,000 instead of 100 pods",
        small: "flip, 100 pods, 100 Services: ",
        large: "flip, 100 pods of 50,000, 100 Services: ",
        less_than_percent: 130,
    },
    Law {
        grows: "one pod event of a Service of 100,000 instead of 1,000 pods",
        small: "flip, 1,000 pods: ",
        large: "flip, 100,000 pods: ",
        less_than_percent: 200,
    },
    Law {
        grows: "planning the slices after one changed pod of a Service of 100,000 instead of 1,000 pods",
        small: "flip, 1,000 pods: plan the slices",
        large: "flip, 100,000 pods: plan the slices",
        less_than_percent: 200,
    },
    Law {
        grows: "one pod event among 1,000 EndpointSelectors of an equality instead of Services",
        small: "event, 1,000 own selectors: ",
        large: "event, 1,000 EndpointSelectors of an equality: ",
        less_than_percent: 115,
    },
    Law {
        grows: "one pod event among 1,000 EndpointSelectors of an In instead of Services",
        small: "event, 1,000 own selectors: ",
        large: "event, 1,000 EndpointSelectors of an In: ",
        less_than_percent: 115,
    },
    Law {
        grows: "one pod event of known labels among 1,000 EndpointSelectors without either instead of Services",
        small: "event, 1,000 own selectors: a pod of known labels",
        large: "event, 1,000 EndpointSelectors without either: a pod of known labels",
        less_than_percent: 170,
    },
];

/// Counts by the name of the benchmark.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Makes a table of counts in any order.
    ///
    /// # Errors
    ///
    /// A text that names a benchmark with two counts.
    pub fn from_list(list: Vec<(String, u64)>) -> Result<Self, String> {
        let mut counts = Self::default();
        for (name, count) in list {
            if counts.0.contains_key(&name) {
                return Err(format!("two counts of {name:?}"));
            }
            counts.0.insert(name, count);
        }
        Ok(counts)
    }

    /// Reads a table: in each line a name and a count, separated by spaces. Lines that begin with
    /// `#` are comments.
    ///
    /// # Errors
    ///
    /// A text that names the wrong line.
    pub fn from_table(text: &str) -> Result<Self, String> {
        let read = |line: &str| {
            let (name, count) = line.rsplit_once(' ').unwrap_or((line, ""));
            let count = count.replace(',', "").parse();
            let count = count.map_err(|error| format!("the count in the line {line:?}: {error}"))?;
            Ok((name.trim().to_owned(), count))
        };
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        Self::from_list(lines.map(read).collect::<Result<_, String>>()?)
    }

    /// Returns the sum of the counts whose names begin with a prefix.
    fn sum(&self, prefix: &str) -> u64 {
        self.0.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
    }

    /// Returns the table that [`from_table`](Self::from_table) reads.
    pub fn to_table(&self) -> String {
        let width = self.0.keys().map(String::len).max().unwrap_or(0);
        let mut table = HEADER.to_owned();
        for (name, count) in &self.0 {
            let _ = writeln!(table, "{name:width$} {:>12}", thousands(*count));
        }
        table
    }
}

/// Compares counts with the committed figures, and checks their growth. Returns a table for people,
/// and one text for each problem.
pub fn report(committed: &Counts, counted: &Counts) -> (String, Vec<String>) {
    let mut table = String::new();
    let mut problems = Vec::new();
    let names: BTreeMap<&String, ()> =
        committed.0.keys().chain(counted.0.keys()).map(|name| (name, ())).collect();
    let width = names.keys().map(|name| name.len()).max().unwrap_or(0);
    for name in names.keys() {
        let (figure, count) = (committed.0.get(*name), counted.0.get(*name));
        let cell = |count: Option<&u64>| count.map_or("-".to_owned(), |count| thousands(*count));
        let _ = write!(table, "{name:width$} {:>12} {:>12}", cell(figure), cell(count));
        let problem = match (figure, count) {
            (Some(figure), Some(count)) => {
                let _ = write!(table, " {:>6.1} %", *count as f64 * 100.0 / *figure as f64);
                compare(*figure, *count)
            }
            (None, _) => Some("has no figure: add it with --update".to_owned()),
            (_, None) => Some("was not counted: remove its figure with --update".to_owned()),
        };
        table.push('\n');
        problems.extend(problem.map(|problem| format!("{name}: {problem}")));
    }
    for Law { grows, small, large, less_than_percent } in LAWS {
        let (of_small, of_large) = (counted.sum(small), counted.sum(large));
        if of_small == 0 || of_large == 0 {
            problems.push(format!("{grows}: {small:?} and {large:?} were not both counted"));
            continue;
        }
        let percent = of_large as f64 * 100.0 / of_small as f64;
        let _ = writeln!(table, "{grows}: {percent:.1} %, which must be less than {less_than_percent} %");
        if of_large * 100 >= of_small * less_than_percent {
            problems.push(format!(
                "{grows} costs {percent:.1} % of the instructions ({} instead of {}), which must be less than \
                 {less_than_percent} %: something walks over more than what changed",
                thousands(of_large),
                thousands(of_small)
            ));
        }
    }
    (table, problems)
}

/// Returns the number of instructions of each counted call, in order, from a profile with a dump
/// for each of them.
///
/// # Errors
///
/// A text that names the missing part.
pub fn counts_of_calls(profile: &str) -> Result<Vec<u64>, String> {
    let dumps = profile.split("\ndesc: Trigger: ").skip(1);
    let of_calls = dumps.filter(|dump| !dump.starts_with("Program termination"));
    let total = |dump: &str| {
        let total = dump.lines().find_map(|line| line.strip_prefix("totals: "));
        total.and_then(|total| total.trim().parse().ok()).ok_or("a dump of Callgrind has no total".to_owned())
    };
    of_calls.map(total).collect()
}

fn compare(figure: u64, count: u64) -> Option<String> {
    let counts = format!("{} instructions instead of {}", thousands(count), thousands(figure));
    if count * 100 > figure * MOST_PERCENT {
        return Some(format!(
            "{counts}, which is more than {MOST_PERCENT} %: make it less, or say in docs/performance.md why not, and \
             change the figure with --update"
        ));
    }
    (count * 100 < figure * LEAST_PERCENT)
        .then(|| format!("{counts}, which is less than {LEAST_PERCENT} %: lower the figure with --update"))
}

/// Formats `1234567` as `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns counts that meet each limit.
    fn lawful() -> Counts {
        let names = LAWS.iter().flat_map(|law| [law.small, law.large]);
        Counts(names.map(|name| (name.to_owned(), 1_000)).collect())
    }

    fn check(figure: u64, count: u64, problem: &str) {
        let (mut committed, mut counted) = (lawful(), lawful());
        committed.0.insert("decode pods".to_owned(), figure);
        counted.0.insert("decode pods".to_owned(), count);
        let (table, problems) = report(&committed, &counted);
        assert!(table.lines().any(|line| line.starts_with("decode pods ")), "{table}");
        let matches = problems.join("\n").contains(problem) && problems.is_empty() == problem.is_empty();
        assert!(matches, "{figure} and {count}: {problems:?}");
    }

    #[test]
    fn a_count_past_105_percent_of_its_figure_fails() {
        check(10_000, 10_500, "");
        check(10_000, 10_501, "decode pods: 10,501 instructions instead of 10,000, which is more than 105 %");
        check(10_000, 9_000, "");
        check(10_000, 8_999, "lower the figure");
    }

    #[test]
    fn each_law_fails_when_it_is_broken() {
        for law in LAWS {
            let mut counted = lawful();
            let others = counted.sum(law.large) - 1_000;
            let least_wrong = counted.sum(law.small) * law.less_than_percent / 100 - others;
            counted.0.insert(law.large.to_owned(), least_wrong);
            let (_, problems) = report(&counted, &counted);
            assert!(problems.len() == 1 && problems[0].starts_with(law.grows), "{problems:?}");
            counted.0.insert(law.large.to_owned(), least_wrong - 1);
            assert_eq!(report(&counted, &counted).1, Vec::<String>::new());
        }
    }

    #[test]
    fn a_law_whose_benchmarks_are_missing_fails() {
        let (_, problems) = report(&Counts::default(), &Counts::default());
        assert_eq!(problems.len(), LAWS.len());
        assert!(problems.iter().all(|problem| problem.contains("were not both counted")), "{problems:?}");
    }

    #[test]
    fn a_benchmark_without_a_figure_and_a_figure_without_a_benchmark_fail() {
        let mut more = lawful();
        more.0.insert("new".to_owned(), 1);
        assert!(report(&lawful(), &more).1[0].starts_with("new: has no figure"));
        assert!(report(&more, &lawful()).1[0].starts_with("new: was not counted"));
    }

    #[test]
    fn each_dump_after_a_call_has_its_count() {
        let dump = |trigger: &str, totals: &str| {
            format!("part: 1\n\n\ndesc: Trigger: {trigger}\n\nfn=(1) f\n1 2\n{totals}\n")
        };
        let call = dump("--dump-after=f", "totals: 12");
        let end = dump("Program termination", "totals: 0");
        assert_eq!(counts_of_calls(&[&*call, &*call, &*end].concat()), Ok(vec![12, 12]));
        let without_total = dump("--dump-after=f", "");
        assert_eq!(
            counts_of_calls(&[&*without_total, &*end].concat()),
            Err("a dump of Callgrind has no total".to_owned())
        );
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let counts = Counts([("a::b c".to_owned(), 1_234_567), ("d".to_owned(), 12)].into());
        let table = counts.to_table();
        assert!(table.ends_with("a::b c    1,234,567\nd                12\n"), "{table}");
        assert_eq!(Counts::from_table(&table), Ok(counts));
        assert_eq!(Counts::from_table("a 1\na 2"), Err("two counts of \"a\"".to_owned()));
        assert!(Counts::from_table("a x").unwrap_err().contains("\"a x\""));
    }
}
