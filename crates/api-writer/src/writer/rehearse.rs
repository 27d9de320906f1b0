//! Asks the server if it would carry a write out (`dryRun=All`). Nothing is stored, so nothing is
//! tracked.

use http::Method;
use kube_endpoint_core_model::maker::Provenance;
use kube_endpoint_core_model::{EndpointSlice, ObjectKey};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{ApiWriter, json, object_path};
use crate::error::WriteError;
use crate::send::Formats;
use crate::writable::Writable;

/// The most slices of a page.
const PAGE: usize = 500;
/// The server says this of an admission webhook that it cannot ask without an effect.
const NO_DRY_RUN: &str = "does not support dry run";

impl WriteError {
    /// Returns true if the server does not know if it would carry a write out, because it must not
    /// ask an admission webhook that.
    pub fn is_dry_run_unsupported(&self) -> bool {
        matches!(self, Self::Refused { code: 400, message } if message.contains(NO_DRY_RUN))
    }
}

impl ApiWriter {
    /// Asks if the server would create an object. Quotas, policies and admission webhooks answer
    /// as they would for a write.
    ///
    /// # Errors
    ///
    /// The [`WriteError`] that the write would have.
    pub async fn try_create<T: Writable>(&self, object: &T) -> Result<(), WriteError> {
        let path = format!("{}?dryRun=All", T::collection_path(&object.metadata().namespace));
        let (method, body) = (Method::POST, json(object)?);
        let (_permit, waited) = self.begin(&method, T::PLURAL).await?;
        self.send_write(method, &path, Formats::json(), body, waited).await.map(drop)
    }

    /// Asks if the server would delete an object, if it is the one that was read.
    ///
    /// # Errors
    ///
    /// The [`WriteError`] that the write would have.
    pub async fn try_delete<T: Writable>(
        &self,
        key: &ObjectKey,
        read: &Provenance,
    ) -> Result<(), WriteError> {
        let options = serde_json::json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"],
            "preconditions": {"uid": &**read.uid(), "resourceVersion": read.version().to_string()},
        });
        let method = Method::DELETE;
        let (_permit, waited) = self.begin(&method, T::PLURAL).await?;
        // With a body the server reads the body only.
        let (path, body) = (format!("{}?dryRun=All", object_path::<T>(key)), options.to_string().into());
        self.send_write(method, &path, Formats::json(), body, waited).await.map(drop)
    }

    /// Reads from the server who made the slices of a Service.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`].
    pub async fn makers_of_slices(&self, service: &ObjectKey) -> Result<Vec<Provenance>, WriteError> {
        let label = format!("kubernetes.io/service-name={}", service.name);
        let label = utf8_percent_encode(&label, NON_ALPHANUMERIC);
        let collection = EndpointSlice::collection_path(&service.namespace);
        let path = format!("{collection}?labelSelector={label}&limit={PAGE}");
        let (mut slices, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = self.page(path.clone(), after.as_deref()).await?;
            slices.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok(slices);
            }
        }
    }
}
