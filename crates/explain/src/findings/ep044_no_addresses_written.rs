//! The Service's endpoints are written by hand, and hold no ready address.

use crate::findings::inputs::is_mirrored;
use crate::findings::prelude::*;

about! {
    /// The Service has no selector. Whoever writes its endpoints has listed no ready address.
    EP044 "no-addresses-written" Error
    "The Service's endpoints are written by hand, and hold no ready address."
}

/// A Service without a selector whose endpoints have no ready address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoAddressesWritten {}

impl Finding for NoAddressesWritten {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let endpoints = inputs.objects.endpoints_of(&inputs.service.key);
        let slices = inputs.slices();
        // If there is nothing, nobody has written anything. Mirrored slices have the addresses of
        // the Endpoints.
        let is_known = if inputs.options.known.endpoints {
            endpoints.is_some() || !slices.is_empty()
        } else {
            !slices.is_empty() && !slices.iter().any(|slice| is_mirrored(slice))
        };
        if !inputs.shows_what_others_wrote() || !is_known || inputs.counts.ready > 0 {
            return Vec::new();
        }
        let has_addresses = endpoints.is_some_and(|endpoints| endpoints.subsets.counts().0 > 0);
        let is_told = inputs.due_mirroring().is_some() || !inputs.addresses_left_out().is_empty();
        let is_due = inputs.not_mirrored().is_none() && has_addresses && is_told;
        if is_due { Vec::new() } else { vec![Self {}] }
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let mut all = read.slices();
        all.extend([read.selector(), read.endpoints()]);
        all
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        Remedy::ask(EndpointsWriter, "Write ready addresses into them, or set spec.selector")
    }
}

impl fmt::Display for NoAddressesWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the Service has no selector, and the endpoints written for it hold no ready address")
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn one_ready_address_is_enough() {
        let not_ready = example("ep044-no-addresses-written");
        assert!(not_ready.finds(Code::NoAddressesWritten));
        let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
        let subset = json!({
            "addresses": [{"ip": "10.9.0.2"}],
            "notReadyAddresses": [{"ip": "10.9.0.1"}],
            "ports": ports,
        });
        let ready = not_ready.with("Endpoints/web", json!({"subsets": [subset]}));
        assert!(!ready.finds(Code::NoAddressesWritten));
    }

    #[test]
    fn written_addresses_that_are_not_mirrored_are_told_instead() {
        let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
        let invalid = json!({"subsets": [{"addresses": [{"ip": "10.9.0"}], "ports": ports}]});
        let written = example("ep044-no-addresses-written").with("Endpoints/web", invalid);
        assert!(written.finds(Code::AddressNotMirrored) && !written.finds(Code::NoAddressesWritten));
    }
}
