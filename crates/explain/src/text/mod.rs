//! Makes text for a terminal: lines of spans, each with an emphasis, printed plain or with colours.
//!
//! A [`Document`] knows nothing about terminals. [`Document::render`] makes plain text or ANSI
//! colours of it; another front end can read [`Document::lines`] and map each [`Emphasis`] to its
//! own style.

mod backends;
mod code;
mod doctor;
mod document;
mod explanation;
mod reports;
mod retire;
mod sarif;
mod table;

pub use document::{Colors, Document, Emphasis, Layout, Line, Span};
pub use reports::rendered;
