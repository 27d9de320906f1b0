use super::*;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kube_endpoint_core_model::{EndpointSlice, Endpoints};
use kube_endpoint_tracker::{Verb, WriteTracker};
use std::sync::Mutex;
use std::time::Duration;

type Seen = Arc<Mutex<Vec<(String, String, serde_json::Value)>>>;

/// A writer whose server gives one answer to every request and records the requests.
fn answering(code: u16, body: &'static str) -> (ApiWriter, Seen) {
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        async move {
            let (parts, request_body) = request.into_parts();
            let bytes = request_body.collect().await.unwrap().to_bytes();
            let value = serde_json::from_slice(&bytes).unwrap_or_default();
            log.lock().unwrap().push((parts.method.to_string(), parts.uri.to_string(), value));
            Response::builder()
                .status(code)
                .header("Retry-After", "7")
                .body(Body::from(body.as_bytes().to_vec()))
        }
    });
    let client = ApiClient::for_tests(service).with_content_type(ContentType::Json);
    (ApiWriter::new(client, RequestLimiter::unlimited(), "test"), seen)
}

fn slice() -> Arc<EndpointSlice> {
    let metadata = ObjectMeta {
        name: "web-abc".into(),
        namespace: "shop".into(),
        resource_version: ResourceVersion(4),
        ..ObjectMeta::default()
    };
    Arc::new(EndpointSlice { metadata, ..EndpointSlice::default() })
}

async fn create<T: Writable>(writer: &ApiWriter, object: &Arc<T>) -> Result<ResourceVersion, WriteError> {
    let (tracker, key) = (WriteTracker::default(), object.metadata().key());
    writer.create(object, &mut tracker.write(&key, &key, Verb::Create, ResourceVersion(1))).await
}

async fn update<T: Writable>(writer: &ApiWriter, object: &Arc<T>) -> Result<ResourceVersion, WriteError> {
    let (tracker, key) = (WriteTracker::default(), object.metadata().key());
    let verb = Verb::Update(object.metadata().resource_version);
    writer.update(object, &mut tracker.write(&key, &key, verb, ResourceVersion(1))).await
}

/// Deletes the slice, in any version or only if it is unchanged.
async fn delete(writer: &ApiWriter, slice: &EndpointSlice, unchanged: bool) -> Result<(), WriteError> {
    let (tracker, key) = (WriteTracker::default(), slice.metadata.key());
    let write = &mut tracker.write(&key, &key, Verb::Delete, ResourceVersion(1));
    if unchanged {
        writer.delete_unchanged(slice, write).await
    } else {
        writer.delete_seen::<EndpointSlice>(&slice.metadata, write).await
    }
}

#[tokio::test]
async fn a_create_posts_the_object_with_its_kind() {
    let (writer, seen) =
        answering(201, r#"{"metadata":{"name":"web-abc","resourceVersion":"12","uid":"u"}}"#);
    assert_eq!(create(&writer, &slice()).await.unwrap(), ResourceVersion(12));
    insta::assert_json_snapshot!(*seen.lock().unwrap(), @r#"
    [
      [
        "POST",
        "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices",
        {
          "addressType": "IPv4",
          "apiVersion": "discovery.k8s.io/v1",
          "endpoints": [],
          "kind": "EndpointSlice",
          "metadata": {
            "name": "web-abc",
            "namespace": "shop",
            "resourceVersion": "4"
          },
          "ports": []
        }
      ]
    ]
    "#);
}

#[tokio::test]
async fn a_404_is_reported_as_it_is() {
    let (writer, _) = answering(404, r#"{"message":"not there"}"#);
    let not_found = || WriteError::NotFound("not there".into());
    assert_eq!(create(&writer, &slice()).await, Err(not_found()));
    assert_eq!(update(&writer, &slice()).await, Err(not_found()));
    assert_eq!(delete(&writer, &slice(), false).await, Err(not_found()));
}

#[tokio::test]
async fn an_update_is_a_put_and_a_get_reads_the_version() {
    let (writer, seen) = answering(200, r#"{"metadata":{"resourceVersion":"13"}}"#);
    let endpoints = Arc::new(Endpoints { metadata: slice().metadata.clone(), ..Endpoints::default() });
    assert_eq!(update(&writer, &endpoints).await.unwrap(), ResourceVersion(13));
    assert_eq!(writer.get::<Endpoints>(&endpoints.key()).await.unwrap().version(), ResourceVersion(13));
    let seen = seen.lock().unwrap();
    let calls: Vec<String> = seen.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    assert_eq!(
        calls,
        ["PUT /api/v1/namespaces/shop/endpoints/web-abc", "GET /api/v1/namespaces/shop/endpoints/web-abc"]
    );
}

#[tokio::test]
async fn a_delete_is_for_one_uid_only() {
    let (writer, seen) = answering(200, r#"{"kind":"Status","status":"Success"}"#);
    let mut slice = slice();
    Arc::make_mut(&mut slice).metadata.uid = "u".into();
    delete(&writer, &slice, false).await.unwrap();
    delete(&writer, &slice, true).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].2["preconditions"], serde_json::json!({"uid": "u"}));
    assert_eq!(seen[1].2["preconditions"], serde_json::json!({"uid": "u", "resourceVersion": "4"}));
}

#[tokio::test]
async fn errors_carry_the_servers_message_and_delay() {
    let (writer, _) = answering(429, r#"{"message":"slow down"}"#);
    let want = WriteError::Busy {
        code: 429,
        message: "slow down".into(),
        retry_after: Some(Duration::from_secs(7)),
    };
    assert_eq!(create(&writer, &slice()).await, Err(want));
}

#[tokio::test]
async fn an_invalid_answer_is_unknown() {
    let (writer, _) = answering(201, "<html>");
    let error = create(&writer, &slice()).await.unwrap_err();
    assert!(!error.is_refusal(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_answer_is_unknown() {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::io::Error>>()
    });
    let writer = ApiWriter::new(ApiClient::for_tests(service), RequestLimiter::unlimited(), "test");
    let error = create(&writer, &slice()).await.unwrap_err();
    assert_eq!(
        error,
        WriteError::Unknown(
            "POST /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices: no answer within 60s".into()
        )
    );
}

/// A server that refuses protobuf with a status, and records the encoding of each request, the kind
/// of its object, and what it accepts.
fn refusing(code: u16) -> (ApiWriter, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        async move {
            let text = |name| request.headers()[name].to_str().unwrap().to_owned();
            let content_type = text(http::header::CONTENT_TYPE);
            log.lock().unwrap().push(format!(
                "{} {content_type} {}",
                request.method(),
                text(http::header::ACCEPT)
            ));
            let answer = Response::builder();
            if content_type.contains("protobuf") {
                return answer.status(code).body(Body::empty());
            }
            answer.status(201).body(Body::from(br#"{"metadata":{"resourceVersion":"5"}}"#.to_vec()))
        }
    });
    (ApiWriter::new(ApiClient::for_tests(service), RequestLimiter::unlimited(), "test"), seen)
}

#[tokio::test]
async fn a_server_that_refuses_protobuf_gets_json_at_once_and_from_then_on() {
    for code in [406, 415] {
        let (writer, seen) = refusing(code);
        for _ in 0..2 {
            assert_eq!(create(&writer, &slice()).await.unwrap(), ResourceVersion(5));
        }
        assert_eq!(writer.client.content_type_of("endpoints"), ContentType::Protobuf);
        let seen = seen.lock().unwrap().join("\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(seen, @r"
            POST application/vnd.kubernetes.protobuf application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json
            POST application/json application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json
            POST application/json application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json
            ");
        }
    }
    // Any other refusal concerns the object.
    let (writer, seen) = refusing(422);
    assert!(matches!(create(&writer, &slice()).await, Err(WriteError::Refused { code: 422, .. })));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_version_in_an_answer_is_read() {
    let check = async |body: &'static str, want: Option<u64>| {
        let answer = update(&answering(200, body).0, &slice()).await;
        match want {
            Some(version) => assert_eq!(answer, Ok(ResourceVersion(version)), "{body}"),
            None => assert!(matches!(answer, Err(WriteError::Unknown(_))), "{body}: {answer:?}"),
        }
    };
    check(r#"{"metadata": {"resourceVersion": "7"}}"#, Some(7)).await;
    check(
        r#"{"kind": "EndpointSlice", "metadata": {"name": "a", "resourceVersion": "7"}, "endpoints": []}"#,
        Some(7),
    )
    .await;
    check(r#"{"metadata": {"name": "a"}}"#, None).await;
    check(r#"{"metadata": {"resourceVersion": ""}}"#, None).await;
    check(r#"{"metadata": {"resourceVersion": null}}"#, None).await;
    check(r#"{"metadata": {"resourceVersion": "seven"}}"#, None).await;
    check(r#"{"metadata": {"resourceVersion": 7}}"#, None).await;
    check(r#"{"metadata": null}"#, None).await;
    check("{}", None).await;
    check("", None).await;
}

#[tokio::test]
async fn answers_in_protobuf_are_read() {
    let fixture = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integration-tests/fixtures/protobuf");
        std::fs::read(format!("{folder}/{name}")).unwrap()
    };
    let answering = |code: u16, body: Vec<u8>| {
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = Response::builder()
                .status(code)
                .header("Content-Type", "application/vnd.kubernetes.protobuf");
            std::future::ready(answer.body(Body::from(body.clone())))
        });
        ApiWriter::new(ApiClient::for_tests(service), RequestLimiter::unlimited(), "test")
    };
    let want: PartialObjectMetadata = serde_json::from_slice(&fixture("put-metadata-only.json")).unwrap();
    let metadata_only = answering(200, fixture("put-metadata-only.pb"));
    assert_eq!(update(&metadata_only, &slice()).await, Ok(want.version()));
    assert_eq!(metadata_only.get::<EndpointSlice>(&slice().key()).await.unwrap(), want);
    // A server that does not know that form answers with the whole object.
    let want: PartialObjectMetadata = serde_json::from_slice(&fixture("endpointslices.one.json")).unwrap();
    assert_eq!(update(&answering(200, fixture("endpointslices.one.pb")), &slice()).await, Ok(want.version()));
    let error = update(&answering(404, fixture("status-404.pb")), &slice()).await.unwrap_err();
    let status: serde_json::Value = serde_json::from_slice(&fixture("status-404.json")).unwrap();
    assert_eq!(error, WriteError::NotFound(status["message"].as_str().unwrap().to_owned()));
    let error = update(&answering(200, b"k8s\0\xff".to_vec()), &slice()).await.unwrap_err();
    assert!(matches!(error, WriteError::Unknown(_)), "{error:?}");
}

#[tokio::test]
async fn an_answer_that_does_not_say_what_was_stored_leaves_the_outcome_unknown() {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":500}"#;
    let endless: &str = "x".repeat((16 << 20) + 1).leak();
    for (code, body, want) in [
        (201, status, "it has no resourceVersion"),
        (201, r#"{"metadata":{"name":"web-abc"}}"#, "it has no resourceVersion"),
        (200, endless, "the answer has more than 16777216 bytes"),
        (500, endless, "the answer has more than 16777216 bytes"),
    ] {
        let (writer, _) = answering(code, body);
        for result in [create(&writer, &slice()).await, update(&writer, &slice()).await] {
            let error = result.unwrap_err();
            assert!(matches!(&error, WriteError::Unknown(message) if message.contains(want)), "{error}");
        }
    }
}

#[tokio::test]
async fn a_long_message_of_the_server_is_cut() {
    let body = format!(r#"{{"kind":"Status","message":"{}"}}"#, "é".repeat(100_000)).leak();
    let (writer, _) = answering(422, body);
    let message = create(&writer, &slice()).await.unwrap_err().to_string();
    assert!((4000..9000).contains(&message.len()), "{} bytes", message.len());
}

/// A proxy, or a server of something else, answers 200 too.
#[tokio::test]
async fn an_answer_of_another_server_is_no_object() {
    let key = ObjectKey::new("shop", "web-abc");
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":200}"#;
    let bodies = [
        "",
        "{}",
        "[]",
        "ok",
        "<html>log in</html>",
        status,
        r#"{"items":[]}"#,
        r#"{"kind":"List","items":[]}"#,
    ];
    for body in bodies {
        let (writer, _) = answering(200, body);
        let error = writer.get::<EndpointSlice>(&key).await.unwrap_err();
        assert!(matches!(error, WriteError::Unknown(_)), "{body}: {error}");
    }
}

#[tokio::test]
async fn a_rehearsal_stores_nothing() {
    let (writer, seen) = answering(200, "{}");
    writer.try_create(&*slice()).await.unwrap();
    let read: Provenance =
        serde_json::from_value(serde_json::json!({"uid": "u", "resourceVersion": "4"})).unwrap();
    writer.try_delete::<Endpoints>(&ObjectKey::new("shop", "web"), &read).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].1, "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?dryRun=All");
    assert_eq!(seen[1].1, "/api/v1/namespaces/shop/endpoints/web?dryRun=All");
    assert_eq!(seen[1].2["dryRun"], serde_json::json!(["All"]));
    assert_eq!(seen[1].2["preconditions"], serde_json::json!({"uid": "u", "resourceVersion": "4"}));
}

#[tokio::test]
async fn a_webhook_that_has_no_dry_run_is_told_from_a_refusal() {
    let no = r#"{"message": "admission webhook \"a.example\" does not support dry run"}"#;
    let (writer, _) = answering(400, no);
    assert!(writer.try_create(&*slice()).await.unwrap_err().is_dry_run_unsupported());
    let (writer, _) = answering(400, r#"{"message": "admission webhook \"a.example\" denied the request"}"#);
    assert!(!writer.try_create(&*slice()).await.unwrap_err().is_dry_run_unsupported());
}

#[tokio::test]
async fn the_makers_of_slices_are_read_page_by_page() {
    let page = r#"{"metadata": {"continue": ""}, "items": [{"metadata": {
        "name": "web-1", "uid": "u", "resourceVersion": "7",
        "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:endpoints": {}, "f:metadata": {"f:labels": {}}}}]}}]}"#;
    let (writer, seen) = answering(200, page);
    let slices = writer.makers_of_slices(&ObjectKey::new("shop", "web")).await.unwrap();
    assert_eq!((&**slices[0].name(), slices[0].version()), ("web-1", ResourceVersion(7)));
    let maker = slices[0].maker(kube_endpoint_core_model::maker::Content::Slice, &writer.controllers());
    assert_eq!(maker, kube_endpoint_core_model::maker::Maker::SomebodyElse("kubectl".into()));
    let asked = &seen.lock().unwrap()[0].1;
    assert!(asked.ends_with("?labelSelector=kubernetes%2Eio%2Fservice%2Dname%3Dweb&limit=500"), "{asked}");
}
