//! Tests that damaged input causes an error and no panic.

use proptest::prelude::*;

use super::super::*;
use super::recorded::{frames, list, read};
use crate::{EndpointSlice, Endpoints, Node, Pod, Service};

/// Decodes the bytes with every decoder. Returns the number of decoders that accept them.
fn decode_all(bytes: &[u8]) -> usize {
    let mut interner = Interner::default();
    let _ = (Envelope::read(bytes), WatchEvent::read(bytes), Status::of_answer(bytes), identity(bytes));
    let _ = (Status::read(bytes), ListMeta::read(bytes), object_meta(bytes, &mut interner));
    [
        Pod::from_protobuf(bytes, &mut interner).is_ok(),
        Service::from_protobuf(bytes, &mut interner).is_ok(),
        Node::from_protobuf(bytes, &mut interner).is_ok(),
        EndpointSlice::from_protobuf(bytes, &mut interner).is_ok(),
        Endpoints::from_protobuf(bytes, &mut interner).is_ok(),
        bookmark(bytes).is_ok(),
    ]
    .into_iter()
    .filter(|ok| *ok)
    .count()
}

fn recorded() -> Vec<Vec<u8>> {
    let plurals = ["pods", "services", "nodes", "endpointslices", "endpoints"];
    plurals.iter().map(|plural| list(&read(&format!("{plural}.list.pb"))).1[0].to_vec()).collect()
}

#[test]
fn an_object_that_is_cut_off_is_an_error_or_has_fewer_fields() {
    for (at, object) in recorded().into_iter().enumerate() {
        assert!(decode_all(&object) > 0, "object {at}");
        for end in 0..object.len() {
            decode_all(&object[..end]);
        }
    }
    let stream = read("pods.watch.pb");
    let frame = frames(&stream)[0];
    for end in 0..frame.len() {
        // The object is the last field.
        assert!(WatchEvent::read(&frame[..end]).is_err(), "{end}");
    }
}

#[test]
fn errors_name_the_field() {
    let check = |bytes: &[u8], want: &str| {
        let error = Pod::from_protobuf(bytes, &mut Interner::default()).unwrap_err();
        assert_eq!(error.to_string(), want);
    };
    check(b"\x0a\x05ab", "the protobuf encoding of the pod is broken");
    check(b"\x0a\x02\x0a\x05", "the protobuf encoding of metadata is broken");
    check(b"\x0a\x03\x0a\x01\xff", "metadata.name is not UTF-8");
    check(b"\x0a\x02\x08\x01", "metadata.name has the wrong protobuf wire type");
    check(b"\x08\x01", "metadata has the wrong protobuf wire type");
    check(b"\x0a\x04\x32\x02x1", r#"resourceVersion "x1" is not a decimal number"#);
    // 2^63 bytes, and a varint of more than 64 bits.
    check(b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "the protobuf encoding of the pod is broken");
    check(&[0xff; 20], "the protobuf encoding of the pod is broken");
    // A group.
    check(b"\x0b", "the protobuf encoding of the pod is broken");
    let time = b"\x0a\x0d\x4a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
    let years = "metadata.deletionTimestamp is 9223372036854775807 seconds after 1970, which is outside the supported years";
    check(&[&time[..], b"\x10"].concat(), "the protobuf encoding of metadata.deletionTimestamp is broken");
    check(b"\x0a\x0c\x4a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", years);
    let slice = EndpointSlice::from_protobuf(b"\x22\x03any", &mut Interner::default()).unwrap_err();
    assert_eq!(slice.to_string(), r#"addressType is "any"; expected one of IPv4, IPv6, FQDN"#);
}

#[test]
fn an_object_that_cannot_be_decoded_still_has_an_identity() {
    let pod = b"\x0a\x10\x0a\x01p\x1a\x01n\x32\x017\x0a\x01q\xff\xff\x03\x01";
    assert!(Pod::from_protobuf(pod, &mut Interner::default()).is_err());
    let identity = identity(pod);
    assert_eq!(identity.key, Some(crate::ObjectKey::new("n", "q")));
    assert_eq!(identity.resource_version, crate::ResourceVersion(7));
}

#[test]
fn a_compressed_envelope_is_refused() {
    let error = Envelope::read(b"k8s\0\x1a\x04gzip").unwrap_err();
    assert_eq!(error.to_string(), r#"its contentEncoding "gzip" is not supported"#);
    let error = Envelope::read(b"{}").unwrap_err();
    assert_eq!(error.to_string(), "it does not begin as Kubernetes' protobuf does");
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
        decode_all(&bytes);
        decode_all(&[MAGIC, &bytes].concat());
    }

    #[test]
    fn damaged_objects_do_not_panic(which in 0usize..5, at: usize, damage in prop::collection::vec(any::<u8>(), 1..12), cut: bool) {
        let mut object = recorded().swap_remove(which);
        let at = at % object.len();
        if cut {
            object.drain(at..(at + damage.len()).min(object.len()));
        } else {
            let end = (at + damage.len()).min(object.len());
            object.splice(at..end, damage);
        }
        decode_all(&object);
    }
}
