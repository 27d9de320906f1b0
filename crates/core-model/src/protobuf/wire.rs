//! Reads the wire format: the fields of a message, one after another.

use super::DecodeError;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    /// A varint: a number or a boolean.
    Number(u64),
    /// A string, a message or a packed list.
    Bytes(&'a [u8]),
    /// A fixed-width number. No decoder reads such a field.
    Fixed,
}

/// Walks over the fields of a message. It does not look at the content of a field, so an unread
/// field costs only its tag and its length, whatever its size.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    /// Path of the message in the object, for errors.
    path: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], path: &'static str) -> Self {
        Self { rest: bytes, path }
    }

    /// Returns the fields of a message that is a field of another one.
    pub(crate) fn of(payload: Payload<'a>, path: &'static str) -> Result<Self, DecodeError> {
        Ok(Self::new(payload.bytes(path)?, path))
    }

    /// Returns the next field, with its number, or `None` at the end of the message.
    ///
    /// It is always inlined: a call would return the result through memory, which takes longer than
    /// all the rest.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Payload<'a>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let payload = match tag & 7 {
            2 => {
                let length = self.varint()?;
                Payload::Bytes(self.take(length)?)
            }
            0 => Payload::Number(self.varint()?),
            1 => self.take(8).map(|_| Payload::Fixed)?,
            5 => self.take(4).map(|_| Payload::Fixed)?,
            _ => return Err(self.broken()),
        };
        Ok(Some((tag >> 3, payload)))
    }

    /// Returns the bytes after the last field that this has returned.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, DecodeError> {
        match self.rest {
            // Nearly all tags and lengths have one byte.
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            // Lengths from 128 on, and tags of fields from 16 on, mostly have two.
            [low, high, rest @ ..] if *high < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*high) << 7 | u64::from(*low & 0x7f))
            }
            rest => {
                let (number, rest) = long_varint(rest).ok_or_else(|| self.broken())?;
                self.rest = rest;
                Ok(number)
            }
        }
    }

    #[inline(always)]
    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let split = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let (bytes, rest) = split.ok_or_else(|| self.broken())?;
        self.rest = rest;
        Ok(bytes)
    }

    #[cold]
    fn broken(&self) -> DecodeError {
        DecodeError::Broken { message: self.path }
    }
}

/// Reads a varint. Returns it and the bytes after it, or `None` if the bytes end too early or the
/// varint has more than 64 bits.
#[inline(never)]
fn long_varint(mut bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some((number, bytes));
        }
    }
    None
}

impl<'a> Payload<'a> {
    #[inline]
    pub(crate) fn bytes(self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(DecodeError::WrongType { field }),
        }
    }

    /// Returns a string.
    #[inline]
    pub(crate) fn text(self, field: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(field)?).map_err(|_| DecodeError::NotUtf8 { field })
    }

    #[inline]
    pub(crate) fn number(self, field: &'static str) -> Result<u64, DecodeError> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(DecodeError::WrongType { field }),
        }
    }

    /// Returns an int32. As in Go, this drops the upper bits of a longer number.
    #[inline]
    pub(crate) fn int32(self, field: &'static str) -> Result<i32, DecodeError> {
        Ok(self.number(field)? as i32)
    }

    #[inline]
    pub(crate) fn boolean(self, field: &'static str) -> Result<bool, DecodeError> {
        Ok(self.number(field)? != 0)
    }
}
