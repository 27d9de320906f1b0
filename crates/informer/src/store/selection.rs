//! The labels by which a Service selects pods.

use kube_endpoint_core_model::{LabelSelector, StringMap, Text};

/// A key and a value of a label.
pub(crate) type Pair = (Text, Text);

/// The selector that applies to a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Its own, which selects pods that have all of these labels.
    Labels(StringMap),
    /// That of the EndpointSelector which it names.
    Expressions(LabelSelector),
}

impl Selection {
    pub(crate) fn selects(&self, labels: &StringMap) -> bool {
        match self {
            Self::Labels(selector) => selector.selects(labels),
            Self::Expressions(selector) => selector.matches(labels),
        }
    }

    /// Returns the keys of the labels that decide.
    pub(crate) fn keys(&self) -> Vec<Text> {
        match self {
            Self::Labels(selector) => selector.iter().map(|(key, _)| key.clone()).collect(),
            Self::Expressions(selector) => selector.keys().map(Text::from).collect(),
        }
    }

    /// Returns lists of labels. A selected pod has one label of each list. There is no list if the
    /// selector compares no label with values.
    pub(crate) fn alternatives(&self) -> Vec<Vec<Pair>> {
        match self {
            Self::Labels(selector) => {
                selector.iter().map(|(key, value)| vec![(key.clone(), value.clone())]).collect()
            }
            Self::Expressions(selector) => {
                let pairs = |(key, values): (&str, &std::collections::BTreeSet<String>)| {
                    let key = Text::from(key);
                    values.iter().map(|value| (key.clone(), Text::from(value.as_str()))).collect()
                };
                selector.alternatives().map(pairs).collect()
            }
        }
    }
}
