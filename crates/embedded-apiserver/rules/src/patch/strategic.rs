//! Strategic merge patches, after apimachinery's `util/strategicpatch`: merges objects, replaces
//! lists or merges them by key as the [`Schema`] says, and applies directives (`$patch`,
//! `$setElementOrder/…`, `$deleteFromPrimitiveList/…`, `$retainKeys`).

use serde_json::{Map, Value};

use super::mergepatch::{Error, PATCH, go_format};
use super::order::{arrange, check_elements, check_order, position};
use super::schema::{Field, Schema};

const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// Merges `patch` into `original`.
pub(super) fn merge(mut original: Object, mut patch: Object, schema: &Schema) -> Result<Object, Error> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(&directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    merge_ordered_lists(&mut original, &mut patch, schema)?;
    for (name, value) in patch {
        if name.starts_with(DELETE_FROM_LIST) {
            let name = list_name(&name, DELETE_FROM_LIST).ok_or(Error::PrimitiveList)?;
            if let (Some(Value::Array(list)), Value::Array(deleted)) = (original.get_mut(name), &value) {
                list.retain(|element| !deleted.contains(element));
            }
            continue;
        }
        let merged = match (original.remove(&name), value) {
            (_, Value::Null) => None,
            (Some(Value::Object(old)), Value::Object(new)) => {
                Some(Value::Object(merge(old, new, schema.field(&name).schema)?))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Some(Value::Array(merge_lists(old, new, schema.field(&name))?))
            }
            (_, value) => without_directives(value),
        };
        if let Some(merged) = merged {
            original.insert(name, merged);
        }
    }
    Ok(original)
}

fn unknown_directive(directive: &Value, object: &Object) -> Error {
    let directive = directive.as_str().map_or_else(|| directive.to_string(), str::to_owned);
    Error::UnknownDirective { directive, object: go_format(object) }
}

/// Returns the name of the list of a directive, such as `finalizers` of
/// `$setElementOrder/finalizers`.
fn list_name<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    key.strip_prefix(prefix)?.strip_prefix('/')
}

/// Removes the fields that a `$retainKeys` directive does not name; the patch may only contain
/// fields that it names.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Error> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = directive else { return Err(Error::RetainKeys) };
    let retained = |name: &str| retained.iter().any(|one| one.as_str() == Some(name));
    let unnamed = |(name, value): (&String, &Value)| {
        let directive = name.starts_with(DELETE_FROM_LIST) || name.starts_with(ELEMENT_ORDER);
        !value.is_null() && !directive && !retained(name)
    };
    if patch.iter().any(unnamed) {
        return Err(Error::RetainKeys);
    }
    original.retain(|name, _| retained(name));
    Ok(())
}

/// Merges the lists that have a `$setElementOrder` directive, and removes both from `patch`.
fn merge_ordered_lists(original: &mut Object, patch: &mut Object, schema: &Schema) -> Result<(), Error> {
    let directives: Vec<String> =
        patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.remove(&directive);
        let name = list_name(&directive, ELEMENT_ORDER).ok_or(Error::ElementOrder)?;
        let Some(Value::Array(order)) = order else { return Err(Error::ElementOrder) };
        let field = schema.field(name);
        let merge_key = field.merge_key.unwrap_or_default();
        let old = match original.get(name) {
            Some(Value::Array(list)) => Some(list.clone()),
            Some(_) => return Err(Error::ElementOrder),
            None => None,
        };
        let new = match patch.remove(name) {
            Some(Value::Array(list)) => Some(list),
            Some(_) => return Err(Error::ElementOrder),
            None => None,
        };
        check_elements([&order, &[]], merge_key)?;
        check_elements([old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default()], merge_key)?;
        check_order(new.as_deref().unwrap_or_default(), &order, merge_key)?;
        let server = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(new)) => merge_lists(old, new, field)?,
            (None, None) => continue,
        };
        original.insert(name.to_owned(), Value::Array(arrange(merged, &order, &server, merge_key)));
    }
    Ok(())
}

/// Merges a list by key or value if the field has a patch strategy, otherwise replaces it.
fn merge_lists(mut old: Vec<Value>, mut new: Vec<Value>, field: Field) -> Result<Vec<Value>, Error> {
    let Some(merge_key) = field.merge_key else {
        return Ok(new.into_iter().filter_map(without_directives).collect());
    };
    check_elements([&old, &new], merge_key)?;
    let objects = old.first().or(new.first()).is_some_and(Value::is_object);
    if objects && merge_key.is_empty() {
        return Err(Error::NoDeclaredMergeKey);
    }
    if obey_directives(&mut old, &mut new, merge_key)? {
        return Ok(new);
    }
    let server = old.clone();
    for element in new.iter().cloned() {
        match (position(&old, &element, merge_key), element) {
            (Some(place), Value::Object(element)) => {
                if let Value::Object(found) = std::mem::take(&mut old[place]) {
                    old[place] = Value::Object(merge(found, element, field.schema)?);
                }
            }
            (Some(_), _) => {}
            (None, element) => old.extend(without_directives(element)),
        }
    }
    Ok(arrange(old, &new, &server, merge_key))
}

/// Deletes from `old` the elements that `{"$patch": "delete", …}` in `new` names, and removes these
/// directives from `new`. Returns true if `new` replaces the whole list.
fn obey_directives(old: &mut Vec<Value>, new: &mut Vec<Value>, merge_key: &str) -> Result<bool, Error> {
    let mut replace = false;
    let mut kept = Vec::with_capacity(new.len());
    for element in std::mem::take(new) {
        let Some(directive) = element.get(PATCH) else {
            kept.push(element);
            continue;
        };
        let object = element.as_object().cloned().unwrap_or_default();
        match directive.as_str() {
            Some("delete") => {
                let Some(key) = object.get(merge_key) else {
                    return Err(Error::NoMergeKey {
                        object: go_format(&object),
                        merge_key: merge_key.to_owned(),
                    });
                };
                old.retain(|one| one.get(merge_key) != Some(key));
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(Error::MergeDirectiveInList),
            _ => return Err(unknown_directive(directive, &object)),
        }
    }
    *new = kept;
    Ok(replace)
}

/// Strips directives and nulls from a value that the object did not have before.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(PATCH) => None,
        Value::Object(object) => Some(Value::Object(
            object
                .into_iter()
                .filter(|(name, value)| !value.is_null() && !is_directive(name))
                .filter_map(|(name, value)| Some((name, without_directives(value)?)))
                .collect(),
        )),
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

fn is_directive(name: &str) -> bool {
    name == RETAIN_KEYS || name.starts_with(DELETE_FROM_LIST) || name.starts_with(ELEMENT_ORDER)
}

#[cfg(test)]
mod tests;
