//! Logs of the pods that a Service selects and that have changed last.
//!
//! A log holds the names of these pods. A reader gets a cursor with the list of pods, and later the
//! changes since. If more pods have changed than the log holds, or a new list has replaced the old
//! one, the reader has to read all pods again, which then costs little more than reading the
//! changes would.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::{Pod, Text};

use crate::store::pod_list::PodList;

/// The most changes that a log keeps.
const MOST_CHANGES: usize = 128;

/// Determines which Services have a log of the pods that changed last, and how long it is
/// ([`Cluster::changed_pods`](crate::Cluster::changed_pods)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodLogOptions {
    /// A Service that selects at least this many pods has a log. Reading shorter lists as a whole
    /// costs no more, and needs no memory.
    pub least_pods: usize,
    /// The log keeps one change for this many pods.
    pub pods_for_each_change: usize,
}

impl PodLogOptions {
    /// Services with two pods have a log, and it keeps a change for each pod. With this, tests with
    /// few pods exercise the code that reads the changes.
    pub const SHORT_LISTS: Self = Self { least_pods: 2, pods_for_each_change: 1 };

    /// Returns the number of changes that the log of this many pods keeps.
    fn most_changes(self, pods: usize) -> usize {
        (pods / self.pods_for_each_change.max(1)).clamp(1, MOST_CHANGES)
    }
}

impl Default for PodLogOptions {
    fn default() -> Self {
        Self { least_pods: 100, pods_for_each_change: 8 }
    }
}

/// The pods that a Service selects, and which of them changed last.
#[derive(Debug, Default)]
pub(crate) struct SelectedPods {
    pods: PodList,
    log: Option<PodLog>,
}

#[derive(Debug, Default)]
struct PodLog {
    /// The identity of the log, which its cursors share.
    id: Arc<()>,
    /// The number of changes that the log has dropped.
    dropped: u64,
    changes: VecDeque<PodChanged>,
}

#[derive(Debug)]
struct PodChanged {
    name: Text,
    /// See [`ChangedPod::replaced`].
    replaced: Option<Arc<Pod>>,
}

/// The position up to which a reader has read the changes of a list of pods.
#[derive(Clone, Debug)]
pub struct PodCursor {
    log: Arc<()>,
    read: u64,
}

impl SelectedPods {
    pub(crate) fn new(pods: PodList, options: PodLogOptions) -> Self {
        let log = (pods.len() >= options.least_pods).then(PodLog::default);
        Self { pods, log }
    }

    pub(crate) fn pods(&self) -> &PodList {
        &self.pods
    }

    pub(crate) fn into_pods(self) -> PodList {
        self.pods
    }

    /// Adds a pod, or replaces the pod of the same name, which was `before`.
    pub(crate) fn put(&mut self, pod: &Arc<Pod>, before: Option<&Arc<Pod>>, options: PodLogOptions) {
        self.pods.put(pod);
        // A new version alone is no change.
        if before.is_some_and(|before| before.same_for_controllers(pod)) {
            return;
        }
        let replaced = before.filter(|before| {
            before.uid != pod.uid || before.pod_ips != pod.pod_ips || before.pod_ip != pod.pod_ip
        });
        self.record(&pod.key.name, replaced, options);
    }

    /// Removes a pod.
    pub(crate) fn remove(&mut self, pod: &Arc<Pod>, options: PodLogOptions) {
        self.pods.remove(&pod.key.name);
        self.record(&pod.key.name, Some(pod), options);
    }

    fn record(&mut self, name: &Text, replaced: Option<&Arc<Pod>>, options: PodLogOptions) {
        let pods = self.pods.len();
        if pods < options.least_pods {
            self.log = None;
            return;
        }
        let log = self.log.get_or_insert_default();
        while log.changes.len() >= options.most_changes(pods) {
            log.changes.pop_front();
            log.dropped += 1;
        }
        log.changes.push_back(PodChanged { name: name.clone(), replaced: replaced.cloned() });
    }

    /// Returns the end of the log, or `None` if the list is too short to have one.
    pub(crate) fn cursor(&self) -> Option<PodCursor> {
        let log = self.log.as_ref()?;
        Some(PodCursor { log: Arc::clone(&log.id), read: log.dropped + log.changes.len() as u64 })
    }

    /// Returns the pods that changed after a cursor, sorted by name, or `None` if the log does not
    /// hold all of these changes.
    pub(crate) fn changes_since(&self, cursor: &PodCursor) -> Option<Vec<ChangedPod>> {
        let log = self.log.as_ref().filter(|log| Arc::ptr_eq(&log.id, &cursor.log))?;
        let read = usize::try_from(cursor.read.checked_sub(log.dropped)?).ok()?;
        let mut by_name: BTreeMap<&Text, Vec<Arc<Pod>>> = BTreeMap::new();
        for PodChanged { name, replaced } in log.changes.range(read..) {
            by_name.entry(name).or_default().extend(replaced.iter().cloned());
        }
        let changed = |(name, replaced): (&Text, _)| {
            let now = self.pods.get(name).cloned();
            ChangedPod { name: name.clone(), replaced, now }
        };
        Some(by_name.into_iter().map(changed).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_core_model::{ObjectKey, ResourceVersion};
    use proptest::prelude::*;

    fn pod(number: usize, uid: u8, version: u64) -> Arc<Pod> {
        Arc::new(Pod {
            key: ObjectKey::new("n", format!("p{number:03}")),
            uid: uid.to_string().into(),
            resource_version: ResourceVersion(version),
            ..Pod::default()
        })
    }

    /// The values of `PodLogOptions::default`.
    const OPTIONS: PodLogOptions = PodLogOptions { least_pods: 100, pods_for_each_change: 8 };

    fn selected_with(options: PodLogOptions, count: usize) -> SelectedPods {
        let pods = PodList::of((0..count).map(|number| pod(number, 0, 0)).collect());
        SelectedPods::new(pods, options)
    }

    fn selected(count: usize) -> SelectedPods {
        selected_with(OPTIONS, count)
    }

    fn put(selected: &mut SelectedPods, new: &Arc<Pod>) {
        let before = selected.pods().get(&new.key.name).cloned();
        selected.put(new, before.as_ref(), OPTIONS);
    }

    #[test]
    fn short_lists_have_no_log() {
        let mut selected = selected(OPTIONS.least_pods - 1);
        assert!(selected.cursor().is_none());
        put(&mut selected, &pod(OPTIONS.least_pods, 0, 0));
        let cursor = selected.cursor().unwrap();
        selected.remove(&pod(0, 0, 0), OPTIONS);
        assert!(selected.cursor().is_none() && selected.changes_since(&cursor).is_none());
        put(&mut selected, &pod(0, 0, 0));
        assert!(selected.changes_since(&cursor).is_none(), "another log");
    }

    #[test]
    fn a_reader_that_missed_too_much_gets_nothing() {
        let most = 60;
        let mut selected = selected(most * OPTIONS.pods_for_each_change);
        let cursor = selected.cursor().unwrap();
        for number in 0..most {
            put(&mut selected, &pod(number, 1, 0));
        }
        assert_eq!(selected.changes_since(&cursor).map(|changes| changes.len()), Some(most));
        put(&mut selected, &pod(0, 2, 0));
        assert_eq!(selected.changes_since(&cursor), None);
        let log = selected.log.as_ref().unwrap();
        assert_eq!((log.changes.len(), log.dropped), (most, 1));
        let mut selected = self::selected(2 * MOST_CHANGES * OPTIONS.pods_for_each_change);
        for number in 0..2 * MOST_CHANGES {
            put(&mut selected, &pod(number, 1, 0));
        }
        assert_eq!(selected.log.map(|log| log.changes.len()), Some(MOST_CHANGES));
    }

    #[test]
    fn a_version_alone_is_no_change() {
        let mut selected = selected(OPTIONS.least_pods);
        let cursor = selected.cursor().unwrap();
        put(&mut selected, &pod(0, 0, 7));
        assert_eq!(selected.changes_since(&cursor), Some(Vec::new()));
        assert_eq!(selected.pods().get("p000").map(|pod| pod.resource_version), Some(ResourceVersion(7)));
    }

    proptest! {
        /// The changes turn the list that was read before into the current one, and name each
        /// replaced pod.
        #[test]
        fn changes_lead_from_one_reading_to_the_next(
            steps in prop::collection::vec((0usize..300, 0u8..3, any::<bool>()), 0..200),
            ships in any::<bool>(),
        ) {
            let options = if ships { OPTIONS } else { PodLogOptions::SHORT_LISTS };
            let mut selected = selected_with(options, 200);
            let mut known: BTreeMap<Text, Arc<Pod>> =
                selected.pods().iter().map(|pod| (pod.key.name.clone(), Arc::clone(pod))).collect();
            let mut cursor = selected.cursor();
            for (number, uid, read) in steps {
                let new = pod(number, uid, 0);
                let before = selected.pods().get(&new.key.name).cloned();
                match before {
                    Some(before) if uid == 0 => selected.remove(&before, options),
                    before => selected.put(&new, before.as_ref(), options),
                }
                if !read {
                    continue;
                }
                let changes = cursor.as_ref().and_then(|cursor| selected.changes_since(cursor));
                let Some(changes) = changes else {
                    known = selected.pods().iter().map(|pod| (pod.key.name.clone(), Arc::clone(pod))).collect();
                    cursor = selected.cursor();
                    continue;
                };
                for ChangedPod { name, replaced, now } in changes {
                    let before = match now {
                        Some(now) => known.insert(name.clone(), now),
                        None => known.remove(&name),
                    };
                    let uid_now = known.get(&name).map(|pod| &pod.uid);
                    if let Some(before) = before.filter(|before| Some(&before.uid) != uid_now) {
                        prop_assert!(replaced.iter().any(|pod| pod.uid == before.uid));
                    }
                }
                prop_assert!(known.values().eq(selected.pods().iter()));
                cursor = selected.cursor();
            }
        }
    }
}
