//! Reads single pages of lists.

use kube::api::{ListParams, ObjectList};
use kube::{Client, Error};
use kube_endpoint_api_client::says_not_there;
use kube_endpoint_explain::doctor::{Read, Unread};
use serde_json::Value;

use crate::reader::check_kind;
use crate::source::{PAGE, Source};

pub(super) const EVENTS: Source = Source::v1("", "Event", "events");

impl Source {
    /// Reads a page of objects.
    pub(super) async fn page(
        self,
        client: &Client,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Read<Vec<Value>> {
        let page = self.list(client, namespace, params).await;
        page.map_err(|error| self.unread("list", &error, namespace))
    }

    /// Reads a page of objects of all namespaces. The page is empty if the server does not serve
    /// the kind.
    pub(super) async fn page_if_served(self, client: &Client) -> Read<Vec<Value>> {
        match self.list(client, None, ListParams::default()).await {
            Err(error) if says_not_there(&error) => Ok(Vec::new()),
            page => page.map_err(|error| self.unread("list", &error, None)),
        }
    }

    async fn list(
        self,
        client: &Client,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Result<Vec<Value>, Error> {
        let page = self.api(client, namespace).list(&params.limit(PAGE)).await?;
        check_kind(Some(&page.types), &[&format!("{}List", self.kind)])?;
        page.items.iter().map(|item| serde_json::to_value(item).map_err(Error::SerdeError)).collect()
    }

    /// Reads a page of metadata.
    pub(super) async fn metadata(self, client: &Client, params: &ListParams) -> Result<Page, Unread> {
        let read = async || -> Result<Page, Error> {
            let page = self.api(client, None).list_metadata(params).await?;
            check_kind(Some(&page.types), &["PartialObjectMetadataList", &format!("{}List", self.kind)])?;
            Page::of(&page)
        };
        read().await.map_err(|error| self.unread("list", &error, None))
    }
}

/// A page of metadata.
pub(super) struct Page {
    pub(super) items: Vec<Value>,
    pub(super) next: Option<String>,
    /// The number of objects that follow, as the server estimates it.
    pub(super) left: u64,
}

impl Page {
    fn of<T: Clone + kube::Resource>(page: &ObjectList<T>) -> Result<Self, Error> {
        let items =
            page.items.iter().map(|item| serde_json::to_value(item.meta()).map_err(Error::SerdeError));
        let next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        let left = page.metadata.remaining_item_count.and_then(|left| left.try_into().ok());
        // Without an estimate, at least one follows.
        let left = left.unwrap_or(u64::from(next.is_some()));
        Ok(Self { items: items.collect::<Result<_, _>>()?, next, left })
    }
}
