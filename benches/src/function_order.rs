//! Which functions of a program are executed, and how often, from what Callgrind wrote.
//!
//! The linker puts the functions that run close together with such a list, so that the others stay out of memory
//! (`bins/kube-endpoint-manager/functions.txt`).

use std::collections::HashMap;

/// The symbols of the functions of one program that were executed, those with most calls first, and by name where these are equal.
///
/// `profile` is the output of Callgrind with `--demangle=no`, `program` the path of the file that was run. Functions of shared
/// libraries, and those that are not compiled from Rust, are left out.
pub fn executed(profile: &str, program: &str) -> Vec<String> {
    let mut names = Names::default();
    let mut calls: HashMap<&str, u64> = HashMap::new();
    // Callgrind names an object only where it changes.
    let (mut object, mut called_object) = ("", None);
    let mut called = None;
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = names.objects.resolve(name);
        } else if let Some(name) = line.strip_prefix("cob=") {
            called_object = Some(names.objects.resolve(name));
        } else if let Some(name) = line.strip_prefix("fn=") {
            let name = names.functions.resolve(name);
            if object == program {
                calls.entry(without_recursion(name)).or_default();
            }
        } else if let Some(name) = line.strip_prefix("cfn=") {
            let name = names.functions.resolve(name);
            called = (called_object.take().unwrap_or(object) == program).then_some(name);
        } else if let Some(counts) = line.strip_prefix("calls=")
            && let Some(name) = called.take()
        {
            let count = counts.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
            *calls.entry(without_recursion(name)).or_default() += count;
        }
    }
    let mut calls: Vec<(&str, u64)> = calls.into_iter().filter(|(name, _)| is_rust(name)).collect();
    calls.sort_by(|(one, calls_of_one), (other, calls_of_other)| {
        calls_of_other.cmp(calls_of_one).then_with(|| one.cmp(other))
    });
    calls.into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// Callgrind writes a name once, as `(7) name`, and later only its number.
#[derive(Default)]
struct Names<'a> {
    objects: Numbered<'a>,
    functions: Numbered<'a>,
}

#[derive(Default)]
struct Numbered<'a>(HashMap<&'a str, &'a str>);

impl<'a> Numbered<'a> {
    fn resolve(&mut self, text: &'a str) -> &'a str {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let Some((number, name)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
            return text;
        };
        if !is_number(number) {
            return text;
        }
        match name.trim_start() {
            "" => self.0.get(number).copied().unwrap_or_default(),
            name => {
                self.0.insert(number, name);
                name
            }
        }
    }
}

/// The name without the depth of a recursion, `'2`, which Callgrind appends.
fn without_recursion(name: &str) -> &str {
    name.split_once('\'').map_or(name, |(name, _)| name)
}

/// Whether it is a symbol of a Rust function, in the legacy or the v0 mangling.
fn is_rust(name: &str) -> bool {
    name.starts_with("_ZN") || name.starts_with("_R")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(profile: &str, want: &[&str]) {
        assert_eq!(executed(profile, "/bin/program"), want, "{profile}");
    }

    #[test]
    fn functions_with_more_calls_come_first() {
        check(
            "ob=(1) /bin/program\nfl=(1) a.rs\nfn=(1) _ZN4main\n3 7\ncfn=(2) _ZN3oneE\ncalls=2 9\n3 70\ncfn=(3) _RNv3two\ncalls=5 9\n3 7\n\
             fn=(2)\n9 1\ncfn=(3)\ncalls=1 4\n",
            &["_RNv3two", "_ZN3oneE", "_ZN4main"],
        );
    }

    #[test]
    fn names_may_be_whole() {
        check(
            "ob=/bin/program\nfn=_ZN1b\n1 1\ncfn=_ZN1a\ncalls=1 1\n1 1\ncfn=(below main)\ncalls=1 1\n",
            &["_ZN1a", "_ZN1b"],
        );
    }

    #[test]
    fn other_objects_and_other_languages_are_left_out() {
        check(
            "ob=(1) /lib/libc.so\nfn=(1) _ZN3libE\n1 1\ncob=(2) /bin/program\ncfn=(2) _ZN6calledE\ncalls=1 1\n1 1\n\
             cfn=(3) _ZN5otherE\ncalls=9 1\n1 1\nob=(2)\nfn=(4) memcpy\n1 1\ncob=(1)\ncfn=(1)\ncalls=9 9\n1 1\n",
            &["_ZN6calledE"],
        );
    }

    #[test]
    fn a_recursive_function_is_one_function() {
        check(
            "ob=(1) /bin/program\nfn=(1) _ZN1a\n1 1\ncfn=(2) _ZN1b'2\ncalls=3 1\n1 1\ncfn=(3) _ZN1b\ncalls=3 1\n",
            &["_ZN1b", "_ZN1a"],
        );
    }
}
