//! kube-proxy ignores the Service, because a label names another proxy.

use crate::findings::prelude::*;
use crate::models::consumers::kube_proxy::LABEL_SERVICE_PROXY_NAME;
use crate::models::traffic::ServedBy;

about! {
    /// kube-proxy watches only Services without the label
    /// `service.kubernetes.io/service-proxy-name`, whatever its value. Nobody knows if the other
    /// proxy runs, nor its choice of endpoints: the verdict counts the ready ones, and the
    /// explanation does not check EP045 to EP048, EP062 and EP063.
    EP049 "other-proxy" Info
    "kube-proxy ignores the Service, because a label names another proxy."
}

/// Another proxy than kube-proxy, which a label names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherProxy {
    /// The proxy that the label names. May be empty.
    pub proxy: Text,
}

impl Finding for OtherProxy {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        match &inputs.served.by {
            ServedBy::OtherProxy { name } => vec![Self { proxy: name.clone() }],
            _ => Vec::new(),
        }
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.label(LABEL_SERVICE_PROXY_NAME)]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        Remedy::ask(
            ServiceOwner,
            "Nothing, if that proxy runs on the nodes of the clients; else remove the label from the Service",
        )
    }
}

impl fmt::Display for OtherProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = match &*self.proxy {
            "" => "another proxy".to_owned(),
            proxy => format!("the proxy {proxy:?}"),
        };
        write!(
            f,
            "kube-proxy ignores the Service, which has the label {LABEL_SERVICE_PROXY_NAME}: it leaves it to {which}, and whether that runs is not known"
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn clients_of_a_headless_service_need_no_proxy() {
        let proxied = example("ep049-other-proxy");
        assert!(proxied.finds(Code::OtherProxy));
        let headless = proxied.with("Service/web", json!({"spec": {"clusterIP": "None"}}));
        assert!(!headless.finds(Code::OtherProxy));
    }
}
