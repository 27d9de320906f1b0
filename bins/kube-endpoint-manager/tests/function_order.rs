//! The linker script that the build script makes of `functions.txt`.

#[path = "../function_order.rs"]
mod function_order;

use std::collections::HashSet;

use function_order::linker_script;

#[test]
fn functions_come_first_and_then_instances_that_other_crates_needed() {
    let functions = "# A comment.
_RINvMNtCs*_3std4timeNtCs*_4CsvX3now
_RNvNtCs*_5bytes5bytes12static_clone.*
_RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriECs*_7tracker
_RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriEB*_
_RINvNtCs*_4core3ptr13drop_in_placeuECs*_7___rustc.*
_RNvNtCs*_5bytes5bytes12static_clone.*.cold
main
";
    insta::assert_snapshot!(linker_script(functions, 10), @r"
    SECTIONS {
      .text : {
        *(.text._RINvMNtCs*_3std4timeNtCs*_4CsvX3now .text.hot._RINvMNtCs*_3std4timeNtCs*_4CsvX3now .text.unlikely._RINvMNtCs*_3std4timeNtCs*_4CsvX3now)
        *(.text._RNvNtCs*_5bytes5bytes12static_clone.* .text.hot._RNvNtCs*_5bytes5bytes12static_clone.* .text.unlikely._RNvNtCs*_5bytes5bytes12static_clone.*)
        *(.text._RNvNtCs*_5bytes5bytes12static_clone .text.hot._RNvNtCs*_5bytes5bytes12static_clone .text.unlikely._RNvNtCs*_5bytes5bytes12static_clone)
        *(.text._RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriECs*_7tracker .text.hot._RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriECs*_7tracker .text.unlikely._RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriECs*_7tracker)
        *(.text._RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriEB*_ .text.hot._RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriEB*_ .text.unlikely._RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriEB*_)
        *(.text._RINvNtCs*_4core3ptr13drop_in_placeuECs*_7___rustc.* .text.hot._RINvNtCs*_4core3ptr13drop_in_placeuECs*_7___rustc.* .text.unlikely._RINvNtCs*_4core3ptr13drop_in_placeuECs*_7___rustc.*)
        *(.text._RINvNtCs*_4core3ptr13drop_in_placeuECs*_7___rustc .text.hot._RINvNtCs*_4core3ptr13drop_in_placeuECs*_7___rustc .text.unlikely._RINvNtCs*_4core3ptr13drop_in_placeuECs*_7___rustc)
        *(.text.main .text.hot.main .text.unlikely.main)
        *(.text._RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriE* .text.hot._RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriE* .text.unlikely._RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_4http3uri3UriE*)
        *(.text._RINvNtCs*_4core3ptr13drop_in_placeuE* .text.hot._RINvNtCs*_4core3ptr13drop_in_placeuE* .text.unlikely._RINvNtCs*_4core3ptr13drop_in_placeuE*)
        *(.text.split._RNvNtCs*_5bytes5bytes12static_clone.*)
        *(.text.split._RNvNtCs*_5bytes5bytes12static_clone)
        *(.text.hot .text.hot.*)
        *(.text)
        *(.text.[!su]* .text.s[!p]* .text.u[!n]*)
        *(.text.unlikely .text.unlikely.* .text.split .text.split.*)
        *(.text.*)
      }
    } INSERT BEFORE .fini;
    ");
}

#[test]
fn the_list_has_each_function_once() {
    let list = include_str!("../functions.txt");
    let functions: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(functions.len() > 1_000);
    let own = functions.iter().filter(|function| function.contains("kube_endpoint")).count();
    assert!(own > 1_000, "{own} functions of this project");
    let mut seen = HashSet::new();
    for function in functions {
        assert!(!function.starts_with("_ZN"), "the hash of a function: {function}");
        let has_hash = |rest: &str| {
            let hash = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
            (1..=11).contains(&(rest.len() - hash.len())) && hash.starts_with('_')
        };
        assert!(!function.split("Cs").skip(1).any(has_hash), "the hash of a crate: {function}");
        assert!(!function.contains(char::is_whitespace), "{function}");
        assert!(seen.insert(function), "{function} is there twice");
    }
}
