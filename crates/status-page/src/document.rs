//! The document of the page, and the policy with which a browser runs nothing else.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use http::{HeaderName, HeaderValue};
use kube_endpoint_explain::Code;
use kube_endpoint_serving::{PageAnswer, page};

/// The document, with one `<style>` and one `<script>` element.
const HTML: &str = include_str!("page.html");

/// The place in the document for the addresses of the codes' descriptions.
const CODES: &str = "/* addresses of codes */";

/// The document and its headers. It contains no data of a cluster.
pub(crate) struct Document {
    html: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Document {
    /// Computes the hashes of the script and the style that the policy allows.
    pub(crate) fn new() -> Self {
        let html = with_codes(HTML);
        let policy = policy(&html);
        let mut headers = vec![(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))];
        // The policy consists of letters, digits and punctuation.
        headers.extend(HeaderValue::from_str(&policy).ok().map(|value| (CONTENT_SECURITY_POLICY, value)));
        Self { html, headers }
    }

    /// Returns the answer to a request for the page.
    pub(crate) fn answer(&self) -> PageAnswer {
        let mut answer = page("text/html; charset=utf-8", self.html.clone());
        answer.headers_mut().extend(self.headers.iter().cloned());
        answer
    }
}

/// Returns a document with the addresses of the codes' descriptions.
fn with_codes(html: &str) -> String {
    let address = |code: &Code| format!("{}: '{}'", code.id(), code.address());
    html.replace(CODES, &Code::ALL.iter().map(address).collect::<Vec<_>>().join(", "))
}

/// Returns the Content-Security-Policy of a document, which allows only its own script and style,
/// and requests to its own server.
fn policy(html: &str) -> String {
    format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hashes(html, "script"),
        hashes(html, "style"),
    )
}

/// Returns the sources of the elements with this name, or `'none'` if there are no such elements.
fn hashes(html: &str, element: &str) -> String {
    let sources: Vec<String> = contents(html, element)
        .map(|content| {
            let hash = ring::digest::digest(&ring::digest::SHA256, content.as_bytes());
            format!("'sha256-{}'", BASE64_STANDARD.encode(hash))
        })
        .collect();
    if sources.is_empty() { "'none'".to_owned() } else { sources.join(" ") }
}

/// Returns the texts in the elements with this name. The elements have no attributes.
fn contents<'h>(html: &'h str, element: &str) -> impl Iterator<Item = &'h str> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let mut rest = html;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&open)?;
        let (content, after) = after.split_once(&close)?;
        rest = after;
        Some(content)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_allows_the_documents_own_script_and_style() {
        // The hash of the empty text is known.
        let empty = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
        let check = |html: &str, script: &str, style: &str| {
            let policy = policy(html);
            let of = |name: &str| {
                let sources = policy.split("; ").find_map(|part| part.strip_prefix(name));
                sources.map(|sources| sources.trim_start().to_owned())
            };
            assert_eq!(of("script-src").as_deref(), Some(script), "{html}");
            assert_eq!(of("style-src").as_deref(), Some(style), "{html}");
            assert_eq!(of("default-src").as_deref(), Some("'none'"));
        };
        check("<script></script><style></style>", empty, empty);
        check("<p>", "'none'", "'none'");
        check("<style>a</style>", "'none'", "'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='");
        check("<script></script><script></script>", &format!("{empty} {empty}"), "'none'");
    }

    #[test]
    fn each_code_has_an_address() {
        assert_eq!(HTML.matches(CODES).count(), 1);
        let html = with_codes(HTML);
        assert!(html.contains("verdicts.md#ep012-port-name-not-found'"), "{html}");
        assert_eq!(html.matches("docs/verdicts.md#ep").count(), Code::ALL.len());
    }

    /// Returns the ranges of the script's character class.
    fn hidden_in_the_script() -> Vec<(u32, u32)> {
        let class = HTML.split_once("const HIDDEN = /[").unwrap().1.split_once("]/gu;").unwrap().0;
        let ranges = class.split("\\u").skip(1).collect::<Vec<_>>();
        let number = |text: &str| {
            let digits = text.trim_end_matches('-').trim_start_matches('{').trim_end_matches('}');
            u32::from_str_radix(digits, 16).unwrap()
        };
        let mut all = Vec::new();
        let mut continues = false;
        for text in ranges {
            match all.last_mut() {
                Some((_, end)) if continues => *end = number(text),
                _ => all.push((number(text), number(text))),
            }
            continues = text.ends_with('-');
        }
        all
    }

    #[test]
    fn the_script_escapes_what_the_texts_of_the_manager_escape() {
        let hidden = hidden_in_the_script();
        for c in (char::MIN..=char::MAX).filter(|c| !matches!(c, '\n' | '\t')) {
            let escaped = hidden.iter().any(|(from, to)| (*from..=*to).contains(&u32::from(c)));
            assert_eq!(escaped, !kube_endpoint_core_model::is_harmless(c), "{c:?}");
        }
        // The script passes all text through one function.
        let texts = [".innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "createTextNode"];
        assert!(texts.iter().all(|text| !HTML.contains(text)));
    }

    #[test]
    fn the_document_has_one_script_and_one_style_and_nothing_from_outside() {
        for element in ["script", "style"] {
            assert_eq!(contents(HTML, element).count(), 1, "{element}");
            assert_eq!(HTML.matches(&format!("<{element}")).count(), 1, "an attribute of {element}");
        }
        for outside in [" src=\"http", " href=\"http", "@import", "url(http", " style=\"", " onclick="] {
            assert!(!HTML.contains(outside), "{outside}");
        }
    }
}
