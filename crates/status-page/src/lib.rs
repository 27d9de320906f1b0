//! The status page of endpoint controllers: problems of Services and the work of the controllers,
//! and the explanation of one Service, which is read from the API server when somebody asks for it.
//!
//! ```
//! use kube_endpoint_core_model::ObjectKey;
//! use kube_endpoint_serving::Access;
//! use kube_endpoint_status_page::{Overview, Refusal, Status};
//!
//! struct Empty;
//!
//! impl Overview for Empty {
//!     async fn status(&self, _: &Access) -> Status {
//!         Status::default()
//!     }
//!
//!     async fn services(&self, _: &Access, _: &str, _: usize) -> Result<Vec<ObjectKey>, Refusal> {
//!         Ok(Vec::new())
//!     }
//! }
//! ```
//!
//! A program implements [`Overview`], makes a [`StatusPage`] of it and of a reader, and serves its
//! pages with `kube-endpoint-serving`.
//!
//! - [`Status`] is the data of the overview. The page shows the parts that are there.
//! - [`Kept`] makes a value on demand, once for all readers, and not too often.
//!
//! The document needs nothing from outside and runs no script but its own. At most two explanations
//! are made at the same time; `kube-endpoint-explain-reader` says what one reads.

mod document;
mod kept;
mod routes;
mod status;
mod zones;

use std::future::{Future, pending};
use std::sync::Arc;

use kube_endpoint_core_model::{Node, ObjectKey, Timestamp};
use kube_endpoint_explain::Options;
use kube_endpoint_explain_reader::Reader;
use kube_endpoint_serving::{Access, MountedPages};
use tokio::sync::Semaphore;

pub use kept::Kept;
pub use status::{
    Controller, Fill, HistoryView, Leader, Namespaces, Quantiles, ShownProblem, ShownProblems, ShownTotals,
    Status, Totals,
};

use document::Document;

/// The path of the page.
pub const PREFIX: &str = "/ui";

/// The most explanations at the same time.
const EXPLANATIONS_AT_ONCE: usize = 2;

/// Reads the current time.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The reason why a reader gets no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The reader may not see this.
    Forbidden(String),
    /// The answer is not known yet; the reader may ask again.
    NotKnownYet(String),
    /// The answer could not be found out.
    Failed(String),
}

/// The answers of a program about its cluster.
pub trait Overview: Send + Sync + 'static {
    /// Returns the data of the overview for a reader.
    fn status(&self, reader: &Access) -> impl Future<Output = Status> + Send;

    /// Returns the first Services whose `namespace/name` contains a text and that a reader may see,
    /// at most `limit`.
    fn services(
        &self,
        reader: &Access,
        filter: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<ObjectKey>, Refusal>> + Send;

    /// Returns an error if a reader may not see the Services of a namespace. By default, each may
    /// see what the program's client may read.
    fn may_explain(&self, _: &Access, _: &str) -> impl Future<Output = Result<(), Refusal>> + Send {
        async { Ok(()) }
    }

    /// Returns all nodes, or `None` if only those are known that an explanation reads.
    fn nodes(&self) -> Option<Vec<Arc<Node>>> {
        None
    }

    /// Completes when the program shuts down.
    fn shut_down(&self) -> impl Future<Output = ()> + Send {
        pending()
    }
}

/// The pages. Clones share them.
pub struct StatusPage<O> {
    inner: Arc<Inner<O>>,
}

impl<O> Clone for StatusPage<O> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<O> {
    overview: O,
    reader: Reader,
    options: Options,
    clock: WallClock,
    document: Document,
    explaining: Semaphore,
}

impl<O: Overview> StatusPage<O> {
    /// Makes the pages. `reader` reads for explanations, by `options`; a reader whose client may
    /// read more than the people who open the page is
    /// [within the namespace](Reader::within_namespace). `clock` reads the current time.
    pub fn new(overview: O, reader: Reader, options: Options, clock: WallClock) -> Self {
        let (document, explaining) = (Document::new(), Semaphore::new(EXPLANATIONS_AT_ONCE));
        Self { inner: Arc::new(Inner { overview, reader, options, clock, document, explaining }) }
    }

    /// Returns the pages for a server.
    pub fn pages(&self) -> MountedPages {
        MountedPages::new(PREFIX, Arc::new(self.clone()))
    }

    /// Returns the overview.
    pub fn overview(&self) -> &O {
        &self.inner.overview
    }
}
