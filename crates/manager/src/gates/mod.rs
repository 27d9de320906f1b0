//! Feature gates. Each turns one deviation from kube-controller-manager's behaviour on or off.

mod table;
mod upstream;

use kube_endpoint_core_model::go_bool;

use crate::settings::InvalidOption;
use crate::similar::similar;
use table::{GateSpec, Stage, TABLE};
use upstream::UpstreamGate;

pub use table::Gate;

/// The requests of kube-controller-manager's gates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UpstreamRequests {
    /// The value of `WatchListClient`, if the list sets it.
    pub(crate) watch_list_client: Option<bool>,
    /// Names of gates that change nothing here.
    pub(crate) ignored: Vec<String>,
}

/// The state of all feature gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates([bool; TABLE.len()]);

impl Default for Gates {
    fn default() -> Self {
        let mut gates = Self::upstream();
        for GateSpec { gate, stage, .. } in TABLE {
            gates.0[gate as usize] = stage.is_on();
        }
        gates
    }
}

impl Gates {
    /// Returns the behaviour of kube-controller-manager: all gates are off.
    pub fn upstream() -> Self {
        Self([false; TABLE.len()])
    }

    /// Returns true if a gate is on.
    pub fn is_on(&self, gate: Gate) -> bool {
        self.0[gate as usize]
    }

    /// Returns the name of each gate, with true if it is on.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&'static str, bool)> {
        TABLE.iter().map(|spec| (spec.name, self.is_on(spec.gate)))
    }

    /// Returns the gates with one of them set.
    #[must_use]
    pub fn with(mut self, gate: Gate, on: bool) -> Self {
        self.0[gate as usize] = on;
        self
    }

    /// Applies the elements of `--feature-gates`: `Name=true` or `Name=false`, where the name may
    /// follow `kube:`. Returns the requests of kube-controller-manager's gates among them.
    ///
    /// As in component-base, `AllAlpha` and `AllBeta` set the gates of their stage that the list
    /// does not name. Their place in the list does not matter. If several elements have one name,
    /// the last one counts.
    ///
    /// # Errors
    ///
    /// If a gate is unknown, its value is not a boolean, or the controllers cannot behave as it
    /// says.
    pub(crate) fn set(&mut self, words: &[String]) -> Result<UpstreamRequests, InvalidOption> {
        let mut requests = UpstreamRequests::default();
        let mut named = [None; TABLE.len()];
        let (mut all_alpha, mut all_beta) = (None, None);
        for word in words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()) {
            let invalid = |why: String| InvalidOption::new("--feature-gates", word, why);
            let (name, value) =
                word.split_once('=').ok_or_else(|| invalid("write Name=true or Name=false".into()))?;
            let name = name.trim().strip_prefix("kube:").unwrap_or(name.trim());
            let own = TABLE.iter().find(|spec| spec.name == name);
            let upstream = UpstreamGate::find(name);
            if own.is_none() && upstream.is_none() {
                return Err(invalid(unknown(name)));
            }
            let on = go_bool::parse(value.trim()).ok_or_else(|| invalid("write true or false".into()))?;
            if let Some(spec) = own {
                named[spec.gate as usize] = Some(on);
            }
            match upstream {
                None => {}
                Some(UpstreamGate::Locked(locked)) if locked == on => {}
                Some(UpstreamGate::Locked(locked)) => {
                    let why = format!(
                        "kube-controller-manager 1.36 locks this gate to {locked}; remove it or set it so"
                    );
                    return Err(invalid(why));
                }
                Some(UpstreamGate::WatchListClient) => requests.watch_list_client = Some(on),
                Some(UpstreamGate::AllAlpha) => all_alpha = Some(on),
                Some(UpstreamGate::AllBeta) => all_beta = Some(on),
                Some(UpstreamGate::Ignored) => requests.ignored.push(name.to_owned()),
            }
        }
        for GateSpec { gate, stage, .. } in TABLE {
            let all = match stage {
                Stage::Alpha => all_alpha,
                Stage::Beta => all_beta,
            };
            if let Some(on) = named[gate as usize].or(all) {
                self.0[gate as usize] = on;
            }
        }
        // WatchListClient is a beta gate of client-go.
        requests.watch_list_client = requests.watch_list_client.or(all_beta);
        Ok(requests)
    }

    /// Returns a line for each gate, for `--help`.
    pub(crate) fn help() -> String {
        let line = |GateSpec { name, stage, meaning, .. }: &GateSpec| {
            format!("{name}=true|false ({} - default={}): {meaning}", stage.as_str(), stage.is_on())
        };
        let all = [
            "AllAlpha=true|false (ALPHA - default=false): all alpha gates that are not named".to_owned(),
            "AllBeta=true|false (BETA - default=false): all beta gates that are not named".to_owned(),
        ];
        all.into_iter().chain(TABLE.iter().map(line)).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the reason why `--feature-gates` refuses an unknown gate.
fn unknown(name: &str) -> String {
    let known: Vec<&str> =
        ["AllAlpha", "AllBeta"].into_iter().chain(TABLE.iter().map(|spec| spec.name)).collect();
    let similar = similar(name, known.iter().copied());
    let similar = similar.map_or_else(String::new, |similar| format!(" did you mean {similar}?"));
    format!(
        "unknown gate;{similar} the gates are {} and those of kube-controller-manager 1.36",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for (at, GateSpec { gate, name, .. }) in TABLE.iter().enumerate() {
            assert_eq!(*gate as usize, at);
            assert_eq!(format!("{gate:?}"), *name);
            assert_eq!(gate.name(), *name);
        }
    }

    #[test]
    fn elements_set_gates() {
        let mut gates = Gates::default();
        gates.set(&["NodeZoneResync=false".into(), "SliceCompaction=true".into()]).unwrap();
        assert!(!gates.is_on(Gate::NodeZoneResync) && gates.is_on(Gate::SliceCompaction));
        assert!(gates.is_on(Gate::EndpointsRepair), "the others keep their defaults");
    }

    #[test]
    fn gates_of_kube_controller_manager_are_honoured_or_ignored() {
        let check = |words: &[&str], watch_list_client: Option<bool>, ignored: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut gates = Gates::default();
            let requests = gates.set(&words).unwrap();
            let ignored = ignored.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(requests, UpstreamRequests { watch_list_client, ignored }, "{words:?}");
            assert_eq!(gates, Gates::default(), "{words:?}");
        };
        check(&[], None, &[]);
        check(&["PreferSameTrafficDistribution=true", "InOrderInformers=1"], None, &[]);
        check(&["WatchListClient=false"], Some(false), &[]);
        check(&["kube:WatchListClient=False", " kube:WatchListClient = T "], Some(true), &[]);
        check(&["", "kube:DynamicResourceAllocation=0"], None, &["DynamicResourceAllocation"]);
    }

    #[test]
    fn a_stage_sets_the_gates_that_are_not_named() {
        let check = |words: &[&str], alpha: bool, beta: bool, watch_list_client: Option<bool>| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut gates = Gates::default();
            let requests = gates.set(&words).unwrap();
            assert_eq!(requests.watch_list_client, watch_list_client, "{words:?}");
            assert!(requests.ignored.is_empty(), "{words:?}");
            assert_eq!(gates.is_on(Gate::SliceCompaction), alpha, "{words:?}");
            assert_eq!(gates.is_on(Gate::EndpointsRepair), beta, "{words:?}");
        };
        check(&["AllAlpha=true"], true, true, None);
        check(&["AllAlpha=true", "SliceCompaction=false"], false, true, None);
        check(&["SliceCompaction=false", "AllAlpha=true"], false, true, None);
        check(&["AllAlpha=true", "AllAlpha=false"], false, true, None);
        check(&["AllBeta=false"], false, false, Some(false));
        check(&["AllBeta=false", "WatchListClient=true", "EndpointsRepair=true"], false, true, Some(true));
        check(&["kube:AllBeta=true"], false, true, Some(true));
        let mut gates = Gates::upstream();
        gates.set(&["AllBeta=true".to_owned()]).unwrap();
        assert_eq!(gates, Gates::default());
    }

    #[test]
    fn errors_name_the_valid_values() {
        let error = |word: &str| Gates::default().set(&[word.to_owned()]).unwrap_err().to_string();
        insta::assert_snapshot!(
            [
                "Nope=true",
                "SlowRetry=true",
                "wardle:NodeZoneResync=true",
                "NodeZoneResync",
                "NodeZoneResync=yes",
                "AllAlpha=maybe",
                "PreferSameTrafficDistribution=false"
            ]
            .map(error)
            .join("\n")
        );
    }
}
