//! Escapes text of others, so that a terminal, a page or a log shows it without interpreting it.
//!
//! The API server validates names, but not messages, annotations, reasons, images and the answers
//! of a webhook.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns true if a terminal shows the character itself and the text around it does not change.
/// Control characters, marks that turn the direction of text, and characters without a width are
/// not harmless.
pub fn is_harmless(c: char) -> bool {
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{fffe}'..='\u{ffff}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}');
    !(c.is_control() || is_hidden)
}

/// Returns at most `max_chars` characters of a text for a terminal or a line of a log, and an
/// ellipsis if there are more. It escapes characters that are not harmless as Rust does: `\n`,
/// `\u{1b}`.
pub fn harmless(text: &str, max_chars: usize) -> Cow<'_, str> {
    let end = text.char_indices().nth(max_chars).map(|(end, _)| end);
    let shown = end.and_then(|end| text.get(..end)).unwrap_or(text);
    if end.is_none() && shown.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = escaped(shown, |c, out| match c {
        '\n' | '\r' | '\t' => out.extend(c.escape_default()),
        c => out.extend(c.escape_unicode()),
    })
    .into_owned();
    if end.is_some() {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Returns the JSON with JSON's own escapes for the characters in strings that are not harmless.
/// Line ends between values stay.
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    escaped(json, |c, out| match c {
        '\n' => out.push(c),
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    })
}

/// Replaces the characters that are not harmless.
pub fn escaped(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmless(c) {
            out.push(c);
        } else {
            escape(c, &mut out);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_terminal_is_escaped() {
        let check = |text: &str, want: &str| assert_eq!(harmless(text, 100), want);
        check("container web: exit code 1", "container web: exit code 1");
        check("\u{1b}[2J\u{1b}]0;title\u{7}", r"\u{1b}[2J\u{1b}]0;title\u{7}");
        check("C1 \u{9b}31m \u{85}", r"C1 \u{9b}31m \u{85}");
        check("two\r\nlines\tand\u{7f}", r"two\r\nlines\tand\u{7f}");
        check("user\u{202e}txt.exe\u{2066}", r"user\u{202e}txt.exe\u{2066}");
        check("we\u{200b}b \u{feff} \u{2028} \u{e0041}", r"we\u{200b}b \u{feff} \u{2028} \u{e0041}");
        check(r#"<b>&"it's"\n"#, r#"<b>&"it's"\n"#);
    }

    #[test]
    fn what_people_write_stays() {
        for text in ["größer", "日本語\u{3000}です", "e\u{301}", "Ελληνικά", "שלום", "🚀 ✓ →", "a\u{a0}b"]
        {
            assert!(matches!(harmless(text, 100), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_cut_before_it_is_escaped() {
        assert_eq!(harmless("éééé", 4), "éééé");
        assert_eq!(harmless("éé\u{1b}é", 3), "éé\\u{1b}…");
        assert_eq!(harmless(&"\u{1b}".repeat(250_000), 2), "\\u{1b}\\u{1b}…");
        assert_eq!(harmless("", 0), "");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"a\u{202e}": "\u{1b}\u{9b}\u{7f}\u{2028}\u{e0041} é\n"});
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let shown = harmless_json(&json);
            assert!(shown.chars().all(|c| c == '\n' || is_harmless(c)), "{shown:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
        assert_eq!(harmless_json("\"\u{e0041}\""), r#""\udb40\udc41""#);
    }

    /// Returns texts of any characters, many of them harmful.
    fn text() -> impl proptest::strategy::Strategy<Value = String> {
        let c = proptest::prop_oneof![
            proptest::char::any(),
            proptest::char::range('\0', '\u{ff}'),
            proptest::char::range('\u{2000}', '\u{2070}'),
        ];
        proptest::strategy::Strategy::prop_map(proptest::collection::vec(c, 0..40), String::from_iter)
    }

    proptest::proptest! {
        #[test]
        fn no_text_harms(text in text(), max_chars in 0_usize..50) {
            let shown = harmless(&text, max_chars);
            proptest::prop_assert!(shown.chars().all(is_harmless), "{shown:?}");
            // Escaping a second time changes nothing, and harmless characters stay.
            proptest::prop_assert_eq!(&harmless(&shown, usize::MAX), &shown);
            let json = serde_json::to_string(&text).unwrap();
            let shown = harmless_json(&json);
            proptest::prop_assert!(shown.chars().all(is_harmless), "{shown:?}");
            proptest::prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
