//! Reads the pod of a client that connects, and what NetworkPolicies ask about it: at most three
//! requests beside those about the Service.

use kube::Error;
use kube::api::ListParams;
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_core_model::ObjectKey;
use serde_json::Value;

use crate::error::is_forbidden;
use crate::reader::json_of;
use crate::{ReadError, Reader, Reading, Resource};

impl Reader {
    /// Reads the pod of a client of a Service, the NetworkPolicies of its namespace, and the labels
    /// of namespaces if they decide. Who may not read policies or namespaces gets no answer to what
    /// depends on them.
    ///
    /// # Errors
    ///
    /// An error if there is no such pod, or the user may not read it.
    pub(crate) async fn connecting(
        &self,
        reading: &mut Reading,
        service: &ObjectKey,
        client: &ObjectKey,
    ) -> Result<(), ReadError> {
        let pod = self.get(Resource::PODS, &client.namespace, &client.name).await.map_err(|error| {
            let why = why_request_failed(&error);
            ReadError::Request(format!("pod {client}, the client, cannot be read: {why}"))
        })?;
        let Some(pod) = pod else {
            self.check_namespace(&client.namespace).await?;
            let similar = self.similar_names(Resource::PODS, client).await;
            return Err(ReadError::NotFound(format!("there is no pod {client}{similar}")));
        };
        reading.objects.add(pod)?;
        if client.namespace != service.namespace {
            self.policies(reading, Some(&*client.namespace)).await?;
        }
        let deciding = reading.objects.deciding_namespaces(service, client);
        let names: Vec<&str> = deciding.iter().map(|name| &**name).collect();
        let read: Result<Vec<Value>, Error> = match *names {
            [] => return Ok(()),
            // Who may read one namespace need not be able to list them.
            [one] => self.get(Resource::NAMESPACES, "", one).await.map(|it| it.into_iter().collect()),
            _ => {
                let labels = format!("kubernetes.io/metadata.name in ({})", names.join(","));
                let api = self.api(Resource::NAMESPACES, None);
                let listed = api.list(&ListParams::default().labels(&labels)).await;
                listed.map(|list| list.iter().map(|it| json_of(Resource::NAMESPACES, it)).collect())
            }
        };
        match read {
            Ok(namespaces) => namespaces.into_iter().try_for_each(|it| Ok(reading.objects.add(it)?)),
            Err(error) if is_forbidden(&error) => Ok(()),
            Err(error) => {
                let why = why_request_failed(&error);
                Err(ReadError::Request(format!("the namespaces cannot be read: {why}")))
            }
        }
    }
}
