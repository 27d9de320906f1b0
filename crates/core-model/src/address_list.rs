//! A list of addresses whose copies share equal chunks.
//!
//! The endpoints controller writes all addresses of a large Service when one of them changes. So
//! the list consists of chunks, which the plan, the state for the next plan and the store share. A
//! change copies one chunk. A shared chunk also keeps its encoding, so that a write encodes only
//! the chunks that have changed since the last one.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Index, IndexMut};
use std::sync::{Arc, OnceLock};

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::endpoints::EndpointAddress;
use crate::subsets::digest_of_addresses;

/// Maximum number of addresses of a chunk. A flip copies and encodes two chunks, and goes over all
/// other chunks.
const CHUNK: usize = 32;

/// The addresses of a subset, in order. Cloning a list copies a pointer for every 32 addresses.
#[derive(Clone, Default)]
pub struct AddressList {
    /// Without empty ones.
    chunks: Vec<Arc<Chunk>>,
    len: usize,
}

#[derive(Default)]
pub(crate) struct Chunk {
    addresses: Vec<EndpointAddress>,
    encoded: OnceLock<Encoded>,
    digest: OnceLock<u128>,
}

/// The encoding of the addresses of a chunk as values of a field.
struct Encoded {
    field: u64,
    bytes: Box<[u8]>,
}

impl Clone for Chunk {
    /// Copies the addresses, because a list clones a chunk to change it.
    fn clone(&self) -> Self {
        Self::from(self.addresses.clone())
    }
}

impl From<Vec<EndpointAddress>> for Chunk {
    fn from(addresses: Vec<EndpointAddress>) -> Self {
        Self { addresses, encoded: OnceLock::new(), digest: OnceLock::new() }
    }
}

impl Chunk {
    pub(crate) fn addresses(&self) -> &[EndpointAddress] {
        &self.addresses
    }

    /// Returns what the addresses add to a digest, as a sum.
    pub(crate) fn digest(&self) -> u128 {
        *self.digest.get_or_init(|| digest_of_addresses(&self.addresses))
    }

    /// Returns the encoding as values of `field`. If the chunk keeps none yet, this calls `encode`
    /// and keeps the result. Returns `None` if the chunk keeps the encoding for another field.
    pub(crate) fn kept(&self, field: u64, encode: impl FnOnce() -> Box<[u8]>) -> Option<&[u8]> {
        let encoded = self.encoded.get_or_init(|| Encoded { field, bytes: encode() });
        (encoded.field == field).then_some(&encoded.bytes)
    }
}

impl AddressList {
    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the addresses in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &EndpointAddress> + Clone {
        self.chunks.iter().flat_map(|chunk| &chunk.addresses)
    }

    /// Returns an address.
    pub fn get(&self, index: usize) -> Option<&EndpointAddress> {
        let (chunk, offset) = self.place(index)?;
        self.chunks.get(chunk)?.addresses.get(offset)
    }

    /// Returns a mutable reference to an address.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut EndpointAddress> {
        let (chunk, offset) = self.place(index)?;
        self.change(chunk)?.get_mut(offset)
    }

    /// Returns the last address.
    pub fn last(&self) -> Option<&EndpointAddress> {
        self.chunks.last()?.addresses.last()
    }

    /// Changes all addresses.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(&mut EndpointAddress)) {
        for chunk in 0..self.chunks.len() {
            self.change(chunk).into_iter().flatten().for_each(&mut change);
        }
    }

    /// Finds an address in a list that is sorted by `compare`. Returns `Ok` with its index, or
    /// `Err` with the index at which to insert it.
    pub fn binary_search_by(&self, compare: impl Fn(&EndpointAddress) -> Ordering) -> Result<usize, usize> {
        let begins_after =
            |chunk: &Arc<Chunk>| chunk.addresses.first().map(&compare) == Some(Ordering::Greater);
        let chunk = self.chunks.partition_point(|chunk| !begins_after(chunk)).saturating_sub(1);
        let before: usize = self.chunks.iter().take(chunk).map(|chunk| chunk.addresses.len()).sum();
        let Some(found) = self.chunks.get(chunk) else { return Err(0) };
        let found = found.addresses.binary_search_by(compare);
        found.map(|offset| before + offset).map_err(|offset| before + offset)
    }

    /// Adds an address at the end.
    pub fn push(&mut self, address: EndpointAddress) {
        self.len += 1;
        match self.chunks.last_mut() {
            Some(last) if last.addresses.len() < CHUNK => change(last).push(address),
            _ => self.chunks.push(Arc::new(vec![address].into())),
        }
    }

    /// Inserts an address before the one at an index, or at the end if there is none.
    pub fn insert(&mut self, index: usize, address: EndpointAddress) {
        let Some((at, offset)) = self.place(index) else { return self.push(address) };
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        self.len += 1;
        let addresses = change(chunk);
        addresses.insert(offset, address);
        if addresses.len() > CHUNK {
            let upper = addresses.split_off(CHUNK / 2);
            self.chunks.insert(at + 1, Arc::new(upper.into()));
        }
    }

    /// Removes the address at an index, if there is one.
    pub fn remove(&mut self, index: usize) -> Option<EndpointAddress> {
        let (at, offset) = self.place(index)?;
        let addresses = self.change(at)?;
        let removed = addresses.remove(offset);
        let left = addresses.len();
        self.len -= 1;
        if left == 0 {
            self.chunks.remove(at);
        } else if let Some(next) = self.chunks.get(at + 1)
            && left + next.addresses.len() <= CHUNK / 2
        {
            // This merges small neighbours, so that a shrinking list does not end with a chunk for
            // each address.
            let next = self.chunks.remove(at + 1);
            self.change(at)?.extend(next.addresses.iter().cloned());
        }
        Some(removed)
    }

    /// Removes the last address.
    pub fn pop(&mut self) -> Option<EndpointAddress> {
        self.remove(self.len.checked_sub(1)?)
    }

    /// Keeps the first addresses only.
    pub fn truncate(&mut self, len: usize) {
        let Some((at, offset)) = self.place(len) else { return };
        self.len = len;
        self.chunks.truncate(at + 1);
        if offset == 0 {
            self.chunks.truncate(at);
        } else if let Some(last) = self.change(at) {
            last.truncate(offset);
        }
    }

    /// Frees the memory that is reserved for more addresses.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.chunks.shrink_to_fit();
        self.chunks.last_mut().into_iter().for_each(|last| change(last).shrink_to_fit());
    }

    /// Removes all addresses.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// Returns the chunk that holds the address at an index, and the address's index in it.
    fn place(&self, index: usize) -> Option<(usize, usize)> {
        let mut offset = index;
        for (at, chunk) in self.chunks.iter().enumerate() {
            match offset.checked_sub(chunk.addresses.len()) {
                Some(rest) => offset = rest,
                None => return Some((at, offset)),
            }
        }
        None
    }

    fn change(&mut self, at: usize) -> Option<&mut Vec<EndpointAddress>> {
        self.chunks.get_mut(at).map(change)
    }
}

/// Returns the addresses of a chunk for a change. If others share the chunk, this clones it first.
fn change(chunk: &mut Arc<Chunk>) -> &mut Vec<EndpointAddress> {
    let chunk = Arc::make_mut(chunk);
    (chunk.encoded, chunk.digest) = (OnceLock::new(), OnceLock::new());
    &mut chunk.addresses
}

impl From<Vec<EndpointAddress>> for AddressList {
    fn from(addresses: Vec<EndpointAddress>) -> Self {
        addresses.into_iter().collect()
    }
}

impl FromIterator<EndpointAddress> for AddressList {
    fn from_iter<I: IntoIterator<Item = EndpointAddress>>(addresses: I) -> Self {
        let mut list = Self::default();
        let mut addresses = addresses.into_iter();
        loop {
            let mut chunk: Vec<EndpointAddress> = addresses.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                return list;
            }
            // A store holds the addresses for long, so they get no more memory than they need.
            chunk.shrink_to_fit();
            list.len += chunk.len();
            list.chunks.push(Arc::new(chunk.into()));
        }
    }
}

impl Extend<EndpointAddress> for AddressList {
    fn extend<I: IntoIterator<Item = EndpointAddress>>(&mut self, addresses: I) {
        addresses.into_iter().for_each(|address| self.push(address));
    }
}

impl<'a> IntoIterator for &'a AddressList {
    type Item = &'a EndpointAddress;
    type IntoIter = Box<dyn Iterator<Item = &'a EndpointAddress> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl Index<usize> for AddressList {
    type Output = EndpointAddress;

    /// Returns an address; panics if there is none, as a slice does.
    fn index(&self, index: usize) -> &EndpointAddress {
        #[expect(clippy::expect_used, reason = "as for slices")]
        self.get(index).expect("the list has an address at the index")
    }
}

impl IndexMut<usize> for AddressList {
    fn index_mut(&mut self, index: usize) -> &mut EndpointAddress {
        #[expect(clippy::expect_used, reason = "as for slices")]
        self.get_mut(index).expect("the list has an address at the index")
    }
}

impl PartialEq for AddressList {
    /// Compares the addresses, except those in chunks that both lists share.
    fn eq(&self, other: &Self) -> bool {
        if self.len != other.len {
            return false;
        }
        let mut same = 0;
        for (one, two) in self.chunks.iter().zip(&other.chunks) {
            if !Arc::ptr_eq(one, two) {
                if one.addresses.len() != two.addresses.len() {
                    break;
                }
                if one.addresses != two.addresses {
                    return false;
                }
            }
            same += 1;
        }
        let (ours, theirs) = (self.chunks.iter().skip(same), other.chunks.iter().skip(same));
        ours.flat_map(|chunk| &chunk.addresses).eq(theirs.flat_map(|chunk| &chunk.addresses))
    }
}

impl Eq for AddressList {}

impl PartialOrd for AddressList {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AddressList {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl fmt::Debug for AddressList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for AddressList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for AddressList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Addresses)
    }
}

/// Reads addresses into chunks one by one, so that memory never holds a long list twice.
struct Addresses;

impl<'de> Visitor<'de> for Addresses {
    type Value = AddressList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut addresses: A) -> Result<AddressList, A::Error> {
        let mut list = AddressList::default();
        while let Some(address) = addresses.next_element()? {
            list.push(address);
        }
        list.shrink_to_fit();
        Ok(list)
    }
}

#[cfg(test)]
mod tests;
