//! Which functions of a program are executed, and how often, from what Callgrind wrote.
//!
//! The linker puts the functions that run close together with such a list, so that the others stay out of memory
//! (`bins/kube-endpoint-manager/functions.txt`).

use std::collections::HashMap;

/// The symbols of the functions of one program that were executed, those with most calls first, and by name where these are equal.
///
/// `profile` is the output of Callgrind with `--demangle=no`, `program` the path of the file that was run. Functions of shared
/// libraries, and those that are not compiled from Rust with the v0 mangling, are left out.
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

/// The program that was run, as it was called. None if Callgrind did not write this.
pub fn program(profile: &str) -> Option<&str> {
    profile.lines().find_map(|line| line.strip_prefix("cmd:"))?.split_whitespace().next()
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

/// Whether it is a symbol of a Rust function in the v0 mangling. The legacy mangling tells instances of a generic function apart only by
/// a hash, which each change gives another value.
fn is_rust(name: &str) -> bool {
    name.starts_with("_R")
}

/// Digits in base 62 of the hash of a crate, which has 64 bits.
const LONGEST_HASH: usize = 11;

/// Digits in base 62 of a position in a symbol. Longer runs of letters after a `B` are names.
const LONGEST_POSITION: usize = 3;

/// A pattern for linker scripts that matches this symbol, and the symbol of the same function in another build.
///
/// Other features, another target, and other versions of the compiler or of a dependency change these parts of a symbol in the v0
/// mangling:
///
/// - the hash of a crate: `Cs`, the hash, `_`;
/// - the position to which a reference within the symbol points, which a longer or shorter hash moves: `B`, the position, `_`;
/// - the number of a copy, after a dot;
/// - the order of `Send` and `Sync` where a symbol names both for the first time, which depends on the hash of `core`.
///
/// The numbers of implementations and closures in a module or function stay: a version that adds one changes those that follow.
pub fn pattern(symbol: &str) -> String {
    let (symbol, copy) = symbol.split_once('.').map_or((symbol, ""), |(symbol, _)| (symbol, ".*"));
    let mut pattern = String::with_capacity(symbol.len());
    let mut rest = symbol;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("Cs").and_then(|rest| after_number(rest, LONGEST_HASH)) {
            pattern.push_str("Cs*_");
            rest = after;
        } else if let Some(after) =
            rest.strip_prefix('B').and_then(|rest| after_number(rest, LONGEST_POSITION))
        {
            pattern.push_str("B*_");
            rest = after;
        } else {
            pattern.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    for [one, other] in [["Send", "Sync"], ["Sync", "Send"]] {
        let both = format!("6marker4{one}NtB*_4{other}");
        pattern = pattern.replace(&both, "6marker4S*NtB*_4S*");
    }
    pattern + copy
}

/// What follows a number in base 62 and the `_` at its end, if the text begins with such a number of at most so many digits. It may
/// have none.
fn after_number(text: &str, most_digits: usize) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    (text.len() - rest.len() <= most_digits).then_some(rest)?.strip_prefix('_')
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
            "ob=(1) /bin/program\nfl=(1) a.rs\nfn=(1) _RNv4main\n3 7\ncfn=(2) _RNv3one\ncalls=2 9\n3 70\ncfn=(3) _RNv3two\ncalls=5 9\n3 7\n\
             fn=(2)\n9 1\ncfn=(3)\ncalls=1 4\n",
            &["_RNv3two", "_RNv3one", "_RNv4main"],
        );
    }

    #[test]
    fn names_may_be_whole() {
        check(
            "ob=/bin/program\nfn=_RNv1b\n1 1\ncfn=_RNv1a\ncalls=1 1\n1 1\ncfn=(below main)\ncalls=1 1\n",
            &["_RNv1a", "_RNv1b"],
        );
    }

    #[test]
    fn other_objects_and_other_languages_are_left_out() {
        check(
            "ob=(1) /lib/libc.so\nfn=(1) _RNv3lib\n1 1\ncob=(2) /bin/program\ncfn=(2) _RNv6called\ncalls=1 1\n1 1\n\
             cfn=(3) _RNv5other\ncalls=9 1\n1 1\nob=(2)\nfn=(4) memcpy\n1 1\ncob=(1)\ncfn=(1)\ncalls=9 9\n1 1\n",
            &["_RNv6called"],
        );
    }

    #[test]
    fn a_recursive_function_is_one_function() {
        check(
            "ob=(1) /bin/program\nfn=(1) _RNv1a\n1 1\ncfn=(2) _RNv1b'2\ncalls=3 1\n1 1\ncfn=(3) _RNv1b\ncalls=3 1\n",
            &["_RNv1b", "_RNv1a"],
        );
    }

    #[test]
    fn the_program_is_the_first_word_of_the_command() {
        let profile = "# callgrind format\nversion: 1\ncmd: target/program --kubeconfig=x\nob=(1) /x\n";
        assert_eq!(program(profile), Some("target/program"));
        assert_eq!(program("# a comment\n"), None);
    }

    #[track_caller]
    fn check_pattern(symbol: &str, want: &str) {
        assert_eq!(pattern(symbol), want);
    }

    #[test]
    fn hashes_positions_and_numbers_of_copies_are_left_open() {
        check_pattern("_RNvCsfLfy6EI15iL_7___rustc12___rust_alloc", "_RNvCs*_7___rustc12___rust_alloc");
        check_pattern(
            "_RNvMNtNtCs6IBmYUB6k2b_4http3uri4pathNtB2_3Uri4pathB_NtB1j_4host",
            "_RNvMNtNtCs*_4http3uri4pathNtB*_3Uri4pathB*_NtB*_4host",
        );
        check_pattern("_RNvNtCs_5bytes5bytes12static_clone.2457", "_RNvNtCs*_5bytes5bytes12static_clone.*");
        check_pattern("_RINvCs1a_4core4dropuECs2b_4http", "_RINvCs*_4core4dropuECs*_4http");
    }

    #[test]
    fn send_and_sync_may_stand_in_either_order() {
        for [one, other] in [["Send", "Sync"], ["Sync", "Send"]] {
            check_pattern(
                &format!("_RINvCs1a_4core4dropDNtNtCs1a_4core6marker4{one}NtBx_4{other}EL_E"),
                "_RINvCs*_4core4dropDNtNtCs*_4core6marker4S*NtB*_4S*EL_E",
            );
        }
    }

    #[test]
    fn names_stay() {
        check_pattern("_RNvNtC5bytes12BytesMut4push", "_RNvNtC5bytes12BytesMut4push");
        check_pattern("_RNv8Backoffs_15CsPropertiesOfA_x", "_RNv8Backoffs_15CsPropertiesOfA_x");
    }
}
