//! Servers that do not answer, or send invalid answers.

use crate::list_watch::script::*;

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_retried_with_backoff_and_the_cluster_is_not_synced() {
    let script = (0..9).map(|_| Answer::Unreachable).chain([page(9, "", &[])]).collect();
    insta::assert_snapshot!(play_pages(90, script).await, @"
      0.000 ?limit=2
      0.743 ?limit=2
      2.053 ?limit=2
      3.841 ?limit=2
     10.119 ?limit=2
     18.278 ?limit=2
     36.607 ?limit=2
     53.342 ?limit=2
     71.404 ?limit=2
     86.707 ?limit=2
     86.707         synced
     86.707 ?watch... resourceVersion=9&timeoutSeconds=471
    holds  at 9
    ");
}

#[tokio::test(start_paused = true)]
async fn the_cluster_keeps_its_content_while_the_server_is_unreachable() {
    let script = vec![
        Answer::Watch(vec![added("a", 1), complete(9), WatchStep::Wait(100), WatchStep::Interrupt]),
        Answer::Unreachable,
        Answer::Unreachable,
        Answer::Watch(vec![added("b", 10), WatchStep::Wait(1)]),
        // The success above resets the backoff.
        Answer::Unreachable,
    ];
    insta::assert_snapshot!(play(110, script).await, @"
      0.000 ?watch... all&timeoutSeconds=556
      0.000         a: - -> 1
      0.000         synced
     90.000 ?limit=1
    100.000   interrupted
    100.000 ?limit=1
    100.000 ?watch... resourceVersion=9&timeoutSeconds=491
    100.447 ?limit=1
    100.447 ?watch... resourceVersion=9&timeoutSeconds=588
    101.467 ?limit=1
    101.467 ?watch... resourceVersion=9&timeoutSeconds=429
    101.467         b: - -> 10
    102.467 ?watch... resourceVersion=10&timeoutSeconds=334
    102.949 ?limit=1
    102.949 ?watch... resourceVersion=10&timeoutSeconds=306
    holds a@1 b@10 at 10
    ");
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_fails_after_the_idle_timeout() {
    insta::assert_snapshot!(play_pages(160, vec![Answer::Silence, page(9, "", &[])]).await, @"
      0.000 ?limit=2
    150.743 ?limit=2
    150.743         synced
    150.743 ?watch... resourceVersion=9&timeoutSeconds=491
    holds  at 9
    ");
}

#[tokio::test(start_paused = true)]
async fn answers_other_than_the_requested_list_are_errors() {
    let script = vec![
        Answer::Page(
            serde_json::json!({"kind": "PodList", "metadata": {"resourceVersion": "3"}, "items": []}),
        ),
        Answer::Page(status(500, "InternalError")),
        Answer::Page(serde_json::json!("<html>")),
        Answer::Page(serde_json::json!({"kind": "EndpointsList", "metadata": {}, "items": []})),
        page(9, "", &[]),
    ];
    insta::assert_snapshot!(play_pages(20, script).await, @"
      0.000 ?limit=2
      0.743 ?limit=2
      2.053 ?limit=2
      3.841 ?limit=2
     10.119 ?limit=2
     10.119         synced
     10.119 ?watch... resourceVersion=9&timeoutSeconds=382
    holds  at 9
    ");
}
