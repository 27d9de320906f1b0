//! The ways in which a reflector resumes a watch.

use crate::list_watch::script::*;

fn listed() -> Answer {
    page(9, "", &[endpoints("a", 1)])
}

#[tokio::test(start_paused = true)]
async fn a_watch_closed_by_the_server_is_resumed_from_its_last_event() {
    let script = vec![
        listed(),
        Answer::Watch(vec![
            WatchStep::Wait(1),
            added("b", 10),
            WatchStep::Wait(1),
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
async fn an_interrupted_watch_is_resumed_from_its_last_bookmark() {
    let script = vec![
        listed(),
        Answer::Watch(vec![
            WatchStep::Wait(1),
            added("b", 10),
            bookmark(15),
            WatchStep::Raw(b"{\"type\":\"ADD"),
            WatchStep::Interrupt,
        ]),
    ];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      1.000         b: - -> 10
      1.000   interrupted
      1.000 ?limit=1
      1.000 ?watch... resourceVersion=15&timeoutSeconds=491
    holds a@1 b@10 at 15
    ");
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_is_resumed_after_the_idle_timeout() {
    let script = vec![listed(), Answer::Watch(vec![WatchStep::Wait(100), bookmark(11), WatchStep::Silence])];
    insta::assert_snapshot!(play_pages(300, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
     90.000 ?limit=1
    190.000 ?limit=1
    250.000 ?limit=1
    250.000 ?watch... resourceVersion=11&timeoutSeconds=491
    holds a@1 at 11
    ");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_retried_with_backoff() {
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
      0.655 ?limit=1
      0.655 ?watch... resourceVersion=9&timeoutSeconds=335
      2.225 ?limit=1
      2.225 ?watch... resourceVersion=9&timeoutSeconds=382
      4.517 ?limit=1
      4.517 ?watch... resourceVersion=9&timeoutSeconds=334
      4.517         b: - -> 10
      4.517 ?watch... resourceVersion=10&timeoutSeconds=361
    holds a@1 b@10 at 10
    ");
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_followed_by_a_relist() {
    // The server sends 410 as a response and as an event. The reflector sends the first relist at
    // once, and delays those that follow soon.
    let script = vec![
        listed(),
        Answer::Status(410, None, expired()),
        listed(),
        Answer::Watch(vec![line("ERROR", expired())]),
        listed(),
        Answer::Watch(vec![line("ERROR", expired())]),
        listed(),
        Answer::Watch(vec![WatchStep::Wait(20), line("ERROR", expired())]),
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
     23.862 ?limit=2
     23.862 ?watch... resourceVersion=9&timeoutSeconds=306
    holds a@1 at 9
    ");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_twice_at_the_same_version_is_followed_by_a_relist() {
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
      0.655 ?limit=1
      0.655 ?watch... resourceVersion=10&timeoutSeconds=335
      0.655 ?limit=2
      0.655         a: 1 -> -
      0.655         b: 10 -> -
      0.655 ?watch... resourceVersion=20&timeoutSeconds=382
    holds  at 20
    ");
}

/// A proxy ends each watch with its first event.
#[tokio::test(start_paused = true)]
async fn watches_that_end_with_their_first_event_are_opened_once_a_second() {
    for interrupts in [false, true] {
        let short = |number| {
            let end = interrupts.then_some(WatchStep::Interrupt);
            Answer::Watch([Some(added("b", 10 + number)), end].into_iter().flatten().collect())
        };
        let script = [listed()].into_iter().chain((0..1000_u64).map(short)).collect();
        let transcript = play_pages(60, script).await;
        let watches = transcript.lines().filter(|line| line.contains("?watch...")).count();
        assert!((60..70).contains(&watches), "{watches} watches in a minute, {interrupts}");
    }
}
