//! Lists in strategic merge patches: finds elements by merge key, and orders a merged list.
//! Elements in the patch keep the order of the patch; elements that only the server has keep their
//! relative position if possible.

use serde_json::{Map, Value};

use super::mergepatch::{Error, PATCH, go_format};

/// Returns the identity of an element: the value of its merge key or, without a merge key, the
/// element itself.
fn identity<'a>(element: &'a Value, merge_key: &str) -> Option<&'a Value> {
    if merge_key.is_empty() { Some(element) } else { element.get(merge_key) }
}

/// Returns the index of the element with the same identity as `element`.
pub(super) fn position(list: &[Value], element: &Value, merge_key: &str) -> Option<usize> {
    let wanted = identity(element, merge_key)?;
    list.iter().position(|one| identity(one, merge_key) == Some(wanted))
}

/// Fails unless all elements have the same type, which is not a list, and objects have the merge
/// key.
pub(super) fn check_elements(lists: [&[Value]; 2], merge_key: &str) -> Result<(), Error> {
    let mut previous: Option<&Value> = None;
    for element in lists.into_iter().flatten() {
        match (element, previous) {
            (Value::Array(_), _) => return Err(Error::ListOfLists),
            (_, Some(previous)) if std::mem::discriminant(previous) != std::mem::discriminant(element) => {
                return Err(Error::MixedList);
            }
            (Value::Object(object), _) => check_merge_key(object, merge_key)?,
            _ => {}
        }
        previous = Some(element);
    }
    Ok(())
}

fn check_merge_key(object: &Map<String, Value>, merge_key: &str) -> Result<(), Error> {
    if object.contains_key(PATCH) || object.contains_key(merge_key) {
        return Ok(());
    }
    Err(Error::NoMergeKey { object: go_format(object), merge_key: merge_key.to_owned() })
}

/// Fails unless the elements of `patch` occur in `order` in the same sequence.
pub(super) fn check_order(patch: &[Value], order: &[Value], merge_key: &str) -> Result<(), Error> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order;
    for element in patch.iter().filter(|element| element.get(PATCH).is_none()) {
        let found = position(rest, element, merge_key).ok_or(Error::OrderMismatch)?;
        rest = &rest[found + 1..];
    }
    Ok(())
}

/// Sorts `merged`: elements in `order` as there, the others (which only the server has) as in
/// `server`. The positions in `server` interleave the two groups.
pub(super) fn arrange(merged: Vec<Value>, order: &[Value], server: &[Value], merge_key: &str) -> Vec<Value> {
    let place = |list: &[Value], element: &Value| position(list, element, merge_key);
    let (mut ordered, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| place(order, element).is_some());
    ordered.sort_by_cached_key(|element| place(order, element));
    others.sort_by_cached_key(|element| place(server, element).unwrap_or(usize::MAX));
    let mut arranged = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for element in ordered {
        let limit = place(server, &element);
        while let (Some(other), Some(limit)) = (others.peek(), limit) {
            if place(server, other).is_none_or(|other| other >= limit) {
                break;
            }
            arranged.extend(others.next());
        }
        arranged.push(element);
    }
    arranged.extend(others);
    arranged
}
