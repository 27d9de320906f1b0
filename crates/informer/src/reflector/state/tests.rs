use kube_endpoint_core_model::Endpoints;

use super::*;

fn api(code: u16, retry_after: Option<u64>) -> ListWatchError {
    let (reason, message) = (String::new(), String::new());
    ListWatchError::Api { code, reason, message, retry_after: retry_after.map(Duration::from_secs) }
}

fn interrupted() -> ListWatchError {
    ListWatchError::Interrupted(String::new())
}

fn invalid() -> ListWatchError {
    ListWatchError::InvalidResponse(String::new())
}

fn expired() -> ListWatchError {
    ListWatchError::Expired(String::new())
}

fn too_large() -> ListWatchError {
    ListWatchError::TooLargeResourceVersion(String::new())
}

fn unreachable() -> ListWatchError {
    ListWatchError::Unreachable(Box::new(kube::Error::TlsRequired))
}

fn idle() -> ListWatchError {
    ListWatchError::IdleTimeout(Duration::from_secs(150))
}

fn went_back() -> ListWatchError {
    ListWatchError::VersionWentBack { server: ResourceVersion(3), position: ResourceVersion(9) }
}

fn checking() -> State<Endpoints> {
    State::Checking { from: ResourceVersion(9) }
}

fn streaming() -> State<Endpoints> {
    State::initial(true, 500)
}

fn listing(token: Option<&str>, limit: u32) -> State<Endpoints> {
    State::Listing(Listing { token: token.map(str::to_owned), ..Listing::new(limit) })
}

/// Returns a watch from version 9 that the server accepted `connected` milliseconds ago, or that it
/// has not accepted yet.
fn watching(connected: Option<u64>, has_events: bool, now: Instant) -> State<Endpoints> {
    let since = |millis| now - Duration::from_millis(millis);
    let connection = connected.map(|millis| Connection { since: since(millis), has_events });
    State::Watching { from: ResourceVersion(9), connection }
}

/// Returns the state in words.
fn summary(state: &State<Endpoints>) -> String {
    match state {
        State::Listing(Listing { token, limit, .. }) => {
            format!("listing, limit {limit}, token {}", token.as_deref().unwrap_or("-"))
        }
        State::Streaming { .. } => "streaming".to_owned(),
        State::Watching { from, connection } => {
            assert_eq!(*connection, None);
            format!("watching from {from}")
        }
        State::Checking { from } => format!("comparing with {from}"),
        State::BackingOff { delay, next, .. } => format!("{delay:?}, then {}", summary(next)),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_worked_is_resumed_and_one_that_ended_at_once_is_a_failure() {
    let now = Instant::now() + Duration::from_secs(3600);
    let check = |connected, has_events, closed, interrupted_then| {
        let state = watching(connected, has_events, now);
        assert_eq!(state.after_end(WatchEnd::Closed, now), closed, "{state:?}");
        assert_eq!(state.after_error(&interrupted(), 0, now), interrupted_then, "{state:?}");
        assert_eq!(state.after_end(WatchEnd::Idle, now), Next::Check, "{state:?}");
        let requested = Next::Relist(RelistReason::Requested);
        assert_eq!(state.after_end(WatchEnd::Relist, now), requested, "{state:?}");
    };
    check(None, false, Next::RetryWithCheck, Next::RetryWithCheck);
    check(Some(999), false, Next::RetryWithCheck, Next::RetryWithCheck);
    check(Some(1000), false, Next::Resume, Next::Check);
    check(Some(0), true, Next::Resume, Next::Check);
}

#[tokio::test(start_paused = true)]
async fn a_failed_watch_is_retried_or_followed_by_a_relist() {
    let now = Instant::now() + Duration::from_secs(3600);
    let relist = Next::Relist;
    let check = |error: ListWatchError, has_events, failures, want| {
        let state = watching(Some(5000), has_events, now);
        assert_eq!(state.after_error(&error, failures, now), want, "{error:?}");
    };
    check(expired(), true, 0, relist(RelistReason::Expired));
    check(went_back(), true, 0, relist(RelistReason::VersionWentBack));
    check(too_large(), true, 0, Next::RetryWithCheck);
    check(too_large(), true, MAX_TOO_LARGE, relist(RelistReason::TooLargeResourceVersion));
    check(invalid(), true, 0, relist(RelistReason::InvalidResponse));
    check(unreachable(), true, 7, Next::RetryWithCheck);
    check(api(500, None), true, 3, Next::RetryWithCheck);
    check(api(500, None), false, 0, Next::RetryWithCheck);
    check(api(500, None), false, 1, relist(RelistReason::RepeatedError));
    check(api(500, Some(3)), false, 1, Next::RetryWithCheck);
    for code in [401, 403, 404, 429] {
        check(api(code, None), true, 1, Next::Retry);
    }
    // The request for the watch failed, before the server accepted it.
    let refused = watching(None, false, now);
    assert_eq!(refused.after_error(&api(500, None), 1, now), Next::RetryWithCheck);
    assert_eq!(refused.after_error(&api(422, None), 0, now), Next::Retry);
    assert_eq!(refused.after_error(&idle(), 0, now), Next::RetryWithCheck);
}

#[tokio::test(start_paused = true)]
async fn a_failed_version_check_is_retried_and_one_that_is_not_allowed_is_skipped() {
    let now = Instant::now();
    let check = |error: ListWatchError, want| {
        assert_eq!(checking().after_error(&error, 9, now), want, "{error:?}");
    };
    for error in [unreachable(), idle(), invalid(), interrupted(), api(500, None), api(429, Some(1))] {
        check(error, Next::Retry);
    }
    for code in [400, 403, 404] {
        check(api(code, None), Next::Resume);
    }
    check(went_back(), Next::Relist(RelistReason::VersionWentBack));
    check(expired(), Next::Relist(RelistReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_failed_streaming_list_falls_back_to_pages_unless_pages_would_fail_too() {
    let now = Instant::now();
    let check = |error: ListWatchError, want| {
        assert_eq!(streaming().after_error(&error, 0, now), want, "{error:?}");
    };
    for code in [400, 404, 405, 415, 422] {
        check(api(code, None), Next::DisableStreaming);
    }
    for code in [401, 403, 429] {
        check(api(code, None), Next::Retry);
    }
    for code in [408, 500, 503] {
        check(api(code, None), Next::ListInPages);
    }
    check(api(503, Some(2)), Next::ListInPages);
    check(unreachable(), Next::Retry);
    check(interrupted(), Next::ListInPages);
    check(invalid(), Next::ListInPages);
    check(idle(), Next::ListInPages);
    check(expired(), Next::Relist(RelistReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_failed_page_is_requested_again() {
    let now = Instant::now();
    for error in [interrupted(), invalid(), idle(), unreachable()] {
        assert_eq!(listing(Some("t"), 2).after_error(&error, 9, now), Next::Retry, "{error:?}");
    }
    for code in [401, 403, 408, 429, 502, 503, 504] {
        assert_eq!(listing(Some("t"), 2).after_error(&api(code, None), 0, now), Next::Retry, "{code}");
    }
    for code in [400, 404, 422, 500, 501, 507] {
        let refused = Next::Relist(RelistReason::ContinueRefused);
        assert_eq!(listing(Some("t"), 2).after_error(&api(code, None), 9, now), refused, "{code}");
        assert_eq!(listing(None, 2).after_error(&api(code, None), 9, now), Next::Retry, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn transitions_keep_what_is_still_valid() {
    let now = Instant::now();
    let check = |state: State<Endpoints>, next, streaming_list, want: &str| {
        assert_eq!(summary(&state.transition(next, streaming_list, 500)), want, "{next:?}");
    };
    let seven = Duration::from_secs(7);
    let connected = || watching(Some(0), true, now);
    for next in [Next::Resume, Next::Retry] {
        check(connected(), next, true, "watching from 9");
    }
    for next in [Next::Check, Next::RetryWithCheck] {
        check(connected(), next, true, "comparing with 9");
    }
    check(checking(), Next::Retry, true, "comparing with 9");
    check(checking(), Next::Resume, true, "watching from 9");
    check(checking(), Next::Relist(RelistReason::VersionWentBack), true, "streaming");
    check(checking(), Next::Relist(RelistReason::VersionWentBack), false, "listing, limit 500, token -");
    check(listing(Some("t"), 2), Next::Retry, true, "listing, limit 2, token t");
    check(streaming(), Next::Retry, true, "streaming");
    let refused = Next::Relist(RelistReason::ContinueRefused);
    check(listing(Some("t"), 2), refused, true, "listing, limit 2, token -");
    check(listing(Some("t"), 2).transition(refused, true, 500), refused, true, "listing, limit 0, token -");
    check(streaming(), Next::DisableStreaming, false, "listing, limit 500, token -");
    check(streaming(), Next::ListInPages, true, "listing, limit 500, token -");
    let (expired, too_large) =
        (Next::Relist(RelistReason::Expired), Next::Relist(RelistReason::TooLargeResourceVersion));
    check(connected(), expired, true, "streaming");
    check(connected(), expired, false, "listing, limit 500, token -");
    check(streaming(), expired, true, "streaming");
    check(listing(None, 500), expired, true, "listing, limit 500, token -");
    check(listing(Some("t"), 500), expired, true, "listing, limit 0, token -");
    check(listing(Some("t"), 500), too_large, true, "listing, limit 500, token -");
    check(listing(None, 0), too_large, true, "listing, limit 0, token -");
    assert_eq!(
        summary(&connected().transition(Next::Retry, true, 1).delayed(seven, Duration::ZERO)),
        "7s, then watching from 9"
    );
    assert_eq!(summary(&streaming().delayed(Duration::ZERO, Duration::ZERO)), "streaming");
}

#[test]
fn a_retried_streaming_list_begins_empty() {
    let mut builder = ListBuilder::default();
    builder.add(Endpoints::default());
    let state = State::Streaming { builder }.transition(Next::Retry, true, 500);
    let State::Streaming { builder } = state else { panic!("{state:?}") };
    assert!(
        matches!(builder.finish(ResourceVersion(1), BTreeSet::new()), crate::StreamEvent::Restarted { items, .. } if items.is_empty())
    );
}
