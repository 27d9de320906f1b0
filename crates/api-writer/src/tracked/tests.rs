use super::*;
use crate::limiter::RequestLimiter;
use http::{Request, Response};
use kube::client::Body;
use kube_endpoint_core_model::{EndpointSlice, ObjectMeta, ResourceVersion};
use std::sync::{Arc, Mutex};

type Asked = Arc<Mutex<Vec<String>>>;

/// A writer whose server gives these answers in turn.
fn answering(answers: &[(u16, &str)]) -> (TrackedWriter, Asked) {
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let mut answers: Vec<(u16, String)> =
        answers.iter().map(|(code, body)| (*code, body.to_string())).collect();
    answers.reverse();
    let answers = Arc::new(Mutex::new(answers));
    let service = tower::service_fn(move |request: Request<Body>| {
        let line = format!("{} {}", request.method(), request.uri().path().rsplit('/').next().unwrap());
        log.lock().unwrap().push(line);
        let answer = answers.lock().unwrap().pop();
        async move {
            let (code, body) = answer.ok_or_else(|| std::io::Error::other("the connection broke"))?;
            Response::builder()
                .status(code)
                .body(Body::from(body.into_bytes()))
                .map_err(std::io::Error::other)
        }
    });
    let writer = ApiWriter::new(
        kube_endpoint_api_client::ApiClient::for_tests(service),
        RequestLimiter::unlimited(),
        "test",
    );
    (TrackedWriter::new(writer, WriteTracker::default(), 1), asked)
}

fn owner() -> ObjectKey {
    ObjectKey::new("n", "web")
}

fn position(version: u64) -> ResourceVersion {
    ResourceVersion(version)
}

fn slice(name: &str) -> EndpointSlice {
    let metadata = ObjectMeta {
        name: name.into(),
        namespace: "n".into(),
        uid: format!("uid-{name}").into(),
        generate_name: "web-".into(),
        ..ObjectMeta::default()
    };
    EndpointSlice { metadata, ..EndpointSlice::default() }
}

/// Carries out writes. Once a create has failed, no other write is safe.
async fn carry_out(writer: &TrackedWriter, writes: Writes<EndpointSlice>) -> Carried<EndpointSlice> {
    writer.carry_out(&owner(), writes, || position(1), |_| (), Some(|_: &[_], _| Writes::default())).await
}

async fn create_one(writer: &TrackedWriter) -> Result<(), WriteError> {
    let carried = carry_out(writer, Writes { create: vec![slice("")], ..Writes::default() }).await;
    carried.failed.into_iter().next().map_or(Ok(()), |failed| Err(failed.error))
}

fn requests(asked: &Asked) -> Vec<String> {
    asked.lock().unwrap().clone()
}

#[tokio::test]
async fn creates_then_updates_then_deletes() {
    let (writer, asked) = answering(&[
        (201, r#"{"metadata":{"resourceVersion":"10"}}"#),
        (200, r#"{"metadata":{"resourceVersion":"11"}}"#),
        (200, "{}"),
    ]);
    let (update, delete) = (slice("b"), Arc::new(slice("c")));
    let writes = Writes { create: vec![slice("")], update: vec![update], delete: vec![delete] };
    let mut done = Vec::new();
    let wrote = |what: Operation| done.push(what.as_str());
    let carried = writer
        .carry_out(
            &owner(),
            writes,
            || position(1),
            wrote,
            Some(|_: &[_], _| unreachable!("no create fails")),
        )
        .await;
    assert_eq!(carried, Carried::default());
    assert_eq!(done, ["create", "update", "delete"]);
    assert_eq!(*asked.lock().unwrap(), ["POST endpointslices", "PUT b", "DELETE c"]);
    assert!(writer.tracker().is_stale(&owner(), position(10), [&"uid-c".into()]));
    assert!(writer.tracker().is_stale(&owner(), position(11), [&"uid-c".into()]));
    assert!(!writer.tracker().is_stale(&owner(), position(11), []));
}

#[tokio::test]
async fn a_refused_update_ends_the_list() {
    let (writer, asked) = answering(&[(409, r#"{"message":"changed"}"#)]);
    let (update, delete) = (slice("b"), Arc::new(slice("c")));
    let carried =
        carry_out(&writer, Writes { create: vec![], update: vec![update], delete: vec![delete] }).await;
    assert_eq!(carried.failed.len(), 1);
    assert_eq!(carried.failed[0].to_string(), "failed to update n/b: changed");
    assert_eq!(requests(&asked), ["PUT b"]);
    assert!(writer.tracker().is_empty());
}

#[tokio::test]
async fn a_refused_delete_does_not_keep_others_from_being_tried() {
    let check = |answer: u16, tried: &'static [&'static str], failed: usize| async move {
        let (writer, asked) = answering(&[(answer, r#"{"message":"no"}"#), (200, "{}"), (422, "{}")]);
        let delete = ["a", "b", "c"].map(|name| Arc::new(slice(name))).into();
        let carried = carry_out(&writer, Writes { delete, ..Writes::default() }).await;
        assert_eq!(requests(&asked), tried);
        assert_eq!(carried.failed.len(), failed);
        assert!(carried.failed.iter().all(|failed| failed.operation == Operation::Delete));
    };
    check(403, &["DELETE a", "DELETE b", "DELETE c"], 2).await;
    check(500, &["DELETE a", "DELETE b", "DELETE c"], 2).await;
    check(429, &["DELETE a"], 1).await;
}

#[tokio::test]
async fn after_a_failed_create_others_are_tried_and_then_only_what_is_safe_without_it_is_written() {
    const CREATED: (u16, &str) = (201, r#"{"metadata":{"resourceVersion":"10"}}"#);
    /// The answers to creates of the slices `a` to `d`, and the slices that do not exist then.
    async fn check(answers: &[(u16, &str)], missing: &[&str]) {
        let (writer, asked) = answering(&[answers, &[(200, "{}")]].concat());
        let create = ["a", "b", "c", "d"].map(slice).into();
        let writes = Writes { create, update: vec![slice("u")], delete: vec![Arc::new(slice("e"))] };
        let without = |without: &[EndpointSlice], rest: Writes<EndpointSlice>| {
            assert_eq!(without.iter().map(|slice| &*slice.metadata.name).collect::<Vec<_>>(), missing);
            Writes { update: Vec::new(), ..rest }
        };
        let carried = writer.carry_out(&owner(), writes, || position(1), |_| (), Some(without)).await;
        let failures = answers.iter().filter(|(code, _)| *code != 201).count();
        assert_eq!(carried.failed.len(), failures, "{answers:?}");
        let posts = vec!["POST endpointslices"; answers.len()];
        assert_eq!(requests(&asked), [&posts[..], &["DELETE e"]].concat(), "{answers:?}");
    }
    for code in [400, 403, 409, 422, 500, 504] {
        let failed = (code, r#"{"message":"no"}"#);
        check(&[CREATED, failed, CREATED, failed], &["b", "d"]).await;
        check(&[failed, CREATED, failed, CREATED], &["a", "c"]).await;
        check(&[CREATED, CREATED, failed, failed], &["c", "d"]).await;
        // More failures than successes.
        check(&[failed, failed], &["a", "b", "c", "d"]).await;
        check(&[CREATED, failed, failed, failed], &["b", "c", "d"]).await;
    }
}

#[tokio::test]
async fn without_the_gate_the_first_failed_create_ends_the_list() {
    let (writer, asked) = answering(&[(403, r#"{"message":"no"}"#)]);
    let create = vec![slice("a"), slice("b")];
    let writes = Writes { create, update: vec![slice("u")], delete: vec![Arc::new(slice("e"))] };
    let without = None::<fn(&[EndpointSlice], Writes<EndpointSlice>) -> Writes<EndpointSlice>>;
    let carried = writer.carry_out(&owner(), writes, || position(1), |_| (), without).await;
    assert_eq!((carried.failed.len(), requests(&asked)), (1, vec!["POST endpointslices".to_owned()]));
}

#[tokio::test]
async fn after_a_refused_update_what_is_safe_without_it_is_written() {
    let refused = (422, r#"{"message":"no"}"#);
    let (writer, asked) =
        answering(&[refused, (200, r#"{"metadata":{"resourceVersion":"10"}}"#), refused, (200, "{}")]);
    let update = ["a", "b", "c", "d"].map(slice).into();
    let writes = Writes { create: vec![], update, delete: vec![Arc::new(slice("e"))] };
    let without = |without: &[EndpointSlice], mut rest: Writes<EndpointSlice>| {
        // The last of the updates is not safe.
        rest.update.retain(|slice| without.len() == 1 || *slice.metadata.name != *"d");
        rest
    };
    let carried = writer.carry_out(&owner(), writes, || position(1), |_| (), Some(without)).await;
    assert_eq!(carried.failed.len(), 2);
    assert_eq!(requests(&asked), ["PUT a", "PUT b", "PUT c", "DELETE e"]);
    // More refusals than successes.
    let (writer, asked) = answering(&[refused, refused, (200, "{}")]);
    let update = ["a", "b", "c", "d"].map(slice).into();
    let writes = Writes { create: vec![], update, delete: vec![Arc::new(slice("e"))] };
    let without = |_: &[EndpointSlice], rest| rest;
    let carried = writer.carry_out(&owner(), writes, || position(1), |_| (), Some(without)).await;
    assert_eq!(carried.failed.len(), 2);
    assert_eq!(requests(&asked), ["PUT a", "PUT b", "DELETE e"]);
}

#[tokio::test]
async fn after_a_create_without_an_answer_no_other_is_tried() {
    let (writer, asked) = answering(&[]);
    let writes = Writes { create: vec![slice("a"), slice("b")], ..Writes::default() };
    let without = |missing: &[EndpointSlice], rest| {
        assert_eq!(missing.len(), 2);
        rest
    };
    let carried = writer.carry_out(&owner(), writes, || position(1), |_| (), Some(without)).await;
    assert_eq!((carried.failed.len(), requests(&asked).len()), (1, 1));
}

#[tokio::test]
async fn nothing_follows_a_create_that_failed_for_the_whole_plan() {
    let terminating = r#"{"details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#;
    for (code, body) in [(429, "{}"), (403, terminating)] {
        let (writer, asked) = answering(&[(code, body)]);
        let writes = Writes { create: vec![slice("a")], update: vec![slice("d")], ..Writes::default() };
        let without = |_: &[EndpointSlice], rest| rest;
        let carried = writer.carry_out(&owner(), writes, || position(1), |_| (), Some(without)).await;
        assert_eq!((carried.failed.len(), requests(&asked).len()), (1, 1));
    }
}

#[tokio::test]
async fn a_create_with_a_lost_answer_is_found_and_not_repeated() {
    let (writer, asked) = answering(&[
        (500, r#"{"message":"lost"}"#),
        (409, r#"{"message":"there","reason":"AlreadyExists"}"#),
        (200, r#"{"metadata":{"resourceVersion":"10"}}"#),
    ]);
    assert!(!create_one(&writer).await.unwrap_err().is_refusal());
    assert_eq!(create_one(&writer).await, Err(WriteError::AlreadyExists("there".into())));
    let requests = requests(&asked);
    assert_eq!(requests[..2], ["POST endpointslices", "POST endpointslices"]);
    assert!(requests[2].starts_with("GET web-"), "{requests:?}");
    assert!(writer.tracker().is_stale(&owner(), position(9), []), "until the cache shows it");
    assert!(!writer.tracker().is_stale(&owner(), position(10), []));
}

/// After a create whose answer was lost: these answers, and whether the name is kept for the next
/// create.
#[tokio::test]
async fn a_name_is_kept_until_the_server_has_said_whether_it_exists() {
    const EXISTS: (u16, &str) = (409, r#"{"reason":"AlreadyExists"}"#);
    let check = |answers: &'static [(u16, &'static str)], kept: bool| async move {
        let all: Vec<_> = std::iter::once((500, "{}")).chain(answers.iter().copied()).collect();
        let (writer, _) = answering(&all);
        create_one(&writer).await.unwrap_err();
        let _ = create_one(&writer).await;
        assert_eq!(writer.tracker().take_unresolved(&owner()).is_some(), kept, "{answers:?}");
    };
    for refusal in [&[(401, "{}")], &[(403, "{}")], &[(422, "{}")], &[(429, "{}")], &[(503, "{}")]] {
        check(refusal, true).await;
    }
    check(&[EXISTS, (403, "{}")], true).await;
    check(&[EXISTS, (500, "{}")], true).await;
    check(&[EXISTS], true).await;
    check(&[(404, "{}"), (200, "{}")], true).await;
    check(&[(404, "{}"), (500, "{}")], true).await;
    check(&[EXISTS, (404, "{}")], false).await;
    check(&[EXISTS, (200, r#"{"metadata":{"resourceVersion":"10"}}"#)], false).await;
    check(&[(201, r#"{"metadata":{"resourceVersion":"10"}}"#)], false).await;
    check(&[(403, r#"{"details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#)], false).await;
}

#[tokio::test]
async fn an_overloaded_server_may_have_carried_the_create_out() {
    let (writer, _) = answering(&[(503, "{}")]);
    create_one(&writer).await.unwrap_err();
    assert!(writer.tracker().take_unresolved(&owner()).is_some());
    let (writer, _) = answering(&[(429, "{}")]);
    create_one(&writer).await.unwrap_err();
    assert!(writer.tracker().is_empty());
}

#[tokio::test]
async fn after_a_404_to_a_create_the_service_shows_whether_the_cache_is_behind() {
    let check = |answer: (u16, &'static str), want: WriteError| async move {
        let (writer, asked) = answering(&[(404, r#"{"message":"no namespace"}"#), answer]);
        assert_eq!(create_one(&writer).await, Err(want));
        assert_eq!(requests(&asked), ["POST endpointslices", "GET web"]);
    };
    check((404, "{}"), WriteError::CacheBehind("no namespace".into())).await;
    check((200, r#"{"metadata":{"name":"web"}}"#), WriteError::NotFound("no namespace".into())).await;
    let failed = WriteError::Failed { code: 500, message: "later".into() };
    check((500, r#"{"message":"later"}"#), failed).await;
}

#[tokio::test]
async fn after_a_404_to_an_update_the_object_shows_whether_the_cache_is_behind() {
    let check = |answer: (u16, &'static str), behind: bool| async move {
        let (writer, asked) = answering(&[(404, "{}"), answer]);
        let carried = carry_out(&writer, Writes { update: vec![slice("b")], ..Writes::default() }).await;
        assert_eq!(matches!(carried.failed[0].error, WriteError::CacheBehind(_)), behind, "{answer:?}");
        assert_eq!(requests(&asked), ["PUT b", "GET b"]);
        let waits = writer.tracker().is_stale(&owner(), position(9), [&"uid-b".into()]);
        assert_eq!(waits, behind, "for the cache: {answer:?}");
    };
    check((404, "{}"), true).await;
    check((200, r#"{"metadata":{"uid":"another","resourceVersion":"8"}}"#), true).await;
    check((200, r#"{"metadata":{"uid":"uid-b","resourceVersion":"8"}}"#), false).await;
    check((403, "{}"), false).await;
}

#[tokio::test]
async fn deleting_a_missing_object_succeeds() {
    let metadata = ObjectMeta { uid: "u".into(), ..slice("c").metadata };
    const OURS: (u16, &str) = (200, r#"{"metadata":{"uid":"u","resourceVersion":"8"}}"#);
    const THEIRS: (u16, &str) = (200, r#"{"metadata":{"uid":"v","resourceVersion":"8"}}"#);
    let check = |answers: &'static [(u16, &'static str)], gone: bool| {
        let metadata = metadata.clone();
        async move {
            let (writer, _) = answering(answers);
            let deleted = writer.delete::<EndpointSlice>(&owner(), &metadata).await;
            assert_eq!(deleted.is_ok(), gone, "{answers:?}");
            let waits = writer.tracker().is_stale(&owner(), position(9), [&"u".into()]);
            assert_eq!(waits, gone, "for the cache: {answers:?}");
        }
    };
    check(&[(404, "{}"), (404, "{}")], true).await;
    check(&[(404, "{}"), THEIRS], true).await;
    check(&[(404, "{}"), OURS], false).await;
    check(&[(404, "{}"), (500, "{}")], false).await;
    check(&[(409, "{}"), (404, "{}")], true).await;
    check(&[(403, "{}")], false).await;
    check(&[(409, "{}"), (500, "{}")], false).await;
    check(&[(409, "{}"), THEIRS], true).await;
    check(&[(409, "{}"), OURS], false).await;
}
