//! The linker script that the build script makes of `functions.txt`.

#[path = "../function_order.rs"]
mod function_order;

use std::collections::HashSet;

use function_order::linker_script;

#[test]
fn functions_come_first_and_then_those_of_the_same_name() {
    let functions = "# A comment.
_ZN4core3ptr9drop_glueIh17h0123456789abcdefE
_ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h00000000000000aaE
_ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h00000000000000bbE.1981
_RNvMNtCsjrHSEGnQ3l9_3std4timeNtCs1a_4CsvX3now
of_another_language
";
    insta::assert_snapshot!(linker_script(functions), @r"
    SECTIONS {
      .text : {
        *(.text._ZN4core3ptr9drop_glueIh17h0123456789abcdefE .text.hot._ZN4core3ptr9drop_glueIh17h0123456789abcdefE .text.unlikely._ZN4core3ptr9drop_glueIh17h0123456789abcdefE)
        *(.text._ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h00000000000000aaE .text.hot._ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h00000000000000aaE .text.unlikely._ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h00000000000000aaE)
        *(.text._ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h00000000000000bbE.1981 .text.hot._ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h00000000000000bbE.1981 .text.unlikely._ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h00000000000000bbE.1981)
        *(.text._RNvMNtCsjrHSEGnQ3l9_3std4timeNtCs1a_4CsvX3now .text.hot._RNvMNtCsjrHSEGnQ3l9_3std4timeNtCs1a_4CsvX3now .text.unlikely._RNvMNtCsjrHSEGnQ3l9_3std4timeNtCs1a_4CsvX3now)
        *(.text.of_another_language .text.hot.of_another_language .text.unlikely.of_another_language)
        *(.text._ZN4core3ptr9drop_glueIh17h* .text.hot._ZN4core3ptr9drop_glueIh17h* .text.unlikely._ZN4core3ptr9drop_glueIh17h*)
        *(.text._ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h* .text.hot._ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h* .text.unlikely._ZN5alloc4sync16Arc$LT$T$C$A$GT$9drop_slow17h*)
        *(.text._RNvMNtCs*_3std4timeNtCs*_4CsvX3now .text.hot._RNvMNtCs*_3std4timeNtCs*_4CsvX3now .text.unlikely._RNvMNtCs*_3std4timeNtCs*_4CsvX3now)
        *(.text .text.*)
      }
    } INSERT BEFORE .fini;
    ");
}

#[test]
fn the_list_has_each_function_once() {
    let list = include_str!("../functions.txt");
    let functions: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(functions.len() > 1_000);
    let mut seen = HashSet::new();
    for function in functions {
        assert!(function.starts_with("_ZN") || function.starts_with("_R"), "{function}");
        assert!(!function.contains(char::is_whitespace), "{function}");
        assert!(seen.insert(function), "{function} is there twice");
    }
}
