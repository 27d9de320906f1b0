//! Reads the audit log of a real API server, as a witness.

use serde_json::Value;

use super::witness::Line;

/// Returns the requests in an audit log, in the order of their answers; the answer of a watch comes
/// when it opens. The user is the impersonated one, if there is one. Times are since 1970.
///
/// # Panics
///
/// If a finished line is not an audit event.
pub fn read_audit_log(text: &str) -> Vec<Line> {
    let finished = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let events = finished.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answered = |event: &Value| {
        event["stage"] == if event["verb"] == "watch" { "ResponseStarted" } else { "ResponseComplete" }
    };
    let mut lines: Vec<Line> = events.filter(answered).map(|event| line_of(&event)).collect();
    lines.sort_by_key(|line| line.at);
    lines
}

fn line_of(event: &Value) -> Line {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let micros = |time: &Value| {
        let time: jiff::Timestamp = text(time).parse().unwrap();
        u64::try_from(time.as_microsecond()).unwrap_or_default()
    };
    let user = match &event["impersonatedUser"]["username"] {
        Value::String(impersonated) => impersonated.clone(),
        _ => text(&event["user"]["username"]),
    };
    Line {
        received: micros(&event["requestReceivedTimestamp"]),
        at: micros(&event["stageTimestamp"]),
        user,
        agent: text(&event["userAgent"]),
        verb: text(&event["verb"]),
        resource: text(&event["objectRef"]["resource"]),
        subresource: text(&event["objectRef"]["subresource"]),
        name: text(&event["objectRef"]["name"]),
        status: event["responseStatus"]["code"]
            .as_u64()
            .and_then(|it| it.try_into().ok())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answered_requests_are_read_in_order() {
        let event = |second: u32, stage: &str, impersonated: Option<&str>| {
            json!({
                "stage": stage, "verb": if second > 2 { "watch" } else { "update" }, "user": {"username": "admin"},
                "impersonatedUser": impersonated.map(|name| json!({"username": name})), "userAgent": "x/1.0",
                "objectRef": {"resource": "pods", "name": "a", "subresource": "status"},
                "responseStatus": {"code": 200}, "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
                "stageTimestamp": format!("2026-01-01T00:00:{second:02}.000001Z"),
            })
        };
        let events = [
            event(2, "ResponseComplete", None),
            event(1, "RequestReceived", None),
            event(1, "ResponseComplete", Some("b")),
            event(3, "ResponseStarted", Some("c")),
            event(4, "ResponseComplete", Some("c")),
        ];
        let text: String = events.iter().map(|event| format!("{event}\n")).collect();
        let lines = read_audit_log(&format!("{text}{{\"unfin"));
        let users: Vec<&str> = lines.iter().map(|line| &*line.user).collect();
        assert_eq!(users, ["b", "admin", "c"]);
        assert_eq!(lines[1].at - lines[0].at, 1_000_000);
        assert_eq!((&*lines[0].subresource, lines[0].status), ("status", 200));
    }
}
