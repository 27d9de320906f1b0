//! The order in which the linker puts functions. A module of the build script.

use std::collections::HashSet;
use std::fmt::Write as _;

/// A linker script that puts these functions first in the section that the linker makes of all functions.
///
/// Another compiler, or another version of a dependency, gives a symbol another hash. So the functions follow that have the same
/// name and another hash: those are the functions meant, and the other instances of generic functions. The names of
/// sections begin with `.text.unlikely.` for functions with the attribute `cold`, which are executed all the same, and with
/// `.text.hot.` or `.text.unlikely.` for those that a profile (`-Cprofile-use`) shows to be hot or cold.
pub(crate) fn linker_script(functions: &str) -> String {
    let symbols = || functions.lines().filter(|line| !line.starts_with('#'));
    let mut script = "SECTIONS {\n  .text : {\n".to_owned();
    let mut seen = HashSet::new();
    for pattern in symbols().map(str::to_owned).chain(symbols().filter_map(any_hash)) {
        if !seen.contains(&pattern) {
            let _ = writeln!(script, "    *(.text.{pattern} .text.hot.{pattern} .text.unlikely.{pattern})");
            seen.insert(pattern);
        }
    }
    script.push_str("    *(.text .text.*)\n  }\n} INSERT BEFORE .fini;\n");
    script
}

/// A pattern of the symbols of this name with any hash. None if the mangling is an unknown one.
fn any_hash(symbol: &str) -> Option<String> {
    if symbol.starts_with("_ZN") {
        // Legacy: `17h`, 16 digits and `E` at the end.
        return symbol.rsplit_once("17h").map(|(name, _)| format!("{name}17h*"));
    }
    // v0: each crate has a hash between `Cs` and `_`. References back into the symbol shift where a hash has another length, so that
    // a few patterns match nothing.
    let mut parts = symbol.strip_prefix("_R")?.split("Cs");
    let mut pattern = format!("_R{}", parts.next()?);
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        pattern.push_str(if rest.starts_with('_') { "Cs*" } else { "Cs" });
        pattern.push_str(if rest.starts_with('_') { rest } else { part });
    }
    Some(pattern)
}
