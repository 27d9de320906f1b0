//! Reads lists page by page. Every list that may have several pages is read here.

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Error;
use kube::api::{Api, DynamicObject, ListParams, ObjectList, TypeMeta};
use kube::core::PartialObjectMeta;
use kube_endpoint_core_model::harmless;

use crate::progress::Progress;

/// The number of objects of a page, as in kubectl.
pub const PAGE: u32 = 500;

/// A list to read.
pub struct List<'l> {
    pub api: Api<DynamicObject>,
    /// The kind of its objects, such as `Pod`.
    pub kind: &'l str,
    /// The name of the resource, such as `pods`.
    pub plural: &'l str,
    pub params: ListParams,
    /// The most pages to read; `None` for all.
    pub pages: Option<u32>,
}

impl List<'_> {
    /// Reads objects into what `new` makes. It holds one page at a time.
    ///
    /// # Errors
    ///
    /// The first error of a request or of `add`.
    pub async fn objects<A, E: From<Error>>(
        self,
        progress: &dyn Progress,
        new: impl Fn() -> A,
        add: impl FnMut(&mut A, ObjectList<DynamicObject>) -> Result<(), E>,
    ) -> Result<A, E> {
        let kind = format!("{}List", self.kind);
        let api = self.api.clone();
        let request = move |params: ListParams| {
            let api = api.clone();
            async move { api.list(&params).await }.boxed()
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
        add: impl FnMut(&mut A, ObjectList<PartialObjectMeta<DynamicObject>>) -> Result<(), E>,
    ) -> Result<A, E> {
        // A server that does not know the form with the metadata alone answers with whole objects.
        let kinds = ["PartialObjectMetadataList", &format!("{}List", self.kind)];
        let api = self.api.clone();
        let request = move |params: ListParams| {
            let api = api.clone();
            async move { api.list_metadata(&params).await }.boxed()
        };
        self.read(progress, &kinds, request, new, add).await
    }

    /// The server cannot continue a list (410) if it has forgotten the version of its first page.
    /// This then throws away all pages, since some of their objects may have been deleted
    /// meanwhile, and reads the whole list in one request, as client-go does.
    async fn read<T: Clone, A, E: From<Error>>(
        self,
        progress: &dyn Progress,
        kinds: &[&str],
        request: impl Fn(ListParams) -> BoxFuture<'static, Result<ObjectList<T>, Error>>,
        new: impl Fn() -> A,
        mut add: impl FnMut(&mut A, ObjectList<T>) -> Result<(), E>,
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
            read += page.items.len();
            let next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            let remaining = page.metadata.remaining_item_count;
            add(&mut all, page)?;
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
