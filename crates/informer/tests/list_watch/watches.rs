//! How a watch is resumed.

use crate::script::*;

fn listed() -> Answer {
    page(9, "", &[endpoints("a", 1)])
}

#[tokio::test(start_paused = true)]
async fn that_the_server_ends_from_the_last_event() {
    let script = vec![
        listed(),
        Answer::Watch(vec![
            Piece::Wait(1),
            added("b", 10),
            Piece::Wait(1),
            line("DELETED", endpoints("b", 12)),
        ]),
    ];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      1.000         b: - -> 10
      2.000         b: 10 -> -
      2.000 ?watch... resourceVersion=12&timeoutSeconds=491
    holds a@1 at 12
    ");
}

#[tokio::test(start_paused = true)]
async fn that_is_cut_from_the_last_bookmark() {
    let script = vec![
        listed(),
        Answer::Watch(vec![
            Piece::Wait(1),
            added("b", 10),
            bookmark(15),
            Piece::Raw(b"{\"type\":\"ADD"),
            Piece::Cut,
        ]),
    ];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      1.000         b: - -> 10
      1.000   cut
      1.000 ?watch... resourceVersion=15&timeoutSeconds=491
    holds a@1 b@10 at 15
    ");
}

#[tokio::test(start_paused = true)]
async fn that_falls_silent_as_a_dead_connection_does() {
    let script = vec![listed(), Answer::Watch(vec![Piece::Wait(100), bookmark(11), Piece::Silence])];
    insta::assert_snapshot!(play_pages(300, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
    250.000 ?watch... resourceVersion=11&timeoutSeconds=491
    holds a@1 at 11
    ");
}

#[tokio::test(start_paused = true)]
async fn that_ends_at_once_and_says_nothing_after_a_while() {
    let script = vec![
        listed(),
        Answer::Watch(vec![]),
        Answer::Watch(vec![]),
        Answer::Watch(vec![]),
        Answer::Watch(vec![added("b", 10)]),
    ];
    insta::assert_snapshot!(play_pages(10, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      0.655 ?watch... resourceVersion=9&timeoutSeconds=335
      2.225 ?watch... resourceVersion=9&timeoutSeconds=382
      4.517 ?watch... resourceVersion=9&timeoutSeconds=334
      4.517         b: - -> 10
      4.517 ?watch... resourceVersion=10&timeoutSeconds=361
    holds a@1 b@10 at 10
    ");
}

#[tokio::test(start_paused = true)]
async fn never_where_its_version_has_expired() {
    // 410 as an answer, and as an event. The first list anew is not waited for, those soon after it are.
    let script = vec![
        listed(),
        Answer::Status(410, None, expired()),
        listed(),
        Answer::Watch(vec![line("ERROR", expired())]),
        listed(),
        Answer::Watch(vec![line("ERROR", expired())]),
        listed(),
        Answer::Watch(vec![Piece::Wait(20), line("ERROR", expired())]),
        listed(),
    ];
    insta::assert_snapshot!(play_pages(40, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      0.000 ?limit=2
      0.000 ?watch... resourceVersion=9&timeoutSeconds=335
      1.570 ?limit=2
      1.570 ?watch... resourceVersion=9&timeoutSeconds=382
      3.862 ?limit=2
      3.862 ?watch... resourceVersion=9&timeoutSeconds=334
     27.716 ?limit=2
     27.716 ?watch... resourceVersion=9&timeoutSeconds=306
    holds a@1 at 9
    ");
}

#[tokio::test(start_paused = true)]
async fn never_where_its_version_has_not_come_yet() {
    let too_large = serde_json::json!({"kind": "Status", "code": 504, "reason": "Timeout", "message": "Too large resource version: 9, current: 3",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1}});
    let script = vec![listed(), Answer::Status(504, None, too_large), page(3, "", &[])];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      0.000 ?limit=2
      0.000         a: 1 -> -
      0.000 ?watch... resourceVersion=3&timeoutSeconds=335
    holds  at 3
    ");
}

#[tokio::test(start_paused = true)]
async fn that_told_of_an_error_once_but_not_twice() {
    let script = vec![
        listed(),
        Answer::Watch(vec![added("b", 10), line("ERROR", status(500, "InternalError"))]),
        Answer::Watch(vec![line("ERROR", status(500, "InternalError"))]),
        page(20, "", &[]),
    ];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      0.000         b: - -> 10
      0.655 ?watch... resourceVersion=10&timeoutSeconds=335
      0.655 ?limit=2
      0.655         a: 1 -> -
      0.655         b: 10 -> -
      0.655 ?watch... resourceVersion=20&timeoutSeconds=382
    holds  at 20
    ");
}

#[tokio::test(start_paused = true)]
async fn when_the_server_says() {
    let busy = serde_json::json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "busy",
        "details": {"retryAfterSeconds": 2}});
    let script = vec![
        listed(),
        Answer::Status(429, Some(13), status(429, "TooManyRequests")),
        Answer::Status(503, Some(4), status(503, "ServiceUnavailable")),
        Answer::Watch(vec![line("ERROR", busy)]),
        Answer::Watch(vec![added("b", 10), Piece::Silence]),
    ];
    insta::assert_snapshot!(play_pages(30, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
     13.000 ?watch... resourceVersion=9&timeoutSeconds=491
     17.000 ?watch... resourceVersion=9&timeoutSeconds=335
     19.000 ?watch... resourceVersion=9&timeoutSeconds=588
     19.000         b: - -> 10
    holds a@1 b@10 at 10
    ");
}
