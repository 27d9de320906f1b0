use super::*;
use proptest::prelude::*;

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, number << 3 | 2);
    varint(&mut out, content.len() as u64);
    out.extend(content);
    out
}

fn envelope(kind: &str, object: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &type_meta), field(2, object), field(3, b""), field(4, b"")].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let metadata = [field(1, b""), field(2, b"77"), field(3, b"next"), vec![0x20, 0x80, 0x01]].concat();
    let items = items.iter().map(|item| field(2, item));
    envelope("PodList", &[field(1, &metadata)].into_iter().chain(items).collect::<Vec<_>>().concat())
}

/// Splits a body that arrives in chunks of this size. Returns the items, the page, and the most
/// bytes held between two chunks.
fn split(body: &[u8], size: usize) -> Result<(Vec<Bytes>, Page, usize), ListWatchError> {
    let mut splitter = ProtobufList::new("PodList");
    let (mut items, mut held) = (Vec::new(), 0);
    for chunk in body.chunks(size) {
        splitter.push(Bytes::copy_from_slice(chunk));
        while let Some(item) = splitter.next()? {
            items.push(item);
        }
        held = held.max(splitter.pieces.held());
    }
    Ok((items, splitter.finish()?, held))
}

fn error(body: &[u8]) -> String {
    let error = split(body, 3).unwrap_err().to_string();
    assert_eq!(split(body, usize::MAX).unwrap_err().to_string(), error);
    error
}

proptest! {
    #[test]
    fn items_and_metadata_make_up_the_list(
        items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..6), size in 1usize..300,
    ) {
        let (got, page, _) = split(&list(&items), size).unwrap();
        prop_assert_eq!(got, items);
        prop_assert_eq!(page.resource_version.0, 77);
        prop_assert_eq!(page.next.as_deref(), Some("next"));
    }

    #[test]
    fn a_list_that_is_cut_off_is_an_error(items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..3)) {
        let body = list(&items);
        // The fields after the list in its envelope are empty.
        for end in 0..body.len() - 4 {
            prop_assert!(split(&body[..end], 7).is_err(), "{}", end);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>, at: usize, size in 1usize..20) {
        let _ = split(&bytes, size);
        let _ = split(&[MAGIC, &bytes].concat(), size);
        let mut body = list(&[vec![1; 30], vec![2; 5]]);
        let at = at % body.len();
        let end = (at + bytes.len()).min(body.len());
        body.splice(at..end, bytes);
        let _ = split(&body, size);
    }
}

#[test]
fn answers_that_are_not_the_list_are_errors() {
    let status = [field(3, b"slow down"), field(4, b"TooManyRequests"), vec![0x30, 0xad, 0x03]].concat();
    assert_eq!(error(&envelope("Status", &status)), "the API server answered 429 TooManyRequests: slow down");
    let invalid = |what: &str| format!("the API server's answer is invalid: {what}");
    assert_eq!(error(&envelope("NodeList", b"")), invalid(r#"received a "NodeList", expected a "PodList""#));
    assert_eq!(error(&envelope("PodList", b"")), invalid("the PodList has no resourceVersion"));
    assert_eq!(error(b"<html></html>"), invalid(r#"protobuf that begins with "<htm""#));
    let compressed = [&list(&[])[..], &field(3, b"gzip")].concat();
    assert_eq!(error(&compressed), invalid("its contentEncoding is not supported"));
}

#[test]
fn lengths_that_no_object_has_are_refused_before_anything_is_read() {
    let huge = |field: u8, length: u64| {
        let mut out = vec![field << 3 | 2];
        varint(&mut out, length);
        out
    };
    let type_meta = field(1, &field(2, b"PodList"));
    let check = |list: Vec<u8>, want: &str| {
        let got = error(&[MAGIC, &type_meta, &list].concat());
        assert_eq!(got, format!("the API server's answer is invalid: {want}"));
    };
    let in_list = |item: Vec<u8>| [huge(2, 1 << 63), item].concat();
    check(
        in_list(huge(2, 1 << 62)),
        "field 2 of the list has 4611686018427387904 bytes; at most 16777216 are read",
    );
    check(in_list(huge(1, 1 << 21)), "field 1 of the list has 2097152 bytes; at most 1048576 are read");
    check(in_list(huge(9, u64::MAX)), "a field of the list is longer than the list");
    check(
        huge(3, 1 << 63),
        "field 3 of the envelope has 9223372036854775808 bytes; at most 1048576 are read",
    );
    check(field(2, b"\x12\x05ab"), "a field of the list is longer than the list");
    check([huge(2, 99), vec![0xff; 11]].concat(), "a list whose protobuf encoding is broken");
    check(field(2, b"\x0b"), "a list whose protobuf encoding is broken");
}

#[test]
fn what_is_held_does_not_grow_with_the_list() {
    let body = list(&vec![vec![7; 700]; 20_000]);
    let (items, _, held) = split(&body, 8 << 10).unwrap();
    assert_eq!(items.len(), 20_000);
    assert!(body.len() > 14_000_000 && held < 64 << 10, "{held} bytes of {}", body.len());
}
