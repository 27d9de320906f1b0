//! Random histories of one object.

use super::*;

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
    /// After any history, a cache that has read everything is not stale, and nothing is held. Every
    /// foreign change starts a sync at or after its event.
    #[test]
    fn a_cache_that_has_read_everything_is_never_stale(
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let fixture = Fixture::new();
        // The server's events: version, whether it is a deletion, whether another client caused it.
        let mut stream: Vec<(u64, bool, bool)> = Vec::new();
        let (mut version, mut read, mut exists) = (0u64, 0usize, false);
        let read_next = |read: &mut usize, stream: &[(u64, bool, bool)]| -> Result<(), proptest::test_runner::TestCaseError> {
            let Some((version, deleted, foreign)) = stream.get(*read) else { return Ok(()) };
            *read += 1;
            let seen = if *deleted { fixture.sees_deleted("a", *version) } else { fixture.sees("a", *version) };
            // A change that a later write of our own has replaced needs no sync.
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
                    if fixture.stale(seen_version, if exists { &["a"] } else { &[] }) {
                        continue;
                    }
                    match step {
                        Step::Write => {
                            version += 1;
                            stream.push((version, false, false));
                            exists = true;
                            fixture.write("a", version);
                        }
                        Step::WriteAndLose => {
                            version += 1;
                            stream.push((version, false, true));
                            exists = true;
                            drop(fixture.begin("a", Verb::Create));
                        }
                        Step::WriteRefused => {
                            fixture.begin("a", Verb::Create).refused();
                        }
                        _ if exists => {
                            version += 1;
                            stream.push((version, true, false));
                            exists = false;
                            fixture.delete("a");
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
        proptest::prop_assert!(!fixture.stale(version + 1, cached));
        while fixture.0.take_unresolved(&owner()).is_some() {}
        proptest::prop_assert!(fixture.0.is_empty(), "{:?}", fixture.0);
    }
}
