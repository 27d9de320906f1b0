//! The names of the controllers in `--controllers`, and the selection among them.

use std::fmt;

use crate::settings::InvalidOption;

/// The names of the other controllers of kube-controller-manager 1.36, one in a line. They are
/// those of its help text, and their aliases in `cmd/kube-controller-manager/app`.
const OTHERS: &str = include_str!("upstream_controllers.txt");

/// The selection of `--controllers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) controllers: Vec<ControllerName>,
    /// The selected controllers that kube-controller-manager has, but not this program.
    pub(crate) ignored: Vec<String>,
}

/// One of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerName {
    /// Makes v1 Endpoints from the pods of a Service.
    Endpoints,
    /// Makes EndpointSlices from the pods of a Service.
    EndpointSlice,
    /// Makes EndpointSlices from the Endpoints of a Service without a selector.
    EndpointSliceMirroring,
    /// Makes EndpointSlices of Services that name an EndpointSelector.
    EndpointSelector,
}

impl ControllerName {
    /// All controllers.
    pub const ALL: [Self; 4] =
        [Self::Endpoints, Self::EndpointSlice, Self::EndpointSliceMirroring, Self::EndpointSelector];

    /// The controllers that `*` enables: those that kube-controller-manager has.
    pub const DEFAULT: [Self; 3] = [Self::Endpoints, Self::EndpointSlice, Self::EndpointSliceMirroring];

    /// Returns the name, as in `--controllers`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints-controller",
            Self::EndpointSlice => "endpointslice-controller",
            Self::EndpointSliceMirroring => "endpointslice-mirroring-controller",
            Self::EndpointSelector => "endpoint-selector-controller",
        }
    }

    /// Returns the old name, which kube-controller-manager still accepts as an alias.
    fn old_name(self) -> Option<&'static str> {
        match self {
            Self::Endpoints => Some("endpoint"),
            Self::EndpointSlice => Some("endpointslice"),
            Self::EndpointSliceMirroring => Some("endpointslicemirroring"),
            Self::EndpointSelector => None,
        }
    }

    /// Returns the controller with a name or an old name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name || it.old_name() == Some(name))
    }

    /// Returns true if this build contains the controller.
    pub(crate) fn is_built_in(self) -> bool {
        match self {
            Self::Endpoints => cfg!(feature = "endpoints"),
            Self::EndpointSlice => cfg!(feature = "endpointslice"),
            Self::EndpointSliceMirroring => cfg!(feature = "mirroring"),
            Self::EndpointSelector => cfg!(feature = "selectors"),
        }
    }

    /// Returns the kind of object that the controller publishes.
    pub fn output_kind(self) -> &'static str {
        match self {
            Self::Endpoints => "Endpoints",
            Self::EndpointSlice | Self::EndpointSliceMirroring | Self::EndpointSelector => "EndpointSlice",
        }
    }

    fn feature(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints",
            Self::EndpointSlice => "endpointslice",
            Self::EndpointSliceMirroring => "mirroring",
            Self::EndpointSelector => "selectors",
        }
    }

    /// Parses the list of `--controllers`: `*` enables those of [`Self::DEFAULT`] that this build
    /// contains, `name` enables one, and `-name` disables one. Without `*`, controllers that no
    /// element names are off, so `-*` changes nothing. As in kube-controller-manager, the first
    /// element that names a controller decides, and takes precedence over `*`. The list may name
    /// other controllers of kube-controller-manager, too.
    pub(crate) fn select(words: &[String]) -> Result<Selection, InvalidOption> {
        let invalid = |word: &str, why: &str| InvalidOption {
            option: "--controllers".into(),
            value: word.into(),
            why: why.into(),
        };
        let mut chosen = [None; Self::ALL.len()];
        let mut star = false;
        let mut ignored = Vec::new();
        for word in words.iter().filter(|word| !word.is_empty()) {
            let (on, name) = match word.strip_prefix('-') {
                Some(name) => (false, name),
                None => (true, word.as_str()),
            };
            if name == "*" {
                star |= on;
                continue;
            }
            let Some(controller) = Self::named(name) else {
                if OTHERS.lines().any(|other| other == name) {
                    ignored.extend(on.then(|| name.to_owned()));
                    continue;
                }
                let known: Vec<&str> = Self::ALL.iter().map(|c| c.as_str()).collect();
                return Err(invalid(
                    word,
                    &format!("it is not in the list of known controllers: {} (or `*`)", known.join(", ")),
                ));
            };
            if on && !controller.is_built_in() {
                let feature = controller.feature();
                return Err(invalid(
                    word,
                    &format!("this build does not contain it; build with the Cargo feature `{feature}`"),
                ));
            }
            chosen[controller as usize].get_or_insert(on);
        }
        if let [other, ..] = &*ignored
            && !star
            && chosen == [None; Self::ALL.len()]
        {
            return Err(invalid(
                other,
                "this program does not have this controller, and no other one is enabled",
            ));
        }
        let is_chosen = |controller: &Self| {
            let by_star = star && Self::DEFAULT.contains(controller);
            chosen[*controller as usize].unwrap_or(by_star) && controller.is_built_in()
        };
        Ok(Selection { controllers: Self::ALL.into_iter().filter(is_chosen).collect(), ignored })
    }
}

impl fmt::Display for ControllerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(all(
    test,
    feature = "endpoints",
    feature = "endpointslice",
    feature = "mirroring",
    feature = "selectors"
))]
mod tests {
    use super::*;
    use ControllerName::{EndpointSelector, EndpointSlice, EndpointSliceMirroring, Endpoints};

    #[test]
    fn lists_are_parsed_as_in_kube_controller_manager() {
        let check = |words: &[&str], want: &[ControllerName]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(ControllerName::select(&words).unwrap().controllers, want, "{words:?}");
        };
        check(&["*"], &ControllerName::DEFAULT);
        check(&["*", "-endpoints-controller"], &[EndpointSlice, EndpointSliceMirroring]);
        check(&["-endpoint", "*"], &[EndpointSlice, EndpointSliceMirroring]);
        check(&["endpointslice"], &[EndpointSlice]);
        check(&["endpoints-controller", "-endpoints-controller"], &[Endpoints]);
        check(&["-*"], &[]);
        check(&["-*", "endpointslicemirroring"], &[EndpointSliceMirroring]);
        check(&[], &[]);
        check(&[""], &[]);
        check(&["*", "bootstrapsigner", "tokencleaner"], &ControllerName::DEFAULT);
        check(&["*", "endpoint-selector-controller"], &ControllerName::ALL);
        check(&["endpoint-selector-controller"], &[EndpointSelector]);
        check(&["*", "-endpoint-selector-controller"], &ControllerName::DEFAULT);
        let first_decides =
            ["-endpoint-selector-controller", "endpoint-selector-controller", "endpointslice"];
        check(&first_decides, &[EndpointSlice]);
    }

    #[test]
    fn other_controllers_of_kube_controller_manager_are_ignored() {
        let words = ["*", "bootstrapsigner", "-token-cleaner-controller"].map(ToOwned::to_owned);
        assert_eq!(ControllerName::select(&words).unwrap().ignored, ["bootstrapsigner"]);
        let error = ControllerName::select(&["service".into()]).unwrap_err();
        insta::assert_snapshot!(error, @r#"invalid value "service" for --controllers: this program does not have this controller, and no other one is enabled"#);
    }

    #[test]
    fn names_of_others_are_sorted_unique_and_not_those_of_this_program() {
        let names: Vec<&str> = OTHERS.lines().collect();
        assert!(names.is_sorted_by(|one, two| one < two));
        assert_eq!(names.len(), 90);
        assert_eq!(names.iter().find(|name| ControllerName::named(name).is_some()), None);
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_known_ones() {
        let error = ControllerName::select(&["deploymnt".into()]).unwrap_err();
        insta::assert_snapshot!(error, @r#"invalid value "deploymnt" for --controllers: it is not in the list of known controllers: endpoints-controller, endpointslice-controller, endpointslice-mirroring-controller, endpoint-selector-controller (or `*`)"#);
    }
}
