//! Labels, annotations and selectors: a small sorted map that objects share.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Text;
use crate::text::OrEmpty;

/// A map from string to string, sorted by key. Cloning copies a pointer; an
/// [`Interner`](crate::Interner) lets equal maps share memory.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringMap(pub(crate) Arc<[(Text, Text)]>);

impl StringMap {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Text> {
        let at = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Returns true if the key is present.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns all pairs, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Text, &Text)> + Clone {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if both share their memory, and are equal for that reason. Equal maps need not
    /// share it.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns a copy with one value set.
    pub fn with(&self, key: &str, value: impl Into<Text>) -> Self {
        self.without(key).0.iter().cloned().chain([(Text::from(key), value.into())]).collect()
    }

    /// Returns a copy without a key.
    pub fn without(&self, key: &str) -> Self {
        if !self.contains_key(key) {
            return self.clone();
        }
        self.0.iter().filter(|(k, _)| **k != *key).cloned().collect()
    }

    /// Treats this map as an equality selector: returns true if `labels` contains each of its
    /// pairs. An empty selector matches everything (upstream `labels.Set{}.AsSelector()`).
    pub fn selects(&self, labels: &StringMap) -> bool {
        let mut rest = labels.0.iter();
        self.0
            .iter()
            .all(|(key, value)| rest.find(|(k, _)| k >= key).is_some_and(|(k, v)| k == key && v == value))
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for StringMap {
    /// If a key occurs twice, the later value wins.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Text, Text)> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|later_in_order, kept| later_in_order.0 == kept.0);
        pairs.reverse();
        Self(pairs.into())
    }
}

impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(k, v)| (&**k, &**v)))
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(Pairs { wanted: |_| true })
    }
}

/// Deserialises the pairs whose key is wanted and skips the others.
pub(crate) fn only<'de, D: Deserializer<'de>>(
    deserializer: D,
    wanted: fn(&str) -> bool,
) -> Result<StringMap, D::Error> {
    deserializer.deserialize_option(Pairs { wanted })
}

struct Pairs {
    wanted: fn(&str) -> bool,
}

impl<'de> Visitor<'de> for Pairs {
    type Value = StringMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from string to string")
    }

    fn visit_none<E>(self) -> Result<StringMap, E> {
        Ok(StringMap::default())
    }

    fn visit_unit<E>(self) -> Result<StringMap, E> {
        Ok(StringMap::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<StringMap, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
        let mut pairs: Vec<(Text, Text)> = Vec::new();
        while let Some(key) = map.next_key_seed(Key { wanted: self.wanted })? {
            match key {
                // Go decodes null into an empty string.
                Some(key) => pairs.push((key, map.next_value::<OrEmpty>()?.0)),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(pairs.into_iter().collect())
    }
}

/// A key, or `None` if the caller does not want it.
struct Key {
    wanted: fn(&str) -> bool,
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<Text>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Text>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<Text>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, key: &str) -> Result<Option<Text>, E> {
        Ok((self.wanted)(key).then(|| Text::from(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().copied().collect()
    }

    #[test]
    fn is_sorted_and_the_later_value_wins() {
        let labels = map(&[("b", "1"), ("a", "2"), ("b", "3")]);
        let listed: Vec<_> = labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        assert_eq!(listed, [("a".into(), "2".into()), ("b".into(), "3".into())]);
    }

    #[test]
    fn null_and_absent_are_empty_and_a_null_value_is_an_empty_string() {
        assert_eq!(serde_json::from_str::<StringMap>("null").unwrap(), StringMap::default());
        assert_eq!(serde_json::from_str::<StringMap>(r#"{"a":null}"#).unwrap(), map(&[("a", "")]));
        assert!(serde_json::from_str::<StringMap>(r#"{"a":1}"#).is_err());
    }

    #[test]
    fn a_selector_matches_when_each_of_its_pairs_is_there() {
        let check = |selector: &[(&str, &str)], labels: &[(&str, &str)], want: bool| {
            assert_eq!(map(selector).selects(&map(labels)), want, "{selector:?} on {labels:?}");
        };
        check(&[], &[], true);
        check(&[], &[("a", "1")], true);
        check(&[("a", "1")], &[], false);
        check(&[("a", "1")], &[("a", "1"), ("b", "2")], true);
        check(&[("b", "2")], &[("a", "1"), ("b", "2")], true);
        check(&[("a", "1"), ("c", "3")], &[("a", "1"), ("b", "2"), ("c", "3")], true);
        check(&[("a", "1"), ("c", "4")], &[("a", "1"), ("b", "2"), ("c", "3")], false);
        check(&[("a", "2")], &[("a", "1")], false);
    }

    #[test]
    fn with_and_without() {
        let labels = map(&[("a", "1"), ("b", "2")]);
        assert_eq!(labels.with("a", "9"), map(&[("a", "9"), ("b", "2")]));
        assert_eq!(labels.without("a"), map(&[("b", "2")]));
        assert_eq!(labels.without("x"), labels);
    }
}
