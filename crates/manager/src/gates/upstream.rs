//! The feature gates of kube-controller-manager, so that users can copy its command line.
//!
//! Most of its gates change nothing in the three controllers: this program ignores them with a
//! warning. It honours the others if the controllers can behave as the value says, and refuses them
//! if not.

/// The gates that kube-controller-manager 1.36 registers, one in a line. They come from
/// `pkg/features`, the API server, client-go and component-base.
const NAMES: &str = include_str!("upstream.txt");

/// The effect of a gate of kube-controller-manager in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpstreamGate {
    /// Upstream locks it to this value, and the controllers behave that way.
    Locked(bool),
    /// `WatchListClient`: informers stream the first list if it is on.
    WatchListClient,
    /// `AllAlpha`: sets the alpha gates that the list does not name.
    AllAlpha,
    /// `AllBeta`: sets the beta gates that the list does not name.
    AllBeta,
    /// It changes nothing.
    Ignored,
}

impl UpstreamGate {
    /// Finds a gate by name.
    pub(super) fn find(name: &str) -> Option<Self> {
        NAMES.lines().any(|known| known == name).then_some(match name {
            // `pkg/controller/endpointslice` reads it. If it is on, PreferSameZone and
            // PreferSameNode count.
            "PreferSameTrafficDistribution" => Self::Locked(true),
            // client-go's informers read it. If it is on, handlers see the changes of all objects
            // in one order.
            "InOrderInformers" => Self::Locked(true),
            "WatchListClient" => Self::WatchListClient,
            "AllAlpha" => Self::AllAlpha,
            "AllBeta" => Self::AllBeta,
            _ => Self::Ignored,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        let names: Vec<&str> = NAMES.lines().collect();
        assert!(names.is_sorted_by(|one, two| one < two));
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric())));
        assert!(names.len() > 200);
    }

    #[test]
    fn gates_that_the_controllers_depend_on_are_not_ignored() {
        let check =
            |name: &str, want: Option<UpstreamGate>| assert_eq!(UpstreamGate::find(name), want, "{name}");
        check("PreferSameTrafficDistribution", Some(UpstreamGate::Locked(true)));
        check("InOrderInformers", Some(UpstreamGate::Locked(true)));
        check("WatchListClient", Some(UpstreamGate::WatchListClient));
        check("AllAlpha", Some(UpstreamGate::AllAlpha));
        check("AllBeta", Some(UpstreamGate::AllBeta));
        check("DynamicResourceAllocation", Some(UpstreamGate::Ignored));
        check("", None);
        check("EndpointsRepair", None);
    }
}
