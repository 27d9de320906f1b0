//! Follows a remedy: the steps that change objects, the work of the person who is asked, and the
//! writes of the controllers. Then clients are sent where the case says.

use std::collections::BTreeSet;

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::{Objects, PatchForm, Remedy, Step};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

use super::judged::is_right;
use crate::fault_manifests::{Change, Fault, receivers};

/// Follows a remedy, and returns what is not right afterwards.
pub(super) fn follow(case: &Fault, cluster: Cluster, remedy: &Remedy) -> Result<(), String> {
    let (mut case, mut objects, mut is_asked) = (case.clone(), cluster.objects().to_vec(), false);
    for step in &remedy.steps {
        match step {
            Step::Ask { .. } if !is_asked => {
                is_asked = true;
                ask(&mut case, &mut objects)?;
            }
            step if step.changes() => carry_out(step, &mut objects)?,
            _ => {}
        }
    }
    if !is_asked {
        ask(&mut case, &mut objects)?;
    }
    let cluster = objects.iter().fold(Cluster::new(), Cluster::with);
    let cluster = case.settle(cluster, case.now(), &case.options());
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let nodes: Vec<Value> = cluster.objects_of("Node").cloned().collect();
    let meant: BTreeSet<String> = case.receives.iter().cloned().collect();
    let web =
        if case.subject.starts_with("service/") { case.key() } else { ObjectKey::new("default", "web") };
    let receives = receivers(&objects, &web, &nodes);
    if receives != meant {
        return Err(format!("after the remedy, clients are sent to {receives:?}, not to {meant:?}"));
    }
    is_right(&case, &cluster)
}

fn find<'o>(objects: &'o mut [Value], kind: &str, name: &str) -> Result<&'o mut Value, String> {
    let is = |object: &&mut Value| {
        object["kind"].as_str().is_some_and(|it| it.eq_ignore_ascii_case(kind))
            && object["metadata"]["name"] == *name
    };
    objects.iter_mut().find(is).ok_or_else(|| format!("there is no {kind} {name}"))
}

fn delete(objects: &mut Vec<Value>, kind: &str, name: &str) -> Result<(), String> {
    let gone = find(objects, kind, name)?.clone();
    objects.retain(|object| *object != gone);
    Ok(())
}

/// Plays the person who is asked.
fn ask(case: &mut Fault, objects: &mut Vec<Value>) -> Result<(), String> {
    for change in std::mem::take(&mut case.person) {
        match change {
            Change::Create(object) => objects.push(object),
            Change::Delete { kind, name } => delete(objects, &kind, &name)?,
            Change::Patch { kind, name, merge } => {
                json_patch::merge(find(objects, &kind, &name)?, &merge);
            }
            Change::Permit(_) => case.forbidden.clear(),
            Change::StartControllers(_) => case.controllers = None,
        }
    }
    Ok(())
}

/// Carries a step out that changes objects.
fn carry_out(step: &Step, objects: &mut Vec<Value>) -> Result<(), String> {
    let words = match step {
        Step::Patch { kind, object, form, patch } => {
            let changed = find(objects, kind, &object.name)?;
            match form {
                PatchForm::Merge => json_patch::merge(changed, patch),
                PatchForm::Json => {
                    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
                    json_patch::patch(changed, &patch).map_err(|error| error.to_string())?;
                }
            }
            return Ok(());
        }
        Step::Command(words) => words,
        _ => return Ok(()),
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["kubectl", "-n", _, verb @ ("label" | "annotate"), kind, names @ .., change] => {
            let key = change.strip_suffix('-').ok_or_else(|| format!("no change: {change}"))?;
            let field = if *verb == "label" { "labels" } else { "annotations" };
            for name in names {
                json_patch::merge(find(objects, kind, name)?, &json!({"metadata": {field: {key: null}}}));
            }
        }
        ["kubectl", "-n", _, "delete", kind, names @ ..] => {
            for name in names {
                delete(objects, kind, name)?;
            }
        }
        _ => return Err(format!("a command that remedies do not have: {words:?}")),
    }
    Ok(())
}
