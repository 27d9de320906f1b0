//! The options of the explained controllers, and what could be read.

use kube_endpoint_core_model::retirement::{RetiredNamespaces, Wanted};
use kube_endpoint_core_model::{ObjectKey, Service, Timestamp};
use kube_endpoint_endpoints_controller as endpoints;
use kube_endpoint_mirroring as mirroring;
use kube_endpoint_slice_plan as slices;

/// Options of the explained controllers, and limits of the explanation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Options of the endpointslice controller.
    pub slices: slices::PlanOptions,
    /// Options of the endpoints controller.
    pub endpoints: endpoints::PlanOptions,
    /// Options of the mirroring controller.
    pub mirroring: mirroring::PlanOptions,
    /// The namespaces whose Services have no Endpoints; `None` if the controllers do not know the
    /// annotation that retires them, as those of kube-controller-manager.
    pub retired: Option<RetiredNamespaces>,
    /// Seconds after which an unpublished change is late, and so a fault instead of a write under
    /// way.
    pub late_after: i64,
    /// The kinds of the cluster that the objects contain.
    pub known: Known,
    /// True if the objects are from files: a kind that is not known is not in them, and nobody
    /// lacks a permission.
    pub from_files: bool,
    /// The pod whose connections to the Service the explanation looks at.
    pub from: Option<ObjectKey>,
    /// True if the explanation of a Service may name objects of other namespaces, because its
    /// reader may read them.
    pub other_namespaces: bool,
}

/// The kinds of objects that could be read. Explanations neither compare objects of other kinds nor
/// report them as missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Pods. Without them, explanations say nothing about selectors, and assume no writes for
    /// Services with a selector.
    pub pods: bool,
    /// Nodes. Without them, explanations assume that the nodes of pods are ready, and do not
    /// compare slices with the desired ones.
    pub nodes: bool,
    pub slices: bool,
    pub endpoints: bool,
    /// EndpointSelectors. Without them, explanations say nothing about the pods of Services that
    /// name one.
    pub selectors: bool,
}

impl Known {
    /// All kinds.
    pub const ALL: Self = Self { pods: true, nodes: true, slices: true, endpoints: true, selectors: true };

    /// Returns true if all kinds are known.
    pub fn is_complete(self) -> bool {
        self == Self::ALL
    }
}

impl Default for Known {
    fn default() -> Self {
        Self::ALL
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slices: slices::PlanOptions::default(),
            endpoints: endpoints::PlanOptions::default(),
            mirroring: mirroring::PlanOptions::default(),
            retired: Some(RetiredNamespaces::default()),
            late_after: 30,
            known: Known::ALL,
            from_files: false,
            from: None,
            other_namespaces: true,
        }
    }
}

impl Options {
    /// Returns the options with which the plans write objects whenever Kubernetes' own controllers
    /// do.
    pub fn upstream() -> Self {
        Self {
            slices: slices::PlanOptions::default()
                .with_safe_write_order(false)
                .with_headless_label_repair(false),
            endpoints: endpoints::PlanOptions::upstream(),
            mirroring: mirroring::PlanOptions::default().with_headless_label_repair(false),
            retired: None,
            ..Self::default()
        }
    }

    /// Returns true if a Service is to have no Endpoints.
    pub(crate) fn retires(&self, service: &Service, now: Timestamp) -> bool {
        self.retired.as_ref().is_some_and(|retired| retired.wanted(service, now) != Wanted::Published)
    }

    /// Sets [`from`](Self::from).
    #[must_use]
    pub fn with_from(self, from: Option<ObjectKey>) -> Self {
        Self { from, ..self }
    }

    /// Sets [`known`](Self::known).
    pub fn with_known(self, known: Known) -> Self {
        Self { known, ..self }
    }
}
