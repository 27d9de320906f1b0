//! The language of the pages: sentences begin with who does something, and a cell of a table is
//! short enough for a reader of a diff.

use super::pages;

/// No sentence begins with one of these: it would name nobody who does something.
const BEGINNINGS: [&str; 4] = ["Whether", "Has", "What", "None"];
const PHRASES: [&str; 4] = ["of which", "for so long", "all the same", "ever more"];
/// The most sentences of a cell, and the most characters.
const LONGEST_CELL: (usize, usize) = (2, 300);

/// A heading, a paragraph, an item of a list, or a cell of a table, without its code.
#[derive(Debug, Default, PartialEq)]
struct Piece {
    line: usize,
    text: String,
    is_cell: bool,
}

/// The text with `code` in place of each span of code, so that no word of it counts.
fn without_code(text: &str) -> String {
    let spans = text.split('`').enumerate();
    spans.map(|(number, span)| if number % 2 == 0 { span } else { "code" }).collect()
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("* ") || number.len() < line.len() && number.starts_with(". ")
}

/// The pieces of a page, outside blocks of code.
fn pieces(page: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut is_code, mut is_open) = (false, false);
    for (line, text) in (1..).zip(page.lines()) {
        let text = text.trim();
        if text.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || text.is_empty() || text.starts_with("```") || text.starts_with("<!--") {
            is_open = false;
        } else if text.starts_with('|') {
            is_open = false;
            let row = without_code(text.trim_matches('|'));
            let cells = row.split('|').map(|cell| cell.trim().to_owned());
            pieces.extend(cells.map(|text| Piece { line, text, is_cell: true }));
        } else if let Some(piece) = pieces.last_mut().filter(|_| is_open && !is_item(text)) {
            piece.text += " ";
            piece.text += text;
        } else {
            is_open = !text.starts_with('#');
            let text = text.trim_start_matches(['#', '-', ' ']).to_owned();
            pieces.push(Piece { line, text, is_cell: false });
        }
    }
    // A span of code may be on two lines, so it is taken out when a paragraph is complete.
    pieces.iter_mut().for_each(|piece| piece.text = without_code(&piece.text));
    pieces
}

/// The sentences of a piece. A colon ends one, too: a sentence may follow it.
fn sentences(text: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let sentence = sentences.last_mut().unwrap();
        *sentence += word;
        *sentence += " ";
        let ends = word.trim_end_matches(['"', '*', '_', ')', '”']).ends_with(['.', '?', '!', ':']);
        let is_upper = |next: &&str| next.trim_start_matches(MARKS).starts_with(char::is_uppercase);
        if ends && words.peek().is_some_and(is_upper) {
            sentences.push(String::new());
        }
    }
    sentences
}

const MARKS: [char; 6] = ['"', '*', '_', '(', '[', '“'];

fn first_word(sentence: &str) -> &str {
    let sentence = sentence.trim_start_matches(MARKS);
    sentence.split(|letter: char| !letter.is_alphanumeric()).next().unwrap()
}

/// The faults of a piece.
fn faults(piece: &Piece) -> Vec<String> {
    let mut faults = Vec::new();
    let sentences = sentences(&piece.text);
    for (number, sentence) in sentences.iter().enumerate() {
        let word = first_word(sentence);
        // The first word of a cell is often not capitalised.
        let begins =
            BEGINNINGS.iter().find(|it| it == &&word || number == 0 && it.eq_ignore_ascii_case(word));
        let is_question = word.eq_ignore_ascii_case("What") && sentence.contains('?');
        if let Some(begins) = begins.filter(|_| !is_question) {
            faults.push(format!("a sentence begins with {begins:?}: {sentence}"));
        }
    }
    let words: Vec<&str> = piece.text.split(|letter: char| !letter.is_alphanumeric()).collect();
    let text = format!(" {} ", words.join(" ").to_lowercase());
    for phrase in PHRASES.iter().filter(|phrase| text.contains(&format!(" {phrase} "))) {
        faults.push(format!("{phrase:?} in: {}", piece.text));
    }
    // Kubernetes' help texts are what they are.
    let (most_sentences, most_characters) = LONGEST_CELL;
    let is_kubernetes = piece.text.starts_with("[BETA]") || piece.text.starts_with("[ALPHA]");
    if piece.is_cell && !is_kubernetes {
        let ends = sentences.iter().filter(|sentence| !sentence.trim_end().ends_with(':')).count();
        let characters = piece.text.chars().count();
        if ends > most_sentences || characters > most_characters {
            faults.push(format!("a cell with {ends} sentences, {characters} characters: {}", piece.text));
        }
    }
    faults
}

#[test]
fn sentences_name_who_does_something_and_cells_are_short() {
    let mut found = Vec::new();
    let mut cells = 0;
    for (name, page) in pages() {
        for piece in pieces(&page) {
            cells += usize::from(piece.is_cell);
            let at = format!("{name}:{}", piece.line);
            found.extend(faults(&piece).into_iter().map(|fault| format!("{at}: {fault}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(cells > 500, "only {cells} cells found: does the parser still match the pages?");
}

#[track_caller]
fn check(page: &str, expected: &[&str]) {
    let found: Vec<String> = pieces(page).iter().flat_map(faults).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} instead of {expected}");
    }
}

#[test]
fn faults_of_a_page_are_found() {
    check("# What it costs\n", &["a sentence begins with \"What\""]);
    check("## What does it cost?\n", &[]);
    check("It waits. Has it listed?\n", &["a sentence begins with \"Has\""]);
    check("- whether it waits\n", &["a sentence begins with \"Whether\""]);
    check("| what goes wrong |\n|---|\n| none |\n", &["a sentence", "a sentence"]);
    check("Pods, all of\nwhich are ready.\n", &["\"of which\""]);
    check("A failure `of\nwhich` nobody knows.\n", &[]);
    check("```text\nWhat is code\n```\n", &[]);
    check("| One. Two. |\n", &[]);
    check("| One. Two. Three. |\n", &["a cell with 3 sentences"]);
    check(&format!("| {} |\n", "long ".repeat(61)), &["a cell with 1 sentences, 304"]);
    check("| [BETA] One. Two. Three. |\n", &[]);
}
