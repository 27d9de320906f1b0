use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::endpoints::EndpointSubset;
use crate::protobuf::ObjectToWrite;
use crate::{Endpoints, ObjectReference};

fn address(number: usize) -> EndpointAddress {
    let target = ObjectReference { uid: format!("u{number}").into(), ..ObjectReference::default() };
    EndpointAddress {
        ip: format!("10.0.{}.{}", number / 256, number % 256).into(),
        target_ref: Some(target),
        ..EndpointAddress::default()
    }
}

fn addresses(count: usize) -> Vec<EndpointAddress> {
    (0..count).map(address).collect()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Insert(usize),
    Remove(usize),
    Change(usize),
    Truncate(usize),
    /// Keeps a copy, so that the chunks are shared.
    Share,
    Encode,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Push),
        8 => (0..300usize).prop_map(Step::Insert),
        8 => (0..300usize).prop_map(Step::Remove),
        4 => (0..300usize).prop_map(Step::Change),
        1 => (0..300usize).prop_map(Step::Truncate),
        4 => Just(Step::Share),
        4 => Just(Step::Encode),
    ]
}

/// Returns the encoding of an object that holds the addresses as ready or as not ready.
fn encoded(addresses: AddressList, ready: bool) -> Vec<u8> {
    let (addresses, not_ready_addresses) =
        if ready { (addresses, AddressList::default()) } else { (AddressList::default(), addresses) };
    let subset = EndpointSubset { addresses, not_ready_addresses, ports: Vec::new() };
    Endpoints { subsets: vec![subset].into(), ..Endpoints::default() }.to_protobuf().body
}

proptest! {
    #[test]
    fn it_behaves_as_a_vector_and_is_encoded_as_one(start in 0..200usize, steps in vec(step(), 0..120)) {
        let mut model = addresses(start);
        let mut list = AddressList::from(model.clone());
        let mut copies = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let new = address(1000 + number);
            match step {
                Step::Push => {
                    model.push(new.clone());
                    list.push(new);
                }
                Step::Insert(at) => {
                    model.insert(at.min(model.len()), new.clone());
                    list.insert(at, new);
                }
                Step::Remove(at) => {
                    let removed = (at < model.len()).then(|| model.remove(at));
                    prop_assert_eq!(list.remove(at), removed);
                }
                Step::Change(at) => {
                    model.get_mut(at).into_iter().for_each(|one| *one = new.clone());
                    list.get_mut(at).into_iter().for_each(|one| *one = new.clone());
                }
                Step::Truncate(at) => {
                    model.truncate(at);
                    list.truncate(at);
                }
                Step::Share => copies.push((list.clone(), model.clone())),
                Step::Encode => {
                    for ready in [true, false] {
                        // This list shares no chunk with another one, so the encoder writes it
                        // field by field.
                        let apart = encoded(model.clone().into(), ready);
                        prop_assert_eq!(encoded(list.clone(), ready), apart);
                    }
                }
            }
            prop_assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
            prop_assert!(list.iter().eq(model.iter()));
            prop_assert_eq!(list.last(), model.last());
            prop_assert!(list.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.addresses.len())));
        }
        for (copy, before) in copies {
            prop_assert!(copy.iter().eq(before.iter()), "a copy does not change");
            prop_assert_eq!(copy == list, before == model);
            prop_assert_eq!(copy.cmp(&list), before.cmp(&model));
            prop_assert_eq!(encoded(copy, true), encoded(before.into(), true));
        }
    }

    #[test]
    fn a_sorted_list_is_searched(count in 0..200usize, removed in vec(0..200usize, 0..100)) {
        let mut list = AddressList::from(addresses(count));
        list.for_each_mut(|one| one.ip = format!("{:0>12}", one.ip.trim_start_matches("10.0.")).into());
        for at in removed {
            list.remove(at);
        }
        let mut sorted: Vec<EndpointAddress> = list.iter().cloned().collect();
        sorted.sort();
        let list = AddressList::from(sorted.clone());
        for number in 0..count + 2 {
            let wanted = format!("{:0>12}", address(number).ip.trim_start_matches("10.0."));
            let compare = |one: &EndpointAddress| (*one.ip).cmp(wanted.as_str());
            prop_assert_eq!(list.binary_search_by(compare), sorted.binary_search_by(compare));
        }
    }
}

#[test]
fn a_shrinking_list_has_few_chunks() {
    let mut list = AddressList::from(addresses(10 * CHUNK));
    assert_eq!(list.chunks.len(), 10);
    for number in 0..10 * CHUNK - 10 {
        list.remove(number * 7 % list.len());
    }
    assert_eq!(list.len(), 10);
    assert!(list.chunks.len() <= 2, "{}", list.chunks.len());
}

#[test]
fn one_change_leaves_the_other_chunks_and_their_encoding_shared() {
    let before = AddressList::from(addresses(10 * CHUNK));
    encoded(before.clone(), true);
    let kept = |list: &AddressList| list.chunks.iter().filter(|chunk| chunk.encoded.get().is_some()).count();
    assert_eq!(kept(&before), 10);
    let mut after = before.clone();
    after.remove(3 * CHUNK + 5);
    let shared = before.chunks.iter().zip(&after.chunks).filter(|(one, two)| Arc::ptr_eq(one, two));
    assert_eq!((shared.count(), kept(&after)), (9, 9));
    drop(before);
    let alone = AddressList::from(addresses(CHUNK));
    let subset = EndpointSubset { addresses: alone, ..EndpointSubset::default() };
    let object = Endpoints { subsets: vec![subset].into(), ..Endpoints::default() };
    object.to_protobuf();
    assert_eq!(kept(&object.subsets[0].addresses), 0, "nobody else will encode it");
}
