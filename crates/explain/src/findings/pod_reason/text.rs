//! Parts of the sentences of several reasons.

/// Returns a message without the full stops and blanks at its end.
fn ended(message: &str) -> &str {
    message.trim_end_matches(['.', ' ', '\n'])
}

/// Returns the reason and the message of a condition or state, as the end of a sentence.
pub(in crate::findings) fn reported(why: &str, message: &str) -> String {
    match (why, message) {
        ("", "") => String::new(),
        (text, "") | ("", text) => format!(": {}", ended(text)),
        (why, message) => format!(": {why}, {}", ended(message)),
    }
}

/// Returns a text of several reasons, or an empty one if they have different ones: then none of
/// them holds for all.
pub(in crate::findings) fn common<'a, T>(all: &[&'a T], text: impl Fn(&'a T) -> &'a str) -> &'a str {
    let mut texts = all.iter().map(|one| text(one));
    let first = texts.next().unwrap_or_default();
    if texts.all(|other| other == first) { first } else { "" }
}

/// Quotes what several pods say, shortened: all of them the same, or one of them something else.
pub(in crate::findings) fn such_as<'a, T>(all: &[&'a T], text: impl Fn(&'a T) -> &'a str) -> String {
    let texts = distinct(all.iter().map(|one| shortened(text(one))).filter(|text| !text.is_empty()));
    match &*texts {
        [] => String::new(),
        [one] => one.clone(),
        [one, ..] => format!("{one} (and other words of other pods)"),
    }
}

/// Shortens the words of a program: the cause is often at their end.
pub(in crate::findings) fn shortened(words: &str) -> String {
    const START: usize = 90;
    const END: usize = 150;
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let count = words.chars().count();
    if count <= START + END {
        return words;
    }
    let start: String = words.chars().take(START).collect();
    let end: String = words.chars().skip(count - END).collect();
    format!("{start} … {end}")
}

/// Returns texts sorted, each once.
pub(in crate::findings) fn distinct<T: Ord>(texts: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut texts: Vec<T> = texts.into_iter().collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// Lists the first texts, and the number of the others.
pub(in crate::findings) fn first_few(texts: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 3;
    let shown = texts.iter().take(SHOWN).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
