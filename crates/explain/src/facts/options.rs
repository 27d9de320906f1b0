//! The options of the explained controllers, and what could be read.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::retirement::{RetiredNamespaces, Wanted};
use kube_endpoint_core_model::{ObjectKey, Service, Text, Timestamp};
use kube_endpoint_endpoints_controller as endpoints;
use kube_endpoint_mirroring as mirroring;
use kube_endpoint_slice_plan as slices;

use crate::facts::extent::{Extent, FileContents};
use crate::facts::objects::Objects;

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
    /// The contents of the files that the objects are from, if they are from files: a kind that is
    /// not known is not in them, and nobody lacks a permission.
    pub files: Option<Arc<FileContents>>,
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
            files: None,
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

    /// Returns true if the objects are from files.
    pub(crate) fn are_from_files(&self) -> bool {
        self.files.is_some()
    }

    /// Returns true if the pods of a namespace are those of manifests: others may exist.
    pub(crate) fn has_manifests_of_pods(&self, namespace: &str) -> bool {
        self.files.as_ref().is_some_and(|files| files.of("pods", namespace) == Extent::Manifests)
    }

    /// Returns true if a Service of a namespace that was not read does not exist.
    pub(crate) fn knows_services_of(&self, namespace: &str) -> bool {
        self.files.as_ref().is_none_or(|files| files.of("services", namespace) != Extent::Nothing)
    }

    /// Returns the options with what is known in a namespace.
    pub(crate) fn within(&self, namespace: &str) -> Cow<'_, Self> {
        let known = self.files.as_ref().map_or(self.known, |files| files.known_in(namespace, self.known));
        match known == self.known {
            true => Cow::Borrowed(self),
            false => Cow::Owned(self.clone().with_known(known)),
        }
    }

    /// Returns the options for a Service whose pods are not known, if these are not.
    pub(crate) fn without_pods(&self, are_unknown: bool) -> Cow<'_, Self> {
        match are_unknown {
            true => Cow::Owned(self.clone().with_known(Known { pods: false, ..self.known })),
            false => Cow::Borrowed(self),
        }
    }

    /// Returns a sentence for each kind that the files lack in a namespace with Services.
    pub fn lacking(&self, objects: &Objects) -> Vec<String> {
        let namespaces: BTreeSet<&Text> = objects.services().map(|service| &service.namespace).collect();
        self.files.as_ref().map(|files| files.lacking(&namespaces)).unwrap_or_default()
    }

    /// Sets [`known`](Self::known).
    pub fn with_known(self, known: Known) -> Self {
        Self { known, ..self }
    }
}
