//! Typed indices, so that the compiler refuses an index of a slice in place of an index of a
//! candidate, and vectors that take one type of index.

use std::marker::PhantomData;

/// An index of an [`IndexVec`].
pub(super) trait Index: Copy {
    fn new(position: usize) -> Self;
    fn position(self) -> usize;
}

macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) struct $name(usize);

        impl Index for $name {
            fn new(position: usize) -> Self {
                Self(position)
            }

            fn position(self) -> usize {
                self.0
            }
        }
    )*};
}

indices! {
    /// Index of a pod that is published.
    CandidateIndex
    /// Index of a set of ports.
    GroupIndex
    /// Index of an existing slice among those of one family, by name.
    SliceIndex
    /// Index of a new slice among those of one family.
    NewSliceIndex
    /// Index of an endpoint in an existing slice.
    EndpointIndex
}

/// A vector that takes one type of index.
#[derive(Clone, Debug)]
pub(super) struct IndexVec<I, T> {
    items: Vec<T>,
    index: PhantomData<fn(I)>,
}

impl<I, T> Default for IndexVec<I, T> {
    fn default() -> Self {
        Self { items: Vec::new(), index: PhantomData }
    }
}

impl<I: Index, T> IndexVec<I, T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { items: Vec::with_capacity(capacity), index: PhantomData }
    }

    /// Returns a vector of `len` copies of a value.
    pub(super) fn filled(value: T, len: usize) -> Self
    where
        T: Clone,
    {
        Self { items: vec![value; len], index: PhantomData }
    }

    /// Appends an item and returns its index.
    pub(super) fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::new(self.items.len() - 1)
    }

    pub(super) fn get(&self, index: I) -> Option<&T> {
        self.items.get(index.position())
    }

    pub(super) fn get_mut(&mut self, index: I) -> Option<&mut T> {
        self.items.get_mut(index.position())
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn as_slice(&self) -> &[T] {
        &self.items
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    pub(super) fn enumerated(&self) -> impl Iterator<Item = (I, &T)> + Clone {
        self.items.iter().enumerate().map(|(position, item)| (I::new(position), item))
    }

    /// Converts each item; the indices stay the same.
    pub(super) fn map<U>(self, convert: impl FnMut(T) -> U) -> IndexVec<I, U> {
        IndexVec { items: self.items.into_iter().map(convert).collect(), index: PhantomData }
    }
}

impl<I: Index, T> FromIterator<T> for IndexVec<I, T> {
    fn from_iter<S: IntoIterator<Item = T>>(items: S) -> Self {
        Self { items: items.into_iter().collect(), index: PhantomData }
    }
}

impl<I, T> IntoIterator for IndexVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}
