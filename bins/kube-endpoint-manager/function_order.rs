//! The order in which the linker puts functions. A module of the build script.

use std::collections::HashSet;
use std::fmt::Write as _;

/// The other functions. The linker puts a section where the first pattern matches it. `.text` has what was written in assembly language, for
/// cryptography. The third line leaves out what begins with `un` (`.text.unlikely`) or `sp` (`.text.split`), and the last takes what
/// is left of that.
const REST: [&str; 5] = [
    ".text.hot .text.hot.*",
    ".text",
    ".text.[!su]* .text.s[!p]* .text.u[!n]*",
    ".text.unlikely .text.unlikely.* .text.split .text.split.*",
    ".text.*",
];

/// A linker script that puts these functions, `most` of them, first in the section that the linker makes of all functions.
///
/// Each line of `functions` is a pattern of symbols, or a comment. With other features or for another target
/// another crate may be the one that needed an instance of a generic function; so the same instances follow that any crate
/// needed.
///
/// The names of sections begin with `.text.unlikely.` for functions with the attribute `cold`, which are executed all the same,
/// and with `.text.hot.` or `.text.unlikely.` for those that a profile (`-Cprofile-use`) shows to be hot or cold. `.text.split.` is
/// what such a build takes out of a function because the profile shows that it is rarely or never executed.
pub(crate) fn linker_script(functions: &str, most: usize) -> String {
    let patterns = functions.lines().filter(|line| !line.starts_with('#')).take(most);
    let (parts, functions): (Vec<_>, Vec<_>) = patterns.partition(|pattern| pattern.ends_with(SPLIT));
    let mut script = "SECTIONS {\n  .text : {\n".to_owned();
    for pattern in functions.iter().flat_map(|pattern| copies(pattern)) {
        add(&mut script, pattern);
    }
    let mut seen = HashSet::new();
    for instance in functions.into_iter().filter_map(instance).filter(|instance| seen.insert(*instance)) {
        add(&mut script, &format!("{instance}*"));
    }
    for pattern in parts.iter().filter_map(|part| part.strip_suffix(SPLIT)).flat_map(copies) {
        let _ = writeln!(script, "    *(.text.split.{pattern})");
    }
    for rest in REST {
        let _ = writeln!(script, "    *({rest})");
    }
    script.push_str("  }\n} INSERT BEFORE .fini;\n");
    script
}

/// The suffix of a part that a build with a profile takes out of a function.
const SPLIT: &str = ".cold";

/// The pattern, and that of the first one of several copies of a function, which has no number.
fn copies(pattern: &str) -> impl Iterator<Item = &str> {
    [Some(pattern), pattern.strip_suffix(".*")].into_iter().flatten()
}

fn add(script: &mut String, pattern: &str) {
    let _ = writeln!(script, "    *(.text.{pattern} .text.hot.{pattern} .text.unlikely.{pattern})");
}

/// The pattern of an instance of a generic function, without the crate that needed it. None for other functions. The crate is the
/// last part of a symbol, as its hash, the length of its name and the name, or as a reference to where the symbol named it before.
fn instance(pattern: &str) -> Option<&str> {
    let symbol = pattern.strip_suffix(".*").unwrap_or(pattern);
    if let Some(instance) = symbol.strip_suffix("B*_") {
        return Some(instance);
    }
    let (instance, needed_by) = symbol.rsplit_once("Cs*_")?;
    let name = needed_by.trim_start_matches(|c: char| c.is_ascii_digit());
    let length = needed_by[..needed_by.len() - name.len()].parse().ok()?;
    // An underscore stands between the length and a name that begins with one.
    let is_name = name.len() == length || name.strip_prefix('_').is_some_and(|name| name.len() == length);
    is_name.then_some(instance)
}
