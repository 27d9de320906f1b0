//! The delays of a reflector whose server sends `Retry-After`.

use crate::list_watch::script::*;

fn busy(code: u16, seconds: &'static str) -> Answer {
    Answer::Status(code, Some(seconds), status(code, "ServiceUnavailable"))
}

fn listed() -> Answer {
    page(9, "", &[endpoints("a", 1)])
}

/// Returns the times of all requests for a list, in seconds.
fn times(transcript: &str) -> Vec<f64> {
    let lists = transcript.lines().filter(|line| line.contains("?limit=2"));
    lists.map(|line| line.trim_start().split(' ').next().unwrap().parse().unwrap()).collect()
}

/// Runs a reflector whose lists the server refuses with a `Retry-After`. Returns the times between
/// its requests.
async fn delays(code: u16, retry_after: &'static str) -> Vec<f64> {
    let script = (0..8).map(|_| busy(code, retry_after)).chain([listed()]).collect();
    let times = times(&play_pages(2000, script).await);
    assert_eq!(times.len(), 9, "eight refusals, then the list");
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for_and_never_shortened() {
    for code in [429, 500, 502, 503, 504, 599] {
        for delay in delays(code, "40").await {
            assert!((40.0..50.0).contains(&delay), "{code}: {delay}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_maintenance_page_that_names_a_day_is_asked_again_after_a_minute() {
    for delay in delays(503, "86400").await {
        assert!((60.0..75.0).contains(&delay), "{delay}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_that_names_no_delay_leaves_the_backoff_as_it_is() {
    for retry_after in ["0", "1", "-5", "soon", "", "Wed, 21 Oct 2015 07:28:00 GMT", "99999999999999999999"] {
        let delays = delays(503, retry_after).await;
        let longest = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0];
        for (delay, longest) in delays.iter().zip(longest) {
            let shortest: f64 = if retry_after == "1" { 1.0 } else { 0.4 };
            let longest = f64::max(longest, 1.25);
            assert!((shortest.min(longest / 2.0)..=longest).contains(delay), "{retry_after:?}: {delays:?}");
        }
        assert!(delays[7] >= 15.0, "{retry_after:?}: {delays:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_ignored_on_other_refusals() {
    assert!(delays(403, "40").await[0] < 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_waits_for_retry_after_of_its_event_too() {
    let too_many = serde_json::json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "busy",
        "details": {"retryAfterSeconds": 20}});
    let script = vec![
        listed(),
        busy(429, "13"),
        Answer::Watch(vec![line("ERROR", too_many)]),
        Answer::Watch(vec![added("b", 10), WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play_pages(50, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
     13.382 ?watch... resourceVersion=9&timeoutSeconds=588
     35.542 ?watch... resourceVersion=9&timeoutSeconds=334
     35.542         b: - -> 10
    holds a@1 b@10 at 10
    ");
}
