//! A sorted list of pods with cheap clones.

use std::sync::Arc;

use kube_endpoint_core_model::{Pod, Text};

/// Maximum number of pods in a chunk.
const CHUNK: usize = 128;

/// Pods of one namespace in chunks, sorted by name. A clone shares the chunks, so that under the
/// lock it copies one pointer for 128 pods. A change copies one chunk, and only while a clone
/// shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodList {
    /// Non-empty chunks in order.
    chunks: Vec<Arc<Vec<Arc<Pod>>>>,
    len: usize,
}

impl PodList {
    /// Returns a list of pods, given in any order.
    pub(crate) fn of(mut pods: Vec<Arc<Pod>>) -> Self {
        // The pods of each label set are sorted already, which makes this sort fast.
        pods.sort_by(|a, b| a.key.name.cmp(&b.key.name));
        let chunks = pods.chunks(CHUNK).map(|chunk| Arc::new(chunk.to_vec())).collect();
        Self { chunks, len: pods.len() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns all pods, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Returns the pod of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Pod>> {
        let chunk = self.chunks.get(self.chunk_of(name)?)?;
        chunk.get(chunk.binary_search_by(|other| (*other.key.name).cmp(name)).ok()?)
    }

    /// Adds a pod, or replaces the pod of the same name.
    pub(crate) fn put(&mut self, pod: &Arc<Pod>) {
        let Some(at) = self.chunk_of(&pod.key.name) else {
            self.chunks = vec![Arc::new(vec![Arc::clone(pod)])];
            self.len = 1;
            return;
        };
        let last = at + 1 == self.chunks.len();
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let found = chunk.binary_search_by(|other| other.key.name.cmp(&pod.key.name));
        self.len += usize::from(found.is_err());
        match found {
            Ok(position) => {
                if let Some(slot) = Arc::make_mut(chunk).get_mut(position) {
                    *slot = Arc::clone(pod);
                }
            }
            Err(position) if chunk.len() < CHUNK => Arc::make_mut(chunk).insert(position, Arc::clone(pod)),
            // Lists arrive sorted: a new chunk at the end, instead of a split, keeps the chunks
            // full.
            Err(CHUNK) if last => self.chunks.push(Arc::new(vec![Arc::clone(pod)])),
            Err(position) => {
                let lower = Arc::make_mut(chunk);
                let mut upper = lower.split_off(CHUNK / 2);
                match position.checked_sub(CHUNK / 2) {
                    Some(position) => upper.insert(position, Arc::clone(pod)),
                    None => lower.insert(position, Arc::clone(pod)),
                }
                self.chunks.insert(at + 1, Arc::new(upper));
            }
        }
    }

    /// Removes a pod by name.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some(at) = self.chunk_of(name) else { return };
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let Ok(position) = chunk.binary_search_by(|other| (*other.key.name).cmp(name)) else { return };
        let rest = Arc::make_mut(chunk);
        rest.remove(position);
        self.len -= 1;
        if rest.is_empty() {
            self.chunks.remove(at);
            return;
        }
        // Merges small neighbours, so that a shrinking list does not end with one chunk for each
        // pod.
        let small = rest.len();
        if let Some(next) = self.chunks.get(at + 1)
            && small + next.len() <= CHUNK / 2
        {
            let next = self.chunks.remove(at + 1);
            if let Some(chunk) = self.chunks.get_mut(at) {
                Arc::make_mut(chunk).extend(next.iter().cloned());
            }
        }
    }

    /// Returns the position of the chunk that contains a name, or into which it belongs, or `None`
    /// if there are no chunks.
    fn chunk_of(&self, name: &str) -> Option<usize> {
        let begins_after =
            |chunk: &Arc<Vec<Arc<Pod>>>| first_name(chunk).is_some_and(|first| **first > *name);
        let after = self.chunks.partition_point(|chunk| !begins_after(chunk));
        (!self.chunks.is_empty()).then(|| after.saturating_sub(1))
    }
}

fn first_name(chunk: &[Arc<Pod>]) -> Option<&Text> {
    chunk.first().map(|pod| &pod.key.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_core_model::ObjectKey;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn pod(name: &str, uid: &str) -> Arc<Pod> {
        Arc::new(Pod { key: ObjectKey::new("n", name), uid: uid.into(), ..Pod::default() })
    }

    fn check(list: &PodList, model: &BTreeMap<String, Arc<Pod>>) {
        assert!(list.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
        assert!(list.iter().eq(model.values()));
        assert_eq!((list.len(), list.iter().count()), (model.len(), model.len()));
        assert!(model.iter().all(|(name, pod)| list.get(name) == Some(pod)) && list.get("p").is_none());
        assert_eq!(list.is_empty(), model.is_empty());
    }

    #[test]
    fn a_list_filled_in_order_has_full_chunks() {
        let mut list = PodList::default();
        for number in 0..10 * CHUNK {
            list.put(&pod(&format!("pod-{number:05}"), ""));
        }
        assert_eq!(list.chunks.len(), 10);
        for number in 0..10 * CHUNK - 10 {
            list.remove(&format!("pod-{:05}", number * 7 % (10 * CHUNK)));
        }
        assert_eq!((list.len(), list.chunks.len()), (10, 1));
    }

    proptest! {
        #[test]
        fn the_list_behaves_like_a_sorted_map(steps in prop::collection::vec((0u32..600, 0u8..8), 0..2000), start in 0u32..600) {
            let mut model: BTreeMap<String, Arc<Pod>> =
                (0..start).map(|number| (format!("p{number}"), pod(&format!("p{number}"), ""))).collect();
            let mut list = PodList::of(model.values().rev().cloned().collect());
            check(&list, &model);
            for (step, (number, what)) in steps.into_iter().enumerate() {
                let name = format!("p{number}");
                if what < 4 {
                    list.remove(&name);
                    model.remove(&name);
                } else {
                    let new = pod(&name, &step.to_string());
                    list.put(&new);
                    model.insert(name, new);
                }
            }
            check(&list, &model);
        }

        #[test]
        fn a_clone_does_not_change(names in prop::collection::vec(0u32..300, 1..300)) {
            let mut list = PodList::default();
            for number in &names {
                list.put(&pod(&format!("p{number}"), "old"));
            }
            let copy = list.clone();
            let before: Vec<_> = list.iter().cloned().collect();
            for number in names {
                list.put(&pod(&format!("p{number}"), "new"));
                list.remove(&format!("p{}", number / 2));
            }
            prop_assert!(copy.iter().eq(before.iter()));
        }
    }
}
