//! The ways in which a reflector lists a kind.

use crate::list_watch::script::*;

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_is_followed_by_a_watch_from_its_version() {
    let script = vec![
        page(9, "two +", &[endpoints("a", 1), endpoints("b", 2)]),
        page(9, "", &[endpoints("c", 3)]),
        Answer::Watch(vec![WatchStep::Wait(1), added("d", 10), WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000 ?limit=2&continue=two%20%2B
      0.000         a: - -> 1
      0.000         b: - -> 2
      0.000         c: - -> 3
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      1.000         d: - -> 10
    holds a@1 b@2 c@3 d@10 at 10
    ");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_continues_as_the_watch() {
    let script = vec![Answer::Watch(vec![
        added("a", 1),
        added("b", 2),
        bookmark(2),
        added("c", 3),
        // Objects change while the list arrives. The cluster calls handlers once it is complete.
        line("MODIFIED", endpoints("a", 8)),
        line("DELETED", endpoints("b", 9)),
        WatchStep::Wait(1),
        complete(9),
        WatchStep::Wait(1),
        line("MODIFIED", endpoints("c", 11)),
        line("DELETED", endpoints("a", 12)),
        WatchStep::Silence,
    ])];
    insta::assert_snapshot!(play(5, script).await, @"
      0.000 ?watch... all&timeoutSeconds=556
      1.000         a: - -> 8
      1.000         c: - -> 3
      1.000         synced
      2.000         c: 3 -> 11
      2.000         a: 8 -> -
    holds c@11 at 12
    ");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_in_pages() {
    let script = vec![
        streaming_unsupported(),
        page(9, "", &[endpoints("a", 1)]),
        Answer::Watch(vec![WatchStep::Wait(20), line("ERROR", expired())]),
        // The reflector does not request a stream again.
        page(19, "", &[endpoints("a", 1)]),
    ];
    insta::assert_snapshot!(play(30, script).await, @"
      0.000 ?watch... all&timeoutSeconds=556
      0.000 ?limit=500
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=491
     20.000 ?limit=500
     20.000 ?watch... resourceVersion=19&timeoutSeconds=588
    holds a@1 at 19
    ");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_streaming_list_is_followed_by_pages_and_streaming_is_tried_at_the_next_relist() {
    let script = vec![
        Answer::Watch(vec![added("a", 1), WatchStep::Interrupt]),
        page(9, "", &[endpoints("a", 1)]),
        Answer::Watch(vec![WatchStep::Wait(20), line("ERROR", expired())]),
        Answer::Watch(vec![added("a", 1), complete(19), WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play(30, script).await, @"
      0.000 ?watch... all&timeoutSeconds=556
      0.000   interrupted
      0.655 ?limit=500
      0.655         a: - -> 1
      0.655         synced
      0.655 ?watch... resourceVersion=9&timeoutSeconds=335
     20.655 ?watch... all&timeoutSeconds=382
    holds a@1 at 19
    ");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_never_completes_is_followed_by_pages() {
    // A server that ignores `sendInitialEvents` answers like this.
    let script =
        vec![Answer::Watch(vec![added("a", 1), WatchStep::Silence]), page(9, "", &[endpoints("a", 1)])];
    insta::assert_snapshot!(play(160, script).await, @"
      0.000 ?watch... all&timeoutSeconds=556
    150.655 ?limit=500
    150.655         a: - -> 1
    150.655         synced
    150.655 ?watch... resourceVersion=9&timeoutSeconds=335
    holds a@1 at 9
    ");
}

#[tokio::test(start_paused = true)]
async fn forbidden_does_not_mean_unsupported() {
    let script = vec![
        Answer::Status(403, None, status(403, "Forbidden")),
        Answer::Watch(vec![complete(3), WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play(5, script).await, @"
      0.000 ?watch... all&timeoutSeconds=556
      0.655 ?watch... all&timeoutSeconds=335
      0.655         synced
    holds  at 3
    ");
}

#[tokio::test(start_paused = true)]
async fn a_failed_page_is_requested_again_with_its_token() {
    let script = vec![
        page(9, "two", &[endpoints("a", 1), endpoints("b", 2)]),
        Answer::Status(429, Some("7"), status(429, "TooManyRequests")),
        Answer::Unreachable,
        page(9, "", &[endpoints("c", 3)]),
    ];
    insta::assert_snapshot!(play_pages(10, script).await, @"
      0.000 ?limit=2
      0.000 ?limit=2&continue=two
      8.115 ?limit=2&continue=two
      9.009 ?limit=2&continue=two
      9.009         a: - -> 1
      9.009         b: - -> 2
      9.009         c: - -> 3
      9.009         synced
      9.009 ?watch... resourceVersion=9&timeoutSeconds=588
    holds a@1 b@2 c@3 at 9
    ");
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_is_followed_by_a_list_without_pages() {
    let script = vec![
        page(9, "two", &[endpoints("a", 1), endpoints("b", 2)]),
        Answer::Status(410, None, expired()),
        page(12, "", &[endpoints("a", 1), endpoints("c", 3)]),
        Answer::Watch(vec![WatchStep::Wait(20), line("ERROR", expired())]),
        // The next list is in pages again.
        page(19, "", &[endpoints("c", 3)]),
    ];
    insta::assert_snapshot!(play_pages(30, script).await, @"
      0.000 ?limit=2
      0.000 ?limit=2&continue=two
      0.000 
      0.000         a: - -> 1
      0.000         c: - -> 3
      0.000         synced
      0.000 ?watch... resourceVersion=12&timeoutSeconds=491
     20.000 ?limit=2
     20.000         a: 1 -> -
     20.000 ?watch... resourceVersion=19&timeoutSeconds=588
    holds c@3 at 19
    ");
}

#[tokio::test(start_paused = true)]
async fn a_refused_continue_token_is_followed_by_a_list_from_the_start_and_then_by_one_without_pages() {
    // As after a restore from a backup: the token names a version that the server has not reached.
    let first = || page(9, "two", &[endpoints("a", 1), endpoints("b", 2)]);
    let script = vec![
        first(),
        Answer::Status(400, None, status(400, "BadRequest")),
        first(),
        Answer::Status(500, None, status(500, "InternalError")),
        page(12, "", &[endpoints("a", 1), endpoints("c", 3)]),
    ];
    insta::assert_snapshot!(play_pages(30, script).await, @"
      0.000 ?limit=2
      0.000 ?limit=2&continue=two
      0.743 ?limit=2
      0.743 ?limit=2&continue=two
      1.398 
      1.398         a: - -> 1
      1.398         c: - -> 3
      1.398         synced
      1.398 ?watch... resourceVersion=12&timeoutSeconds=335
    holds a@1 c@3 at 12
    ");
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_may_still_be_good_after_an_outage() {
    for code in [401, 403, 429, 502, 503, 504] {
        let script = vec![
            page(9, "two", &[endpoints("a", 1)]),
            Answer::Status(code, None, status(code, "")),
            Answer::Unreachable,
            page(9, "", &[endpoints("b", 2)]),
        ];
        let transcript = play_pages(30, script).await;
        assert_eq!(transcript.matches("?limit=2&continue=two").count(), 3, "{transcript}");
        assert!(transcript.ends_with("holds a@1 b@2 at 9"), "{transcript}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_an_interrupted_page_are_discarded() {
    let part = br#"{"kind":"EndpointsList","metadata":{"resourceVersion":"9","continue":"two"},"items":[
        {"metadata":{"name":"gone","namespace":"n","resourceVersion":"1"}},{"metadata":{"na"#;
    for end in [WatchStep::Interrupt, WatchStep::Wait(0), WatchStep::Raw(b"]}")] {
        let script = vec![
            Answer::Watch(vec![WatchStep::Raw(part), end]),
            page(9, "two", &[endpoints("a", 1)]),
            page(9, "", &[endpoints("b", 2)]),
        ];
        let transcript = play_pages(30, script).await;
        assert!(transcript.ends_with("holds a@1 b@2 at 9"), "{transcript}");
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_missed_by_the_watch_are_reported_by_the_next_list() {
    let script = vec![
        page(9, "", &[endpoints("a", 1), endpoints("b", 2), endpoints("c", 3)]),
        Answer::Watch(vec![WatchStep::Wait(1), line("ERROR", expired())]),
        // `b` is unchanged, so the cluster does not call handlers.
        page(20, "", &[endpoints("b", 2), endpoints("c", 15), endpoints("d", 16)]),
    ];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         b: - -> 2
      0.000         c: - -> 3
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      1.000 ?limit=2
      1.000         c: 3 -> 15
      1.000         d: - -> 16
      1.000         a: 1 -> -
      1.000 ?watch... resourceVersion=20&timeoutSeconds=335
    holds b@2 c@15 d@16 at 20
    ");
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_pages_never_end_begins_again_without_pages() {
    let endless = || page(9, "x", &[endpoints("a", 1)]);
    let script = vec![
        endless(),
        endless(),
        endless(),
        endless(),
        page(9, "", &[endpoints("b", 1)]),
        Answer::Watch(vec![WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play_pages(30, script).await, @"
      0.000 ?limit=2
      0.000 ?limit=2&continue=x
      0.743 ?limit=2
      0.743 ?limit=2&continue=x
      1.398 
      1.398         b: - -> 1
      1.398         synced
      1.398 ?watch... resourceVersion=9&timeoutSeconds=335
    holds b@1 at 9
    ");
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_pages_repeat_begins_again_without_pages() {
    let x = || page(9, "x", &[endpoints("a", 1)]);
    let y = || page(9, "y", &[endpoints("b", 1)]);
    let script = vec![
        x(),
        y(),
        x(),
        x(),
        y(),
        x(),
        page(9, "", &[endpoints("c", 1)]),
        Answer::Watch(vec![WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play_pages(30, script).await, @"
      0.000 ?limit=2
      0.000 ?limit=2&continue=x
      0.000 ?limit=2&continue=y
      0.743 ?limit=2
      0.743 ?limit=2&continue=x
      0.743 ?limit=2&continue=y
      1.398 
      1.398         c: - -> 1
      1.398         synced
      1.398 ?watch... resourceVersion=9&timeoutSeconds=335
    holds c@1 at 9
    ");
}
