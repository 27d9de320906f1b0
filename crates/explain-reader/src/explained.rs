//! Reads a Service and explains it.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use kube_endpoint_explain::{Code, Explanation, Objects, Options, explain};

use crate::{ReadError, Reader, Reading, may_tell_more};

/// The time between two readings of a cluster in which a write may be under way: controllers finish
/// it meanwhile.
pub const BETWEEN_READINGS: Duration = Duration::from_secs(3);

/// An explanation, and what it was made of.
pub struct Explained {
    pub explanation: Explanation,
    pub objects: Objects,
    /// The time of the reading.
    pub at: Timestamp,
}

impl Reader {
    /// Reads and explains a Service. The lists of a changing cluster do not show the same moment:
    /// if a write may be under way, this reads again after [`BETWEEN_READINGS`]. `now` reads the
    /// current time. The explanation names what could not be read. The options may name a client.
    ///
    /// # Errors
    ///
    /// [`ReadError::NotFound`] if there is no such Service or client, and others if reading fails.
    /// Kinds that the user may not read are no errors.
    pub async fn explain_service(
        &self,
        key: &ObjectKey,
        options: &Options,
        now: &(dyn Fn() -> Timestamp + Sync),
    ) -> Result<Explained, ReadError> {
        let mut notes = Vec::new();
        let mut explained = self.explained(key, options, now, &mut notes, None).await?;
        if self.reads_again && explained.explanation.codes().into_iter().any(Code::may_be_under_way) {
            tokio::time::sleep(BETWEEN_READINGS).await;
            let gone = explained.objects.gone_pods();
            explained = self.explained(key, options, now, &mut notes, Some(gone)).await?;
        }
        notes.sort();
        notes.dedup();
        explained.explanation = explained.explanation.with_not_read(notes);
        Ok(explained)
    }

    /// Reads and explains a Service once, and adds to `notes` what could not be read. `gone` are
    /// the pods that were gone at the reading before, if there was one.
    async fn explained(
        &self,
        key: &ObjectKey,
        options: &Options,
        now: &(dyn Fn() -> Timestamp + Sync),
        notes: &mut Vec<String>,
        gone: Option<BTreeSet<Text>>,
    ) -> Result<Explained, ReadError> {
        let mut reading = Box::pin(self.service(key)).await?;
        if let Some(client) = &options.from {
            Box::pin(self.connecting(&mut reading, key, client)).await?;
        }
        let Reading { mut objects, metadata, notes: new, known, .. } = reading;
        notes.extend(new);
        gone.into_iter().for_each(|gone| objects.note_gone_before(gone));
        let options = options.clone().with_known(known);
        let topology = objects.topology();
        let at = now();
        let explain = |objects: &_| {
            let explanation = explain(objects, key, &topology, at, metadata.as_deref(), &options);
            explanation.ok_or_else(|| ReadError::NotFound(format!("there is no Service {key}")))
        };
        let mut explanation = explain(&objects)?;
        let codes = explanation.codes();
        let has_no_selector = codes.contains(&Code::EndpointSelectorNotFound);
        let may_tell_more = codes.into_iter().any(may_tell_more);
        if has_no_selector {
            self.manager_leases(&mut objects).await;
        }
        if may_tell_more {
            self.signs(&mut objects, key).await;
        }
        if has_no_selector || may_tell_more {
            explanation = explain(&objects)?;
        }
        Ok(Explained { explanation, objects, at })
    }
}
