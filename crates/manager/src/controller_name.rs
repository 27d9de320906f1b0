//! Names of controllers, as `--controllers` takes them, and which of them are in this build.

use std::fmt;

use crate::settings::InvalidOption;

/// One of the three controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerName {
    /// Pods of a Service into v1 Endpoints.
    Endpoints,
    /// Pods of a Service into EndpointSlices.
    EndpointSlice,
    /// Hand-made Endpoints into EndpointSlices.
    EndpointSliceMirroring,
}

impl ControllerName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Endpoints, Self::EndpointSlice, Self::EndpointSliceMirroring];

    /// Its name in kube-controller-manager.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints-controller",
            Self::EndpointSlice => "endpointslice-controller",
            Self::EndpointSliceMirroring => "endpointslice-mirroring-controller",
        }
    }

    /// The name that it had there before, which still works.
    fn old_name(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoint",
            Self::EndpointSlice => "endpointslice",
            Self::EndpointSliceMirroring => "endpointslicemirroring",
        }
    }

    /// Whether this build has it.
    pub fn is_built_in(self) -> bool {
        match self {
            Self::Endpoints => cfg!(feature = "endpoints"),
            Self::EndpointSlice => cfg!(feature = "endpointslice"),
            Self::EndpointSliceMirroring => cfg!(feature = "mirroring"),
        }
    }

    fn feature(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints",
            Self::EndpointSlice => "endpointslice",
            Self::EndpointSliceMirroring => "mirroring",
        }
    }

    /// Reads the list of `--controllers`: `*` is all of this build, `name` adds one, `-name` takes one away; the first word
    /// about a controller counts, whatever its place relative to `*`. `-*` is none.
    pub(crate) fn select(words: &[String]) -> Result<Vec<Self>, InvalidOption> {
        let invalid = |word: &str, why: &str| InvalidOption {
            option: "--controllers".into(),
            value: word.into(),
            why: why.into(),
        };
        let mut chosen: [Option<bool>; 3] = [None; 3];
        let mut star = false;
        for word in words {
            let (on, name) = match word.strip_prefix('-') {
                Some(name) => (false, name),
                None => (true, word.as_str()),
            };
            if name == "*" {
                star |= on;
                continue;
            }
            let Some(controller) = Self::ALL.into_iter().find(|c| c.as_str() == name || c.old_name() == name)
            else {
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
                    &format!("this build does not have it; build with the Cargo feature `{feature}`"),
                ));
            }
            chosen[controller as usize].get_or_insert(on);
        }
        Ok(Self::ALL
            .into_iter()
            .filter(|controller| chosen[*controller as usize].unwrap_or(star) && controller.is_built_in())
            .collect())
    }
}

impl fmt::Display for ControllerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(all(test, feature = "endpoints", feature = "endpointslice", feature = "mirroring"))]
mod tests {
    use super::*;
    use ControllerName::{EndpointSlice, EndpointSliceMirroring, Endpoints};

    #[test]
    fn lists_read_as_upstream_reads_them() {
        let check = |words: &[&str], want: &[ControllerName]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(ControllerName::select(&words).unwrap(), want, "{words:?}");
        };
        check(&["*"], &ControllerName::ALL);
        check(&["*", "-endpoints-controller"], &[EndpointSlice, EndpointSliceMirroring]);
        check(&["-endpoint", "*"], &[EndpointSlice, EndpointSliceMirroring]);
        check(&["endpointslice"], &[EndpointSlice]);
        check(&["endpoints-controller", "-endpoints-controller"], &[Endpoints]);
        check(&["-*"], &[]);
        check(&["-*", "endpointslicemirroring"], &[EndpointSliceMirroring]);
        check(&[], &[]);
    }

    #[test]
    fn an_unknown_name_is_told_what_would_be_right() {
        let error = ControllerName::select(&["deployment".into()]).unwrap_err();
        insta::assert_snapshot!(error, @r#"invalid value "deployment" for --controllers: it is not in the list of known controllers: endpoints-controller, endpointslice-controller, endpointslice-mirroring-controller (or `*`)"#);
    }
}
