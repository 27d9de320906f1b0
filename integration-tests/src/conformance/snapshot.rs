//! The objects of a scenario's namespace at one moment.

use serde_json::Value;

use super::{Api, ConformanceError, Kind};

/// The objects for a normal form: the outputs, and the inputs to which outputs refer.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Services, whose uids and creation times appear in outputs.
    pub services: Vec<Value>,
    /// Pods, whose uids appear in outputs.
    pub pods: Vec<Value>,
    pub endpoints: Vec<Value>,
    pub slices: Vec<Value>,
    /// Events.
    pub events: Vec<Value>,
}

impl Snapshot {
    /// Lists the objects of the server, one kind after another.
    ///
    /// # Errors
    ///
    /// An error if the server refuses a list.
    pub async fn take(api: &Api) -> Result<Self, ConformanceError> {
        Ok(Self {
            services: api.list(Kind::Service).await?,
            pods: api.list(Kind::Pod).await?,
            endpoints: api.list(Kind::Endpoints).await?,
            slices: api.list(Kind::EndpointSlice).await?,
            events: api.list(Kind::Event).await?,
        })
    }

    /// Sorts the items of a `List` by kind, as `kubectl get ... -o json` prints it, and ignores
    /// other kinds.
    pub fn of_list(list: &Value) -> Self {
        let mut snapshot = Self::default();
        for item in list["items"].as_array().into_iter().flatten() {
            let kind = match item["kind"].as_str() {
                Some("Service") => &mut snapshot.services,
                Some("Pod") => &mut snapshot.pods,
                Some("Endpoints") => &mut snapshot.endpoints,
                Some("EndpointSlice") => &mut snapshot.slices,
                Some("Event") => &mut snapshot.events,
                _ => continue,
            };
            kind.push(item.clone());
        }
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_sorted_by_kind() {
        let list = json!({"kind": "List", "items": [{"kind": "Pod", "n": 1}, {"kind": "Service", "n": 2},
            {"kind": "Node", "n": 3}, {"kind": "Pod", "n": 4}, {"kind": "EndpointSlice", "n": 5},
            {"kind": "Endpoints", "n": 6}, {"kind": "Event", "n": 7}]});
        let snapshot = Snapshot::of_list(&list);
        let numbers = |items: &[Value]| items.iter().map(|i| i["n"].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(numbers(&snapshot.pods), [1, 4]);
        assert_eq!(numbers(&snapshot.services), [2]);
        assert_eq!(numbers(&snapshot.slices), [5]);
        assert_eq!(numbers(&snapshot.endpoints), [6]);
        assert_eq!(numbers(&snapshot.events), [7]);
    }
}
