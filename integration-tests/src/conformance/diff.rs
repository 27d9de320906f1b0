//! Prints the difference of two normal forms.

use serde_json::Value;
use similar::TextDiff;

/// The maximum number of lines that a difference prints.
const MOST_LINES: usize = 80;

/// Returns a unified diff of two values as indented JSON. It truncates a long one, and is empty if
/// they are equal.
pub fn unified_diff(want: &Value, got: &Value) -> String {
    let [want, got] = [want, got].map(|value| {
        let mut value = value.clone();
        value.sort_all_objects();
        format!("{value:#}\n")
    });
    let diff = TextDiff::from_lines(&want, &got);
    let text = diff.unified_diff().context_radius(2).header("want", "got").to_string();
    let total = text.lines().count();
    if total <= MOST_LINES {
        return text;
    }
    let mut kept: String = text.lines().take(MOST_LINES).flat_map(|line| [line, "\n"]).collect();
    kept.push_str(&format!("... and {} more lines\n", total - MOST_LINES));
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_values_have_none() {
        assert_eq!(unified_diff(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})), "");
    }

    #[test]
    fn a_difference_is_shown_in_its_surroundings() {
        let diff = unified_diff(&json!({"a": [1, 2, 3], "b": 1}), &json!({"a": [1, 3], "b": 1}));
        insta::assert_snapshot!(diff, @r#"
        --- want
        +++ got
        @@ -2,5 +2,4 @@
           "a": [
             1,
        -    2,
             3
           ],
        "#);
    }

    #[test]
    fn a_long_difference_is_cut_off() {
        let diff = unified_diff(&json!([]), &json!((0..500).collect::<Vec<_>>()));
        assert!(diff.ends_with("more lines\n"), "{diff}");
        assert_eq!(diff.lines().count(), MOST_LINES + 1);
    }
}
