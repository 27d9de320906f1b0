//! Decoding and encoding each object of a list that a real API server answered, strings shared as
//! in a store.

use std::any::Any;
use std::hint::black_box;

use kube_endpoint_benches::{decode_echo, recorded_list_in_json, recorded_list_in_protobuf};
use kube_endpoint_core_model::protobuf::{FromProtobuf, ObjectToWrite};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Intern, Interner, Node, Pod, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::callgrind::Counter;

/// The work to count. Its result holds everything that it used, so that the count includes no drop.
type Work = Box<dyn FnOnce() -> Box<dyn Any>>;

/// Takes each item. It holds the views of an earlier list, as a store that lists again does.
fn each<I: 'static, T: 'static>(items: Vec<I>, decode: impl Fn(&I, &mut Interner) -> T + 'static) -> Work {
    let mut interner = Interner::default();
    let held: Vec<T> = items.iter().map(|item| decode(item, &mut interner)).collect();
    Box::new(move || {
        let views: Vec<T> = items.iter().map(|item| decode(black_box(item), &mut interner)).collect();
        Box::new((views, held, items, interner))
    })
}

fn protobuf<T: FromProtobuf>(item: &[u8], interner: &mut Interner) -> T {
    T::from_protobuf(item, interner).expect("a recorded object can be decoded")
}

fn from_protobuf<T: FromProtobuf + 'static>(kind: &str) -> Work {
    each(recorded_list_in_protobuf(kind), |item, interner| protobuf::<T>(item, interner))
}

fn from_json<T: DeserializeOwned + Intern + 'static>(kind: &str) -> Work {
    each(recorded_list_in_json(kind), |item, interner| {
        let mut view: T = serde_json::from_str(item).expect("a recorded object can be decoded");
        view.intern(interner);
        view
    })
}

fn views<T: FromProtobuf>(kind: &str) -> Vec<T> {
    let mut interner = Interner::default();
    recorded_list_in_protobuf(kind).iter().map(|item| protobuf(item, &mut interner)).collect()
}

fn to_protobuf<T: FromProtobuf + ObjectToWrite + 'static>(kind: &str) -> Work {
    each(views::<T>(kind), |view, _| view.to_protobuf())
}

fn to_json<T: FromProtobuf + Serialize + 'static>(kind: &str) -> Work {
    each(views::<T>(kind), |view, _| serde_json::to_vec(view))
}

fn echo(kind: &str) -> Work {
    each(recorded_list_in_protobuf(kind), |item, interner| decode_echo(item, interner))
}

/// Decodes and encodes each kind.
pub(crate) fn decode(counter: &Counter) {
    let works: [(&str, Work); 16] = [
        ("decode pods from protobuf", from_protobuf::<Pod>("pods")),
        ("decode Services from protobuf", from_protobuf::<Service>("services")),
        ("decode nodes from protobuf", from_protobuf::<Node>("nodes")),
        ("decode slices from protobuf", from_protobuf::<EndpointSlice>("endpointslices")),
        ("decode Endpoints from protobuf", from_protobuf::<Endpoints>("endpoints")),
        ("decode pods from JSON", from_json::<Pod>("pods")),
        ("decode Services from JSON", from_json::<Service>("services")),
        ("decode nodes from JSON", from_json::<Node>("nodes")),
        ("decode slices from JSON", from_json::<EndpointSlice>("endpointslices")),
        ("decode Endpoints from JSON", from_json::<Endpoints>("endpoints")),
        ("decode echoes of slices", echo("endpointslices")),
        ("decode echoes of Endpoints", echo("endpoints")),
        ("encode slices to protobuf", to_protobuf::<EndpointSlice>("endpointslices")),
        ("encode Endpoints to protobuf", to_protobuf::<Endpoints>("endpoints")),
        ("encode slices to JSON", to_json::<EndpointSlice>("endpointslices")),
        ("encode Endpoints to JSON", to_json::<Endpoints>("endpoints")),
    ];
    for (name, work) in works {
        counter.count(name, work);
    }
}
