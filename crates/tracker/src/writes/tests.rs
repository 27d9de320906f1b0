use super::*;
use Observation::{Foreign, InFlight, Own};

fn at(version: u64) -> CachePosition {
    CachePosition { epoch: 0, version: ResourceVersion(version) }
}

fn owner() -> ObjectKey {
    ObjectKey::new("n", "web")
}

fn slice(name: &str) -> ObjectKey {
    ObjectKey::new("n", name)
}

/// A tracker and the names of one owner's objects, so that tests read as stories.
struct Story(WriteTracker);

impl Story {
    fn new() -> Self {
        Self(WriteTracker::default())
    }

    fn write(&self, name: &str, version: u64) -> bool {
        self.0.begin(&slice(name));
        self.0.wrote(&owner(), &slice(name), ResourceVersion(version), at(0))
    }

    fn delete(&self, name: &str) {
        self.0.begin(&slice(name));
        self.0.deleted(&owner(), &slice(name), &format!("uid-{name}").into());
    }

    fn sees(&self, name: &str, version: u64) -> Observation {
        self.0.observe_applied(
            Some(&owner()),
            &slice(name),
            &format!("uid-{name}").into(),
            ResourceVersion(version),
        )
    }

    fn sees_deleted(&self, name: &str) -> Observation {
        self.0.observe_deleted(Some(&owner()), &slice(name), &format!("uid-{name}").into())
    }

    fn stale(&self, position: u64, cached: &[&str]) -> bool {
        let uids: Vec<Text> = cached.iter().map(|name| format!("uid-{name}").into()).collect();
        self.0.is_stale(&owner(), at(position), &uids)
    }
}

#[test]
fn a_cache_is_stale_until_it_has_read_up_to_the_last_write() {
    let story = Story::new();
    assert!(!story.stale(0, &[]));
    story.write("a", 10);
    story.write("b", 12);
    assert!(story.stale(9, &[]));
    assert_eq!(story.sees("a", 10), Own);
    assert!(story.stale(11, &["a"]));
    assert_eq!(story.sees("b", 12), Own);
    assert!(!story.stale(12, &["a", "b"]));
    assert!(story.0.is_empty());
}

#[test]
fn a_bookmark_counts() {
    let story = Story::new();
    story.write("a", 10);
    assert!(story.stale(9, &[]));
    // No event of the write itself came: it was made and deleted between two lists.
    assert!(!story.stale(20, &[]));
    assert!(story.0.is_empty());
}

#[test]
fn an_own_echo_starts_no_sync_and_a_foreign_change_does() {
    let story = Story::new();
    story.write("a", 10);
    assert_eq!(story.sees("a", 8), Own, "an older state that comes late");
    assert_eq!(story.sees("a", 10), Own);
    assert_eq!(story.sees("a", 11), Foreign);
    assert_eq!(story.sees("b", 5), Foreign);
}

#[test]
fn a_foreign_change_that_hides_our_echo_is_foreign() {
    let story = Story::new();
    story.write("a", 10);
    assert_eq!(story.sees("a", 15), Foreign);
}

#[test]
fn an_echo_before_the_answer_is_still_our_own() {
    let story = Story::new();
    story.0.begin(&slice("a"));
    assert_eq!(story.sees("a", 10), InFlight);
    assert!(!story.0.wrote(&owner(), &slice("a"), ResourceVersion(10), at(10)));
    assert!(!story.stale(10, &["a"]));
    assert_eq!(story.sees("a", 11), Foreign);
}

#[test]
fn a_foreign_change_before_the_answer_is_told_with_it() {
    let story = Story::new();
    story.0.begin(&slice("a"));
    assert_eq!(story.sees("a", 10), InFlight);
    assert_eq!(story.sees("a", 11), InFlight);
    assert!(story.0.wrote(&owner(), &slice("a"), ResourceVersion(10), at(11)));
    story.0.begin(&slice("b"));
    assert_eq!(story.sees_deleted("b"), InFlight);
    assert!(story.0.wrote(&owner(), &slice("b"), ResourceVersion(12), at(13)));
}

#[test]
fn a_change_during_a_write_that_is_refused_is_told_with_the_refusal() {
    let story = Story::new();
    story.0.begin(&slice("a"));
    assert!(!story.0.failed(&slice("a")));
    story.0.begin(&slice("a"));
    assert_eq!(story.sees("a", 10), InFlight);
    assert!(story.0.failed(&slice("a")));
    assert!(story.0.is_empty());
}

#[test]
fn a_cache_that_still_shows_what_we_deleted_is_stale() {
    let story = Story::new();
    story.delete("a");
    assert!(story.stale(50, &["a"]));
    assert_eq!(story.sees("a", 51), Own, "its deletion mark");
    assert_eq!(story.sees_deleted("a"), Own);
    assert!(!story.stale(52, &[]));
    assert!(story.0.is_empty());
}

#[test]
fn a_deletion_that_the_cache_never_shows_can_be_forgotten() {
    let story = Story::new();
    story.delete("a");
    story.write("b", 10);
    assert!(story.stale(50, &["a"]));
    story.0.forget_deleted(&owner());
    assert!(!story.stale(50, &["a"]));
    story.delete("a");
    story.0.forget_deleted(&owner());
    assert!(story.0.is_empty());
    story.write("b", 60);
    story.0.forget_deleted(&owner());
    assert!(story.stale(50, &["b"]), "writes are still waited for");
}

#[test]
fn a_deletion_seen_before_the_answer_is_done_with() {
    let story = Story::new();
    story.0.begin(&slice("a"));
    assert_eq!(story.sees_deleted("a"), InFlight);
    story.0.deleted(&owner(), &slice("a"), &"uid-a".into());
    assert!(story.0.is_empty());
}

#[test]
fn a_slice_deleted_by_hand_is_foreign_also_when_we_never_wrote_it() {
    let story = Story::new();
    assert_eq!(story.sees_deleted("a"), Foreign, "right after a restart or a take-over");
    story.write("b", 10);
    assert_eq!(story.sees("b", 10), Own);
    assert_eq!(story.sees_deleted("b"), Foreign);
}

#[test]
fn a_new_object_under_a_deleted_name_is_foreign() {
    let story = Story::new();
    story.delete("a");
    let seen = story.0.observe_applied(Some(&owner()), &slice("a"), &"other".into(), ResourceVersion(60));
    assert_eq!(seen, Foreign);
    assert!(!story.stale(60, &[]));
}

#[test]
fn a_delete_of_what_was_gone_already_is_not_waited_for() {
    let story = Story::new();
    assert_eq!(story.sees_deleted("a"), Foreign);
    story.delete("a");
    assert!(!story.stale(10, &[]));
    assert!(story.0.is_empty());
}

#[test]
fn a_service_recreated_within_one_batch_leaves_nothing_behind() {
    let story = Story::new();
    story.write("old", 10);
    // Deleted and made again under its name before anything was synced; the collector deletes the old slice.
    assert_eq!(story.sees("old", 10), Own);
    assert_eq!(story.sees_deleted("old"), Foreign);
    story.write("new", 20);
    assert_eq!(story.sees("new", 20), Own);
    assert!(!story.stale(20, &["new"]));
    assert!(story.0.is_empty());
}

#[test]
fn a_slice_handed_to_another_service_does_not_block_the_first() {
    let story = Story::new();
    story.write("a", 10);
    let other = ObjectKey::new("n", "other");
    let seen = story.0.observe_applied(Some(&other), &slice("a"), &"uid-a".into(), ResourceVersion(11));
    assert_eq!(seen, Foreign);
    assert!(!story.stale(11, &[]));
    assert!(story.0.is_empty());
}

#[test]
fn a_create_whose_answer_was_lost_is_tried_again_under_its_name() {
    let story = Story::new();
    story.0.begin(&slice("a"));
    story.0.create_unresolved(&owner(), &slice("a"));
    assert_eq!(story.0.take_unresolved(&owner()).as_deref(), Some("a"));
    assert_eq!(story.0.take_unresolved(&owner()), None);
    assert!(story.0.is_empty());
}

#[test]
fn a_create_whose_answer_was_lost_and_whose_event_comes_is_not_tried_again() {
    let story = Story::new();
    story.0.begin(&slice("a"));
    story.0.create_unresolved(&owner(), &slice("a"));
    assert_eq!(story.sees("a", 10), Foreign);
    assert_eq!(story.0.take_unresolved(&owner()), None);
    story.0.begin(&slice("b"));
    assert_eq!(story.sees("b", 11), InFlight);
    story.0.create_unresolved(&owner(), &slice("b"));
    assert_eq!(story.0.take_unresolved(&owner()), None);
    assert!(story.0.is_empty());
}

#[test]
fn versions_that_start_again_block_nothing() {
    let story = Story::new();
    story.write("a", 1_000_000);
    assert!(story.stale(999, &[]));
    let restored = CachePosition { epoch: 1, version: ResourceVersion(5) };
    assert!(!story.0.is_stale(&owner(), restored, []));
}

#[test]
fn what_is_forgotten_leaves_nothing() {
    let story = Story::new();
    story.write("a", 10);
    story.delete("b");
    story.0.forget(&owner());
    assert!(story.0.is_empty());
}

/// One step of a random history of one object.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    WriteAndLose,
    WriteRefused,
    Delete,
    ForeignWrite,
    ForeignDelete,
    CacheReads,
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    proptest::sample::select(vec![
        Step::Write,
        Step::WriteAndLose,
        Step::WriteRefused,
        Step::Delete,
        Step::ForeignWrite,
        Step::ForeignDelete,
        Step::CacheReads,
    ])
}

proptest::proptest! {
    /// Whatever happens, once the cache has read everything it is not stale and nothing is held; and every foreign change
    /// starts a sync at or after its event.
    #[test]
    fn a_cache_that_has_read_everything_is_never_stale(
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let story = Story::new();
        // The server's stream: version, what happened, whether it was somebody else's doing.
        let mut stream: Vec<(u64, bool, bool)> = Vec::new();
        let (mut version, mut read, mut exists) = (0u64, 0usize, false);
        let read_next = |read: &mut usize, stream: &[(u64, bool, bool)]| -> Result<(), proptest::test_runner::TestCaseError> {
            let Some((version, deleted, foreign)) = stream.get(*read) else { return Ok(()) };
            *read += 1;
            let seen = if *deleted { story.sees_deleted("a") } else { story.sees("a", *version) };
            // What a later write of our own has replaced is of no interest.
            let replaced = stream.iter().any(|(other, _, foreign)| other > version && !foreign);
            proptest::prop_assert!(!*foreign || seen == Foreign || replaced, "{seen:?} of {version}");
            Ok(())
        };
        for step in steps {
            match step {
                Step::CacheReads => read_next(&mut read, &stream)?,
                // A controller writes only on a cache that is not stale.
                Step::Write | Step::WriteAndLose | Step::WriteRefused | Step::Delete => {
                    let seen_version = read.checked_sub(1).map_or(0, |last| stream[last].0);
                    if story.stale(seen_version, if exists { &["a"] } else { &[] }) {
                        continue;
                    }
                    match step {
                        Step::Write => {
                            version += 1;
                            stream.push((version, false, false));
                            exists = true;
                            story.write("a", version);
                        }
                        Step::WriteAndLose => {
                            version += 1;
                            stream.push((version, false, true));
                            exists = true;
                            story.0.begin(&slice("a"));
                            story.0.create_unresolved(&owner(), &slice("a"));
                        }
                        Step::WriteRefused => {
                            story.0.begin(&slice("a"));
                            story.0.failed(&slice("a"));
                        }
                        _ if exists => {
                            version += 1;
                            stream.push((version, true, false));
                            exists = false;
                            story.delete("a");
                        }
                        _ => {}
                    }
                }
                Step::ForeignWrite => {
                    version += 1;
                    stream.push((version, false, true));
                    exists = true;
                }
                Step::ForeignDelete if exists => {
                    version += 1;
                    stream.push((version, true, true));
                    exists = false;
                }
                Step::ForeignDelete => {}
            }
        }
        while read < stream.len() {
            read_next(&mut read, &stream)?;
        }
        let cached: &[&str] = if exists { &["a"] } else { &[] };
        proptest::prop_assert!(!story.stale(version + 1, cached));
        while story.0.take_unresolved(&owner()).is_some() {}
        proptest::prop_assert!(story.0.is_empty(), "{:?}", story.0);
    }
}

#[test]
fn what_the_cache_has_shown_is_dropped_without_another_sync() {
    let story = Story::new();
    story.write("a", 10);
    story.write("b", 12);
    story.delete("c");
    assert_eq!(story.sees("a", 10), Own);
    assert_eq!(story.0.len(), (1, 2));
    assert_eq!(story.sees("b", 12), Own);
    assert!(story.stale(12, &["a", "b", "c"]), "the deletion has not come yet");
    assert_eq!(story.sees_deleted("c"), Own);
    assert!(story.0.is_empty());
}

#[test]
fn a_write_that_the_cache_shows_before_the_answer_leaves_nothing() {
    let story = Story::new();
    story.0.begin(&slice("a"));
    assert_eq!(story.sees("a", 10), InFlight);
    assert!(!story.0.wrote(&owner(), &slice("a"), ResourceVersion(10), at(10)));
    assert!(story.0.is_empty());
}

#[test]
fn creates_that_a_list_does_not_show_are_told() {
    let story = Story::new();
    let create = |name: &str, version: u64, position: u64| {
        story.0.begin(&slice(name));
        story.0.created(&owner(), &slice(name), ResourceVersion(version), at(position))
    };
    assert!(!create("a", 10, 0));
    assert!(!create("b", 12, 0));
    story.write("c", 11);
    assert_eq!(story.0.unseen_creates(at(9)), []);
    assert_eq!(story.0.unseen_creates(at(10)), [owner()]);
    assert_eq!(story.sees("a", 10), Own);
    assert_eq!(story.0.unseen_creates(at(11)), [], "one that is shown, and one that was there before");
    let restored = CachePosition { epoch: 1, version: ResourceVersion(5) };
    assert_eq!(story.0.unseen_creates(restored), [owner()], "the server was restored from a backup");
    assert!(!story.stale(20, &[]), "a sync sees that it is gone");
    assert_eq!(story.0.unseen_creates(at(20)), []);
    assert!(create("d", 30, 31), "the list was there before the answer");
    story.0.begin(&slice("e"));
    assert_eq!(story.sees("e", 40), InFlight);
    assert!(!story.0.created(&owner(), &slice("e"), ResourceVersion(40), at(40)), "its echo was");
}
