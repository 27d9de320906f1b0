//! The newest version that was written of each kind.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use tokio::time::Instant;

use super::WriteResult;

/// A request whose answer was lost may still be carried out for so long: kube-apiserver's
/// `--request-timeout` of a minute, and half a minute more for a request that waits in a proxy.
const MAY_STILL_HAPPEN: Duration = Duration::from_secs(90);

/// For each kind, by plural name, the version that a cache must have read to show all writes of a
/// process.
///
/// A kind is missing if nothing is known of its writes: none was made, the answer to one was lost,
/// or one is in flight. It is also missing after a delete, whose answer has no version, until a
/// later write of the kind is answered.
pub type LastWrites = BTreeMap<&'static str, ResourceVersion>;

/// Records the results of writes. Sequence numbers order the beginnings and ends of writes, as many
/// share one instant of the clock.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    next: u64,
    kinds: BTreeMap<&'static str, KindWrites>,
}

#[derive(Debug, Default)]
struct KindWrites {
    in_flight: usize,
    /// The newest version, and when the write that made it was answered.
    newest: Option<(ResourceVersion, u64)>,
    /// The latest write whose version is not known.
    unversioned: Option<Unversioned>,
}

/// A write that is newer than [`KindWrites::newest`], or may be. A write that begins after it, and
/// not before `from`, is newer than it.
#[derive(Clone, Copy, Debug)]
struct Unversioned {
    sequence: u64,
    from: Instant,
}

impl Recorder {
    fn sequence(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Records that a write begins, and returns its sequence number.
    pub(super) fn begin(&mut self, kind: Option<&'static str>) -> u64 {
        if let Some(kind) = kind {
            self.kinds.entry(kind).or_default().in_flight += 1;
        }
        self.sequence()
    }

    /// Records the result of a write.
    pub(super) fn end(&mut self, kind: &'static str, begun: u64, begun_at: Instant, result: WriteResult) {
        let sequence = self.sequence();
        let writes = self.kinds.entry(kind).or_default();
        writes.in_flight = writes.in_flight.saturating_sub(1);
        let now = Instant::now();
        match result {
            WriteResult::Refused => {}
            WriteResult::Unknown => {
                writes.unversioned = Some(Unversioned { sequence, from: now + MAY_STILL_HAPPEN });
            }
            WriteResult::WithoutVersion => {
                // One that may still happen stays the later one.
                let from = writes.unversioned.map_or(now, |unversioned| unversioned.from.max(now));
                writes.unversioned = Some(Unversioned { sequence, from });
            }
            WriteResult::Version(version) => {
                // A lower version of a write that began after the answer to another: the server was
                // restored.
                let is_newer = |(newest, answered)| version > newest || begun > answered;
                if writes.newest.is_none_or(is_newer) {
                    writes.newest = Some((version, sequence));
                }
                writes.unversioned =
                    writes.unversioned.filter(|it| begun < it.sequence || begun_at < it.from);
            }
        }
    }

    /// Records what another process wrote before.
    pub(super) fn continue_from(
        &mut self,
        kind: &'static str,
        version: Option<ResourceVersion>,
        now: Instant,
    ) {
        let sequence = self.sequence();
        let writes = self.kinds.entry(kind).or_default();
        match version {
            Some(version) => writes.newest = Some((version, sequence)),
            None => writes.unversioned = Some(Unversioned { sequence, from: now }),
        }
    }

    pub(super) fn last_writes(&self) -> LastWrites {
        let known = |writes: &KindWrites| {
            let (version, _) = writes.newest?;
            (writes.in_flight == 0 && writes.unversioned.is_none()).then_some(version)
        };
        self.kinds.iter().filter_map(|(kind, writes)| Some((*kind, known(writes)?))).collect()
    }
}
