//! Why a key was added.

/// Why a key was added: a set of up to 32 causes. [`Causes::RETRY`] is the queue's own; the others
/// are the caller's, by number. When the queue merges two adds, it merges their causes, so that the
/// worker that takes the key learns all of them. Causes affect neither order nor delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Causes(u32);

impl Causes {
    /// No cause was given.
    pub const NONE: Self = Self(0);
    /// The last sync failed.
    pub const RETRY: Self = Self(1);

    /// Returns the cause with a number from 1 to 31. 0 is [`Causes::RETRY`]; higher numbers are
    /// [`Causes::NONE`].
    pub const fn number(number: u8) -> Self {
        if number < 32 { Self(1 << number) } else { Self::NONE }
    }

    /// Returns the causes that are in either set.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns true if any of `others` is in this set.
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns true if there are causes, and all of them are in `others`.
    pub const fn is_within(self, others: Self) -> bool {
        self.0 != 0 && self.0 & !others.0 == 0
    }

    /// Returns true if no cause was given.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
