//! The text of steps of histories: a word for the action, then its fields as `name=value`.
//!
//! The macros make the type, its text, its parser and its list of words from one table, so that the
//! two cannot differ.

use std::collections::BTreeMap;
use std::time::Duration;

/// The reason why a text is no step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The first word is not known.
    #[error("{0:?} is not the name of a step")]
    Unknown(String),
    /// A field has no value, or an invalid one.
    #[error("the field {field} of {text:?} is missing or has no valid value")]
    Field { field: &'static str, text: String },
}

/// A type of fields of steps.
pub trait Field: Sized {
    /// Returns the value without spaces.
    fn write(&self) -> String;
    /// Parses a value. Returns `None` if the text is invalid.
    fn read(text: &str) -> Option<Self>;
}

macro_rules! plain_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn write(&self) -> String {
                self.to_string()
            }

            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}

plain_fields!(u8, u16, u32, u64, i64, bool);

impl<T: Field> Field for Option<T> {
    fn write(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), T::write)
    }

    fn read(text: &str) -> Option<Self> {
        if text == "none" { Some(None) } else { T::read(text).map(Some) }
    }
}

impl<T: Field> Field for Vec<T> {
    fn write(&self) -> String {
        let texts: Vec<String> = self.iter().map(T::write).collect();
        if texts.is_empty() { "none".to_owned() } else { texts.join(",") }
    }

    fn read(text: &str) -> Option<Self> {
        if text == "none" { Some(Vec::new()) } else { text.split(',').map(T::read).collect() }
    }
}

/// Writes a time as hours, minutes, seconds and milliseconds, such as `26:01:02.500`.
impl Field for Duration {
    fn write(&self) -> String {
        let seconds = self.as_secs();
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        format!("{hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, self.subsec_millis())
    }

    fn read(text: &str) -> Option<Self> {
        let (whole, milliseconds) = text.split_once('.')?;
        let seconds =
            whole.split(':').try_fold(0u64, |sum, part| Some(sum * 60 + part.parse::<u64>().ok()?))?;
        Some(Self::from_secs(seconds) + Self::from_millis(milliseconds.parse().ok()?))
    }
}

/// The fields of a text.
pub(crate) struct Fields<'a> {
    text: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Fields<'a> {
    /// Returns the first word and the fields after it.
    pub(crate) fn of(text: &'a str) -> (&'a str, Self) {
        let mut words = text.split_whitespace();
        let word = words.next().unwrap_or_default();
        (word, Self { text, values: words.filter_map(|word| word.split_once('=')).collect() })
    }

    pub(crate) fn get<T: Field>(&self, field: &'static str) -> Result<T, TextError> {
        let value = self.values.get(field).and_then(|text| T::read(text));
        value.ok_or_else(|| TextError::Field { field, text: self.text.to_owned() })
    }

    /// As [`Self::get`], with a value for a text without the field.
    pub(crate) fn get_or<T: Field>(&self, field: &'static str, default: T) -> Result<T, TextError> {
        if self.values.contains_key(field) { self.get(field) } else { Ok(default) }
    }
}

/// Reads a field, which may be missing if it has a default.
macro_rules! read_field {
    ($fields:ident, $field:ident) => {
        $fields.get(stringify!($field))?
    };
    ($fields:ident, $field:ident, $default:expr) => {
        $fields.get_or(stringify!($field), $default)?
    };
}

/// Defines an enum whose variants have a word and fields as their text. A text may lack the fields
/// that have a default.
macro_rules! text_enum {
    (
        $(#[$meta:meta])* pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $word:literal $variant:ident {
                $( $field:ident : $type:ty $(= $default:expr)? ),* $(,)?
            } )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name { $( $(#[$variant_meta])* $variant { $( $field: $type ),* }, )* }

        impl $name {
            /// The words of all variants.
            pub const WORDS: &[&str] = &[$($word),*];

            /// Returns the word of the variant.
            pub fn word(&self) -> &'static str {
                match self { $( Self::$variant { .. } => $word, )* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $( Self::$variant { $( $field ),* } => {
                        f.write_str($word)?;
                        $( write!(f, concat!(" ", stringify!($field), "={}"), $crate::text::Field::write($field))?; )*
                        Ok(())
                    } )*
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::text::TextError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let (word, fields) = $crate::text::Fields::of(text);
                match word {
                    $( $word => {
                        let _ = &fields;
                        Ok(Self::$variant {
                            $( $field: $crate::text::read_field!(fields, $field $(, $default)?) ),*
                        })
                    } )*
                    _ => Err($crate::text::TextError::Unknown(word.to_owned())),
                }
            }
        }
    };
}

/// Defines an enum of words for a field.
macro_rules! word_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $( $(#[$variant_meta:meta])* $word:literal $variant:ident )* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )* }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the word.
            pub fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }
        }

        impl $crate::text::Field for $name {
            fn write(&self) -> String {
                self.word().to_owned()
            }

            fn read(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.word() == text)
            }
        }
    };
}

/// Defines a struct whose text is a word and fields. A text may lack the fields that have a
/// default.
macro_rules! text_struct {
    ($(#[$meta:meta])* $word:literal pub struct $name:ident {
        $( $(#[$field_meta:meta])* $field:ident : $type:ty $(= $default:expr)? ),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $( $(#[$field_meta])* pub $field: $type ),* }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($word)?;
                $( write!(f, concat!(" ", stringify!($field), "={}"), $crate::text::Field::write(&self.$field))?; )*
                Ok(())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::text::TextError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let (word, fields) = $crate::text::Fields::of(text);
                if word != $word {
                    return Err($crate::text::TextError::Unknown(word.to_owned()));
                }
                Ok(Self { $( $field: $crate::text::read_field!(fields, $field $(, $default)?) ),* })
            }
        }
    };
}

pub(crate) use {read_field, text_enum, text_struct, word_enum};

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: Field + PartialEq + std::fmt::Debug>(value: T, text: &str) {
        assert_eq!(value.write(), text);
        assert_eq!(T::read(text), Some(value));
    }

    #[test]
    fn fields_are_read_as_they_are_written() {
        check(7u8, "7");
        check(-7i64, "-7");
        check(None::<u8>, "none");
        check(Some(3u16), "3");
        check(vec![1u8, 2], "1,2");
        check(Vec::<u8>::new(), "none");
        check(Duration::from_millis(93_662_500), "26:01:02.500");
        assert_eq!(Duration::read("1:2"), None);
        assert_eq!(u8::read("300"), None);
    }
}
