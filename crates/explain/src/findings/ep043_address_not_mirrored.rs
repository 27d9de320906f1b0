//! Some addresses of the Endpoints are not mirrored to slices.

use kube_endpoint_mirroring::SkipReason;

use crate::findings::prelude::*;

about! {
    /// The mirroring controller leaves out texts that are not IP addresses, and addresses beyond
    /// the maximum for one subset.
    EP043 "address-not-mirrored" Warning
    "Some addresses of the Endpoints are not mirrored to slices."
}

/// Addresses of Endpoints that the mirroring controller leaves out for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressNotMirrored {
    /// The addresses, as the Endpoints spell them.
    pub addresses: Vec<Text>,
    pub cause: String,
    /// The maximum number of mirrored addresses of a subset, if these exceed it.
    pub maximum: Option<usize>,
}

impl Finding for AddressNotMirrored {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        if !inputs.is_written_by_others() || !inputs.options.known.slices {
            return Vec::new();
        }
        let left_out = inputs.addresses_left_out().into_iter();
        let found = left_out.map(|(reason, addresses)| Self {
            addresses,
            cause: reason.to_string(),
            maximum: match reason {
                SkipReason::OverMaximum { max } => Some(*max),
                _ => None,
            },
        });
        found.collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.endpoints()]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let sentence = match self.maximum {
            Some(_) => {
                "Write EndpointSlices yourself, which hold as many, or raise --mirroring-max-endpoints-per-subset"
            }
            None => "Correct the addresses, or write EndpointSlices yourself",
        };
        Remedy::ask(EndpointsWriter, sentence)
    }
}

impl fmt::Display for AddressNotMirrored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addresses, cause, maximum } = self;
        match (maximum, addresses.len()) {
            (None, _) => f.write_str("addresses of the Endpoints are")?,
            (Some(_), 1) => f.write_str("1 address of the Endpoints is")?,
            (Some(_), count) => write!(f, "{count} addresses of the Endpoints are")?,
        }
        write!(f, " not mirrored: {} ({cause})", names(addresses))
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn ip_addresses_are_mirrored() {
        let invalid = example("ep043-address-not-mirrored");
        assert!(invalid.finds(Code::AddressNotMirrored));
        let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
        let subsets = json!([{"addresses": [{"ip": "10.9.0.1"}, {"ip": "10.9.0.2"}], "ports": ports}]);
        let valid = invalid.with("Endpoints/web", json!({"subsets": subsets}));
        assert!(!valid.finds(Code::AddressNotMirrored));
    }

    #[test]
    fn endpoints_that_are_not_mirrored_at_all_are_told_instead() {
        let label = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
        let prevented = example("ep043-address-not-mirrored").with("Endpoints/web", label);
        assert!(prevented.finds(Code::EndpointsNotMirrored));
        assert!(!prevented.finds(Code::AddressNotMirrored));
    }
}
