//! Query parameters: decodes percent escapes, and reads the options of list, watch and write
//! requests.

use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::{Errors, Path};
use percent_encoding::percent_decode_str;

/// A watch ends after this time at the latest, about a century. No instant overflows when it is
/// added.
const LONGEST_WATCH: Duration = Duration::from_secs(u32::MAX as u64);

/// Decoded parameters in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

/// Decodes percent-encoding, and replaces invalid UTF-8.
pub(crate) fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

impl Query {
    /// Parses the text after the question mark.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            // A plus sign is a space here, but not in a path.
            (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
        });
        Self(pairs.collect())
    }

    /// Returns the first value of a parameter; an empty one counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value).filter(|v| !v.is_empty())
    }

    /// Returns true if a parameter is present, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Returns all values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns a flag as the real server reads it: true if it is present and neither `0` nor
    /// `false`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// Returns a flag, or `None` if it is absent.
    pub(crate) fn optional_flag(&self, name: &str) -> Option<bool> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        Some(!matches!(value.to_ascii_lowercase().as_str(), "0" | "false"))
    }

    /// Parses an integer. Rejects anything else, including an empty text.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.all(name).next() else { return Ok(None) };
        let number = text.parse().map_err(|error| {
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {}", go_words(&error)))
        })?;
        Ok(Some(number))
    }

    /// Checks the options of a create, update or patch. `kind` is theirs, such as `CreateOptions`.
    /// Returns true for a dry run.
    pub(crate) fn write_options(&self, kind: &str) -> Result<bool, Status> {
        let mut errors = Errors::default();
        if kind == "PatchOptions" && self.has("force") {
            errors.forbidden(&Path::Root("force"), "may not be specified for non-apply patch");
        }
        let manager = self.get("fieldManager").unwrap_or_default();
        let at = Path::Root("fieldManager");
        if manager.len() > 128 {
            errors.too_long(&at, 128);
        }
        if let Some((place, control)) = manager.char_indices().find(|(_, c)| c.is_control()) {
            let why = format!("invalid character U+{:04X} (at position {place})", u32::from(control));
            errors.invalid(&at, manager, &why);
        }
        let dry_run: Vec<&str> = self.all("dryRun").collect();
        check_dry_run(&dry_run, &mut errors);
        let validation = self.get("fieldValidation").unwrap_or_default();
        let supported = ["", "Ignore", "Strict", "Warn"];
        if !supported.contains(&validation) {
            errors.not_supported(&Path::Root("fieldValidation"), validation, &supported);
        }
        check_options(kind, errors)?;
        Ok(!dry_run.is_empty())
    }
}

/// Checks the values of `dryRun`. Only `All` is valid.
pub(crate) fn check_dry_run(values: &[&str], errors: &mut Errors) {
    if values.iter().any(|value| *value != "All") {
        errors.not_supported(&Path::Root("dryRun"), values, &["All"]);
    }
}

/// Returns 422 if there are errors of options. `kind` is theirs, such as `ListOptions`.
pub(crate) fn check_options(kind: &str, errors: Errors) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid_object("meta.k8s.io", kind, "", errors)) }
}

/// The resourceVersionMatch of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The state at exactly that version.
    Exact,
    /// That version or a later one.
    NotOlderThan,
}

/// The options of list, watch and deletecollection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListOptions {
    /// Unparsed; empty for everything.
    pub(crate) label_selector: String,
    /// Unparsed; empty for everything.
    pub(crate) field_selector: String,
    /// `None` when absent: the latest state.
    pub(crate) resource_version: Option<u64>,
    /// `None` when absent.
    pub(crate) version_match: Option<Match>,
    /// `None` for no limit.
    pub(crate) limit: Option<usize>,
    /// The continue token of the previous page.
    pub(crate) continue_token: Option<String>,
    /// How long a watch may last.
    pub(crate) timeout: Option<Duration>,
    /// True if bookmarks may be sent.
    pub(crate) bookmarks: bool,
    /// The value of `sendInitialEvents`, if given: true if a watch begins with the current state.
    pub(crate) initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and checks the options of a list or of a watch.
    pub(crate) fn read(query: &Query, watch: bool) -> Result<Self, Status> {
        let version = query.get("resourceVersion");
        let continue_token = query.get("continue").map(str::to_owned);
        let initial_events = query.optional_flag("sendInitialEvents");
        let matching = query.get("resourceVersionMatch");
        let mut errors = Errors::default();
        let at = Path::Root("resourceVersionMatch");
        // Each message comes with true if it applies to the request.
        let forbidden = [
            (
                !watch && matching.is_some() && version.is_none(),
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                (watch || matching.is_some()) && continue_token.is_some(),
                "resourceVersionMatch is forbidden when continue is provided",
            ),
            (
                watch && initial_events.is_some() && matching != Some("NotOlderThan"),
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                watch && matching.is_some() && initial_events.is_none(),
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
        ];
        for (_, why) in forbidden.iter().filter(|(wrong, _)| *wrong) {
            errors.forbidden(&at, why);
        }
        let supported: &[&str] = if watch { &["NotOlderThan"] } else { &["Exact", "NotOlderThan", ""] };
        if let Some(value) = matching.filter(|value| !supported.contains(value)) {
            errors.not_supported(&at, value, supported);
        }
        if !watch && matching == Some("Exact") && version == Some("0") {
            errors.forbidden(&at, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        if !watch && initial_events.is_some() {
            errors.forbidden(&Path::Root("sendInitialEvents"), "sendInitialEvents is forbidden for list");
        }
        check_options("ListOptions", errors)?;
        Ok(Self {
            label_selector: query.get("labelSelector").unwrap_or_default().to_owned(),
            field_selector: query.get("fieldSelector").unwrap_or_default().to_owned(),
            resource_version: version.map(|version| parse_version(version, watch)).transpose()?,
            version_match: match matching {
                Some("Exact") => Some(Match::Exact),
                Some(_) => Some(Match::NotOlderThan),
                None => None,
            },
            limit: query.number("limit")?.filter(|limit| *limit > 0).map(|limit| limit as usize),
            continue_token,
            timeout: query
                .number("timeoutSeconds")?
                .filter(|seconds| *seconds > 0)
                .map(|seconds| Duration::from_secs(seconds.unsigned_abs()).min(LONGEST_WATCH)),
            bookmarks: query.flag("allowWatchBookmarks"),
            initial_events,
        })
    }
}

/// Returns Go's message about a text that is no number.
fn go_words(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// Parses a resource version. The real server reports an invalid one as its own error when it opens
/// a watch.
pub(crate) fn parse_version(text: &str, watch: bool) -> Result<u64, Status> {
    text.parse().map_err(|error| {
        let why = format!("strconv.ParseUint: parsing {text:?}: {}", go_words(&error));
        let message = format!("resourceVersion: Invalid value: {text:?}: {why}");
        match watch {
            true => Status::new(500, "", message),
            false => Status::bad_request(format!("invalid resource version: {message}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&limit=&x=%zz%4");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.flag("watch"));
        assert_eq!(query.get("limit"), None);
        assert_eq!(query.get("x"), Some("%zz%4"));
        assert!(!Query::parse("watch=false").flag("watch"));
        assert!(!Query::parse("").flag("watch"));
    }

    #[track_caller]
    fn refused(query: &str, watch: bool, message: &str) {
        let error = ListOptions::read(&Query::parse(query), watch).unwrap_err();
        assert!(error.message.contains(message), "{}", error.message);
        assert!(matches!(error.code, 422 | 400), "{}", error.code);
    }

    #[test]
    fn contradictory_options_are_refused() {
        refused("resourceVersionMatch=Exact", false, "forbidden unless resourceVersion is provided");
        refused("resourceVersionMatch=Exact&resourceVersion=0", false, "forbidden for resourceVersion \"0\"");
        refused(
            "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
            false,
            "when continue is provided",
        );
        refused("resourceVersionMatch=Older&resourceVersion=1", false, "supported values: \"Exact\"");
        refused("sendInitialEvents=true", false, "forbidden for list");
        refused("sendInitialEvents=true", true, "requires setting resourceVersionMatch");
        refused("resourceVersionMatch=NotOlderThan", true, "unless sendInitialEvents is provided");
        refused("limit=many", false, "invalid syntax");
        refused("limit=9223372036854775808", false, "value out of range");
        refused("resourceVersion=18446744073709551616", false, "value out of range");
        refused("resourceVersion=abc", false, "invalid syntax");
    }

    #[test]
    fn options_are_read() {
        let query = Query::parse(
            "resourceVersion=7&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true\
             &timeoutSeconds=30",
        );
        let options = ListOptions::read(&query, true).unwrap();
        assert_eq!(options.resource_version, Some(7));
        assert_eq!(options.version_match, Some(Match::NotOlderThan));
        assert_eq!(options.initial_events, Some(true));
        assert_eq!(options.timeout, Some(Duration::from_secs(30)));
        assert!(options.bookmarks);
        assert!(Query::parse("dryRun=All").write_options("CreateOptions").unwrap());
        assert!(!Query::parse("fieldManager=x").write_options("CreateOptions").unwrap());
    }

    #[test]
    fn options_of_writes_are_checked() {
        let check = |query: &str, expected: &str| {
            let status = Query::parse(query).write_options("PatchOptions").unwrap_err();
            let message = format!("PatchOptions.meta.k8s.io \"\" is invalid: {expected}");
            assert_eq!((status.code, status.message), (422, message), "{query}");
        };
        check("dryRun=", "dryRun: Unsupported value: [\"\"]: supported values: \"All\"");
        check("dryRun=x&dryRun=All", "dryRun: Unsupported value: [\"x\",\"All\"]: supported values: \"All\"");
        check("force=true", "force: Forbidden: may not be specified for non-apply patch");
        let long = format!("fieldManager={}", "x".repeat(129));
        check(&long, "fieldManager: Too long: may not be more than 128 bytes");
        let control = "fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)";
        check("fieldManager=a%0Ab", control);
        let validation = "fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
        check("fieldValidation=x", validation);
    }
}
