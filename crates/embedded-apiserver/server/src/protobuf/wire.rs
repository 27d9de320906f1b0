//! Protobuf's wire format, as far as Kubernetes' messages use it.

use super::Malformed;

/// What a field carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    /// A varint.
    Number(u64),
    /// A string or a message.
    Bytes(&'a [u8]),
    /// A fixed number, which no message that is read here has.
    Fixed,
}

/// Reads the fields of a message one after the other.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64, Malformed> {
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
