//! The part of protobuf's wire format that Kubernetes messages use.

use super::Malformed;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    /// A varint.
    Number(u64),
    /// A string or a message.
    Bytes(&'a [u8]),
    /// A fixed-width number; no field of the table has one.
    Fixed,
}

/// Iterates over the fields of a message.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn field(&mut self) -> Result<(u64, Payload<'a>), Malformed> {
        let tag = self.varint()?;
        let payload = match tag & 7 {
            0 => Payload::Number(self.varint()?),
            1 => self.bytes(8).map(|_| Payload::Fixed)?,
            2 => {
                let length = self.varint()?;
                Payload::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Payload::Fixed)?,
            _ => return Err(Malformed),
        };
        Ok((tag >> 3, payload))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u64, Payload<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Appends a varint.
pub(super) fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a varint field.
pub(super) fn number(out: &mut Vec<u8>, field: u64, number: u64) {
    varint(out, field << 3);
    varint(out, number);
}

/// Appends a length-delimited field.
pub(super) fn bytes(out: &mut Vec<u8>, field: u64, content: &[u8]) {
    head(out, field, content.len());
    out.extend_from_slice(content);
}

/// Appends the tag and the length of a length-delimited field.
pub(super) fn head(out: &mut Vec<u8>, field: u64, length: usize) {
    varint(out, field << 3 | 2);
    varint(out, length as u64);
}

/// Inserts the tag and the length of a field whose content is everything from `start` on.
pub(super) fn wrap(out: &mut Vec<u8>, start: usize, field: u64) {
    let end = out.len();
    head(out, field, end - start);
    out[start..].rotate_left(end - start);
}
