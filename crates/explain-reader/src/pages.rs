//! Reads lists page by page. Every list that may have several pages is read here.

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Error;
use kube::api::{Api, DynamicObject, ListParams, ObjectList, TypeMeta};
use kube::core::{ListMeta, PartialObjectMeta, Request};
use kube_endpoint_core_model::harmless;
use serde::Deserialize;
use serde_json::Value;

use crate::progress::Progress;

/// The number of objects of the first page, as in kubectl.
pub const PAGE: u32 = 500;

/// The size of a later page, if its objects are like those of the page before.
const PAGE_BYTES: usize = 8 << 20;

/// The most objects of a page.
const LARGEST_PAGE: u32 = 5_000;

/// A list to read.
pub struct List<'l> {
    pub api: Api<DynamicObject>,
    /// The version of its objects, such as `apps/v1`.
    pub api_version: String,
    /// The kind of its objects, such as `Pod`.
    pub kind: &'l str,
    /// The name of the resource, such as `pods`.
    pub plural: &'l str,
    pub params: ListParams,
    /// The most pages to read; `None` for all.
    pub pages: Option<u32>,
}

impl List<'_> {
    /// Reads objects into what `new` makes. It holds one page at a time, and leaves out large
    /// fields of pods and nodes that no explanation looks at. The objects have their kind, which
    /// the items of a list lack.
    ///
    /// # Errors
    ///
    /// The first error of a request or of `add`.
    pub async fn objects<A, E: From<Error>>(
        self,
        progress: &dyn Progress,
        new: impl Fn() -> A,
        add: impl FnMut(&mut A, Vec<Value>) -> Result<(), E>,
    ) -> Result<A, E> {
        let kind = format!("{}List", self.kind);
        let (path, client) = (self.api.resource_url().to_owned(), self.api.clone().into_client());
        let (of, version) = (self.kind.to_owned(), self.api_version.clone());
        let request = move |params: ListParams| {
            let (path, client, of, version) = (path.clone(), client.clone(), of.clone(), version.clone());
            async move {
                let request = Request::new(path).list(&params).map_err(Error::BuildRequest)?;
                let text = client.request_text(request).await?;
                Page::read(&of, &version, &text).map_err(Error::SerdeError)
            }
            .boxed()
        };
        self.read(progress, &[&kind], request, new, add).await
    }

    /// Reads the metadata of objects, as [`Self::objects`] does.
    ///
    /// # Errors
    ///
    /// The first error of a request or of `add`.
    pub async fn metadata<A, E: From<Error>>(
        self,
        progress: &dyn Progress,
        new: impl Fn() -> A,
        mut add: impl FnMut(&mut A, ObjectList<PartialObjectMeta<DynamicObject>>) -> Result<(), E>,
    ) -> Result<A, E> {
        // A server that does not know the form with the metadata alone answers with whole objects.
        let kinds = ["PartialObjectMetadataList", &format!("{}List", self.kind)];
        let api = self.api.clone();
        let request = move |params: ListParams| {
            let api = api.clone();
            async move { api.list_metadata(&params).await.map(Page::of_metadata) }.boxed()
        };
        let add = |all: &mut A, pages: Vec<_>| pages.into_iter().try_for_each(|page| add(all, page));
        self.read(progress, &kinds, request, new, add).await
    }

    /// The server cannot continue a list (410) if it has forgotten the version of its first page.
    /// This then throws away all pages, since some of their objects may have been deleted
    /// meanwhile, and reads the whole list in one request, as client-go does.
    async fn read<T, A, E: From<Error>>(
        self,
        progress: &dyn Progress,
        kinds: &[&str],
        request: impl Fn(ListParams) -> BoxFuture<'static, Result<Page<T>, Error>>,
        new: impl Fn() -> A,
        mut add: impl FnMut(&mut A, Vec<T>) -> Result<(), E>,
    ) -> Result<A, E> {
        let mut params = ListParams { limit: Some(PAGE), ..self.params };
        let (mut all, mut read) = (new(), 0);
        let (mut pages, mut is_second) = (self.pages, false);
        loop {
            let page = match request(params.clone()).await {
                Err(Error::Api(status))
                    if status.code == 410 && params.continue_token.is_some() && !is_second =>
                {
                    let limit = self.pages.map(|pages| pages * PAGE);
                    params = ListParams { limit, continue_token: None, ..params };
                    (all, read) = (new(), 0);
                    (pages, is_second) = (self.pages.map(|_| 1), true);
                    continue;
                }
                page => page?,
            };
            check_kind(Some(&page.types), kinds)?;
            read += page.count;
            let next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            let remaining = page.metadata.remaining_item_count;
            if self.pages.is_none() {
                params.limit = Some(page.next_limit());
            }
            add(&mut all, page.items)?;
            pages = pages.map(|pages| pages.saturating_sub(1));
            let Some(token) = next.filter(|_| pages != Some(0)) else {
                progress.end();
                return Ok(all);
            };
            progress.page(self.plural, read, remaining);
            params.continue_token = Some(token);
        }
    }
}

/// A page of a list.
struct Page<T> {
    types: TypeMeta,
    metadata: ListMeta,
    items: Vec<T>,
    count: usize,
    /// The size of the answer, or 0 if it is not known.
    bytes: usize,
}

impl Page<Value> {
    fn read(kind: &str, version: &str, text: &str) -> Result<Self, serde_json::Error> {
        let mut list: Value = serde_json::from_str(text)?;
        let mut items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for item in items.iter_mut().filter(|item| item.is_object()) {
            item["kind"] = kind.into();
            item["apiVersion"] = version.into();
        }
        let text_of = |field: &str| list[field].as_str().unwrap_or_default().to_owned();
        let types = TypeMeta { kind: text_of("kind"), api_version: text_of("apiVersion") };
        let metadata = Option::deserialize(&list["metadata"])?.unwrap_or_default();
        Ok(Self { types, metadata, count: items.len(), items, bytes: text.len() })
    }
}

impl<T> Page<T> {
    /// Returns the number of objects for the next page. Few large pages cost the server less than
    /// many small ones, but each is held in memory.
    fn next_limit(&self) -> u32 {
        let fitting = (self.count * PAGE_BYTES).checked_div(self.bytes).unwrap_or_default();
        u32::try_from(fitting).unwrap_or(u32::MAX).clamp(PAGE, LARGEST_PAGE)
    }
}

impl<T: Clone> Page<ObjectList<T>> {
    fn of_metadata(list: ObjectList<T>) -> Self {
        let (types, metadata, count) = (list.types.clone(), list.metadata.clone(), list.items.len());
        Self { types, metadata, count, items: vec![list], bytes: 0 }
    }
}

/// Checks that an answer is of one of these kinds. So nobody takes the answer of another kind of
/// server for an empty list, or for an object.
pub fn check_kind(types: Option<&TypeMeta>, expected: &[&str]) -> Result<(), Error> {
    let kind = types.map(|types| types.kind.as_str()).unwrap_or_default();
    if expected.contains(&kind) {
        return Ok(());
    }
    let expected = expected.join(" or ");
    let why = format!(
        "the answer is of kind \"{}\", not {expected}; check the server in the kubeconfig, and whether a proxy answers in its place",
        harmless(kind, 100)
    );
    Err(Error::Service(why.into()))
}
