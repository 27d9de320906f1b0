//! Which functions of a program are executed, and how often, from what Callgrind wrote.
//!
//! The linker puts the functions that run close together with such a list, so that the others stay out of memory
//! (`bins/kube-endpoint-manager/functions.txt`).

use std::collections::{BTreeSet, HashMap};

/// The symbols of the functions of one program that were executed, those with most calls first, and by name where these are equal.
///
/// `profile` is the output of Callgrind with `--demangle=no`, `program` the path of the file that was run. Functions of shared
/// libraries are left out, and those with names that other builds do not have, as in the legacy mangling of Rust.
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
    let mut calls: Vec<(&str, u64)> = calls.into_iter().filter(|(name, _)| lasts(name)).collect();
    calls.sort_by(|(one, calls_of_one), (other, calls_of_other)| {
        calls_of_other.cmp(calls_of_one).then_with(|| one.cmp(other))
    });
    calls.into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// The symbols of those parts of functions that were taken out of them (`-enable-split-machine-functions`) and executed all the same, in
/// the order of their addresses.
///
/// `profile` was made with `--dump-instr=yes`, because Callgrind names such a part as its function; without that, there are none.
/// `symbols` is what `nm --print-size` prints of the program.
pub fn split_parts(profile: &str, program: &str, symbols: &str) -> Vec<String> {
    let addresses = addresses(profile, program);
    let part = |line: &str| {
        let mut words = line.split_whitespace();
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (start, size) = (number()?, number()?);
        let name = words.nth(1).filter(|name| name.ends_with(SPLIT))?;
        addresses.range(start..start.saturating_add(size)).next()?;
        Some((start, name.to_owned()))
    };
    let mut parts: Vec<(u64, String)> = symbols.lines().filter_map(part).collect();
    parts.sort();
    parts.into_iter().map(|(_, name)| name).collect()
}

/// The suffix of the symbol of a part that was taken out of a function.
const SPLIT: &str = ".cold";

/// The addresses of the program's instructions that were executed.
fn addresses(profile: &str, program: &str) -> BTreeSet<u64> {
    let mut addresses = BTreeSet::new();
    if !profile.lines().any(|line| line == "positions: instr line") {
        return addresses;
    }
    let mut objects = Numbered::default();
    let (mut object, mut address) = ("", 0_u64);
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = objects.resolve(name);
        } else if let Some(name) = line.strip_prefix("cob=") {
            objects.resolve(name);
        } else if let Some(next) = line.split(' ').next().and_then(|position| moved(address, position)) {
            address = next;
            if object == program {
                addresses.insert(address);
            }
        }
    }
    addresses
}

/// The address that a line is about, if it is one of costs: a number, or the difference to that of the line of costs before.
fn moved(address: u64, position: &str) -> Option<u64> {
    if position == "*" {
        return Some(address);
    }
    if let Some(digits) = position.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    match position.strip_prefix('+') {
        Some(digits) => address.checked_add(digits.parse().ok()?),
        None => address.checked_sub(position.strip_prefix('-')?.parse().ok()?),
    }
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

/// Whether it is a symbol of C, or of Rust in the v0 mangling. The legacy mangling tells instances of a generic function apart only by a
/// hash, which each change gives another value. Callgrind makes names such as `(below main)` and `0x00000000003baf00`.
fn lasts(name: &str) -> bool {
    let is_symbol = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    !name.starts_with("_ZN") && name.chars().all(is_symbol) && !name.starts_with(|c: char| c.is_ascii_digit())
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
/// - the number of a copy, after a dot (the part of a function that was taken out of it keeps its suffix);
/// - the order of `Send` and `Sync` where a symbol names both for the first time, which depends on the hash of `core`.
///
/// The numbers of implementations and closures in a module or function stay: a version that adds one changes those that follow.
///
/// In other symbols, it leaves open the version in those of the crate `ring`.
pub fn pattern(symbol: &str) -> String {
    if !symbol.starts_with("_R") {
        let of_ring = symbol.strip_prefix("ring_core_").and_then(|rest| rest.split_once("__"));
        return of_ring.map_or_else(|| symbol.to_owned(), |(_, name)| format!("ring_core_*__{name}"));
    }
    let (symbol, split) = symbol.strip_suffix(SPLIT).map_or((symbol, ""), |symbol| (symbol, SPLIT));
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
    pattern + copy + split
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
    fn other_objects_and_names_that_do_not_last_are_left_out() {
        check(
            "ob=(1) /lib/libc.so\nfn=(1) _RNv3lib\n1 1\ncob=(2) /bin/program\ncfn=(2) _RNv6called\ncalls=1 1\n1 1\n\
             cfn=(3) _RNv5other\ncalls=9 1\n1 1\nob=(2)\nfn=(4) memcpy\n1 1\ncob=(1)\ncfn=(1)\ncalls=9 9\n1 1\n\
             cfn=(5) (below main)\ncalls=1 1\n1 1\ncfn=(6) 0x3baf00\ncalls=1 1\n1 1\ncfn=(7) _ZN4core3ptr17h0123456789abcdefE\n\
             calls=1 1\n1 1\n",
            &["_RNv6called", "memcpy"],
        );
    }

    #[test]
    fn a_recursive_function_is_one_function() {
        check(
            "ob=(1) /bin/program\nfn=(1) _RNv1a\n1 1\ncfn=(2) _RNv1b'2\ncalls=3 1\n1 1\ncfn=(3) _RNv1b\ncalls=3 1\n",
            &["_RNv1b", "_RNv1a"],
        );
    }

    #[track_caller]
    fn check_parts(profile: &str, want: &[&str]) {
        let symbols = "0000000000001000 0000000000000010 t _RNv1a\n0000000000002000 0000000000000010 t _RNv1a.cold\n\
             0000000000002010 0000000000000008 t _RNv1b.7.cold\n0000000000002018 t _RNv7no_size.cold\n                 U malloc\n";
        assert_eq!(split_parts(profile, "/bin/program", symbols), want, "{profile}");
    }

    #[test]
    fn parts_are_executed_if_an_instruction_is() {
        let head = "positions: instr line\nob=(1) /bin/program\nfn=(1) _RNv1a\n";
        check_parts(&format!("{head}0x1000 3 7\n+15 * 1\n"), &[]);
        check_parts(&format!("{head}0x1000 3 7\n+4096 * 1\n"), &["_RNv1a.cold"]);
        check_parts(
            &format!("{head}0x2020 3 7\n-9 * 1\n* * 1\n-8 +1 1\n"),
            &["_RNv1a.cold", "_RNv1b.7.cold"],
        );
        check_parts(&format!("{head}0x2018 3 7\n"), &[]);
    }

    #[test]
    fn instructions_of_other_objects_do_not_count() {
        check_parts(
            "positions: instr line\nob=(1) /lib/libc.so\nfn=(1) x\n0x2000 3 7\ncob=(2) /bin/program\ncfn=(2) y\ncalls=1 +8 3\n\
             +4 3 9\nob=(2)\nfn=(2)\n+12 3 1\n",
            &["_RNv1b.7.cold"],
        );
    }

    #[test]
    fn without_instructions_there_are_no_parts() {
        check_parts("positions: line\nob=(1) /bin/program\nfn=(1) _RNv1a\n+8192 7\n", &[]);
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
        check_pattern("_RNvCs1a_4core4drop.cold", "_RNvCs*_4core4drop.cold");
        check_pattern("_RNvCs1a_4core4drop.12.cold", "_RNvCs*_4core4drop.*.cold");
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
        check_pattern("Base_B1_Cs1a_x", "Base_B1_Cs1a_x");
    }

    #[test]
    fn the_version_of_ring_is_left_open() {
        check_pattern("ring_core_0_17_14__LIMBS_less_than", "ring_core_*__LIMBS_less_than");
        check_pattern("ring_core_x", "ring_core_x");
    }
}
