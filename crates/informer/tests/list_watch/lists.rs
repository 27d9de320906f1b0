//! How the complete state is asked for.

use crate::script::*;

#[tokio::test(start_paused = true)]
async fn by_pages_then_a_watch_from_the_version_of_the_list() {
    let script = vec![
        page(9, "two +", &[endpoints("a", 1), endpoints("b", 2)]),
        page(9, "", &[endpoints("c", 3)]),
        Answer::Watch(vec![Piece::Wait(1), added("d", 10), Piece::Silence]),
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
async fn as_a_stream_that_goes_on_as_the_watch() {
    let script = vec![Answer::Watch(vec![
        added("a", 1),
        added("b", 2),
        bookmark(2),
        added("c", 3),
        // Changes come while the state does; none of them is heard of before it is complete.
        line("MODIFIED", endpoints("a", 8)),
        line("DELETED", endpoints("b", 9)),
        Piece::Wait(1),
        complete(9),
        Piece::Wait(1),
        line("MODIFIED", endpoints("c", 11)),
        line("DELETED", endpoints("a", 12)),
        Piece::Silence,
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
async fn by_pages_where_the_server_knows_no_stream() {
    let script = vec![
        no_streaming(),
        page(9, "", &[endpoints("a", 1)]),
        Answer::Watch(vec![Piece::Wait(20), line("ERROR", expired())]),
        // It is not asked for a stream again.
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
async fn by_pages_when_the_stream_breaks_off_and_as_a_stream_the_next_time() {
    let script = vec![
        Answer::Watch(vec![added("a", 1), Piece::Cut]),
        page(9, "", &[endpoints("a", 1)]),
        Answer::Watch(vec![Piece::Wait(20), line("ERROR", expired())]),
        Answer::Watch(vec![added("a", 1), complete(19), Piece::Silence]),
    ];
    insta::assert_snapshot!(play(30, script).await, @"
      0.000 ?watch... all&timeoutSeconds=556
      0.000   cut
      0.655 ?limit=500
      0.655         a: - -> 1
      0.655         synced
      0.655 ?watch... resourceVersion=9&timeoutSeconds=335
     20.655 ?watch... all&timeoutSeconds=382
    holds a@1 at 19
    ");
}

#[tokio::test(start_paused = true)]
async fn by_pages_when_the_stream_never_completes() {
    // As a server would that ignores the parameter.
    let script = vec![Answer::Watch(vec![added("a", 1), Piece::Silence]), page(9, "", &[endpoints("a", 1)])];
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
async fn not_allowed_is_not_unsupported() {
    let script = vec![
        Answer::Status(403, None, status(403, "Forbidden")),
        Answer::Watch(vec![complete(3), Piece::Silence]),
    ];
    insta::assert_snapshot!(play(5, script).await, @"
      0.000 ?watch... all&timeoutSeconds=556
      0.655 ?watch... all&timeoutSeconds=335
      0.655         synced
    holds  at 3
    ");
}

#[tokio::test(start_paused = true)]
async fn a_failure_between_pages_does_not_start_over() {
    let script = vec![
        page(9, "two", &[endpoints("a", 1), endpoints("b", 2)]),
        Answer::Status(429, Some(7), status(429, "TooManyRequests")),
        Answer::Unreachable,
        page(9, "", &[endpoints("c", 3)]),
    ];
    insta::assert_snapshot!(play_pages(10, script).await, @"
      0.000 ?limit=2
      0.000 ?limit=2&continue=two
      7.000 ?limit=2&continue=two
      7.743 ?limit=2&continue=two
      7.743         a: - -> 1
      7.743         b: - -> 2
      7.743         c: - -> 3
      7.743         synced
      7.743 ?watch... resourceVersion=9&timeoutSeconds=491
    holds a@1 b@2 c@3 at 9
    ");
}

#[tokio::test(start_paused = true)]
async fn all_at_once_when_the_next_page_has_expired() {
    let script = vec![
        page(9, "two", &[endpoints("a", 1), endpoints("b", 2)]),
        Answer::Status(410, None, expired()),
        page(12, "", &[endpoints("a", 1), endpoints("c", 3)]),
        Answer::Watch(vec![Piece::Wait(20), line("ERROR", expired())]),
        // The next time it is pages again.
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
     20.894 ?limit=2
     20.894         a: 1 -> -
     20.894 ?watch... resourceVersion=19&timeoutSeconds=588
    holds c@3 at 19
    ");
}

#[tokio::test(start_paused = true)]
async fn deletions_that_nobody_watched_are_heard_of() {
    let script = vec![
        page(9, "", &[endpoints("a", 1), endpoints("b", 2), endpoints("c", 3)]),
        Answer::Watch(vec![Piece::Wait(1), line("ERROR", expired())]),
        // b is unchanged and not heard of.
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
