//! Makes the normal form of answers: symbols replace the values that differ between two servers,
//! such as uids and times.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Makes normal forms of the answers of one case. Uids and versions get numbers in the order of
/// their first occurrence, so that the form shows if two answers have the same one.
#[derive(Debug, Default)]
pub struct Normal {
    names: BTreeMap<(&'static str, String), usize>,
}

impl Normal {
    fn name(&mut self, what: &'static str, value: &str) -> String {
        let next = 1 + self.names.keys().filter(|(of, _)| *of == what).count();
        let number = self.names.entry((what, value.to_owned())).or_insert(next);
        format!("<{what} {number}>")
    }

    /// Returns the normal form of a body.
    pub fn body(&mut self, body: Value) -> Value {
        let is_list = body["kind"].as_str().is_some_and(|kind| kind.ends_with("List") || kind == "Table");
        let mut body = self.value("", body);
        if is_list && let Some(version) = body.pointer_mut("/metadata/resourceVersion") {
            // Writes of others change it.
            *version = "<version of the list>".into();
        }
        body
    }

    fn value(&mut self, key: &str, value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.into_iter().filter(|(key, _)| key != "managedFields");
                let fields: Map<String, Value> = fields
                    .map(|(key, value)| {
                        let value = self.value(&key, value);
                        (key, value)
                    })
                    .collect();
                Value::Object(fields)
            }
            Value::Array(items) => items.into_iter().map(|item| self.value(key, item)).collect(),
            Value::String(text) => Value::String(self.text(key, text)),
            Value::Number(number)
                if matches!(key, "nodePort" | "healthCheckNodePort") && number != 0.into() =>
            {
                "<port>".into()
            }
            other => other,
        }
    }

    fn text(&mut self, key: &str, text: String) -> String {
        match key {
            "uid" if text.len() == 36 => self.name("uid", &text),
            "resourceVersion" if text.parse::<u64>().is_ok_and(|version| version > 0) => {
                self.name("version", &text)
            }
            "clusterIP" | "clusterIPs" if text != "None" && !text.is_empty() => self.name("address", &text),
            "continue" => "<continue>".to_owned(),
            _ if text.len() >= 20 && text.parse::<jiff::Timestamp>().is_ok() => "<time>".to_owned(),
            // Go and serde describe broken JSON in words of their own.
            "message" => match text.split_once("json parse error: ") {
                Some((before, _)) => format!("{before}json parse error: <why>"),
                None => self.message(text),
            },
            _ => text,
        }
    }

    /// Replaces the uids and versions seen so far in a message.
    fn message(&self, text: String) -> String {
        self.names.iter().fold(text, |text, ((what, value), number)| match *what {
            "uid" => text.replace(value.as_str(), &format!("<uid {number}>")),
            "version" => text.replace(&format!("({value})"), &format!("(<version {number}>)")),
            _ => text,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_servers_cannot_agree_on_is_replaced() {
        let uid = "6d457661-1111-4222-8333-444455556666";
        let mut normal = Normal::default();
        let object = |version: &str| {
            json!({"kind": "Service", "metadata": {"uid": uid, "resourceVersion": version,
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": []}, "spec": {"clusterIP": "10.96.0.9"}})
        };
        let first = normal.body(object("7"));
        assert_eq!(
            first,
            json!({"kind": "Service", "metadata": {"uid": "<uid 1>", "resourceVersion": "<version 1>",
                "creationTimestamp": "<time>"}, "spec": {"clusterIP": "<address 1>"}})
        );
        assert_eq!(normal.body(object("7")), first);
        assert_eq!(normal.body(object("9"))["metadata"]["resourceVersion"], "<version 2>");
        let status = normal.body(json!({"kind": "Status", "message": format!("UID {uid}")}));
        assert_eq!(status["message"], "UID <uid 1>");
        let list = normal
            .body(json!({"kind": "ServiceList", "metadata": {"resourceVersion": "12", "continue": "x"}}));
        assert_eq!(
            list["metadata"],
            json!({"resourceVersion": "<version of the list>", "continue": "<continue>"})
        );
    }
}
