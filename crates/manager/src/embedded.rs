//! The embedded API server of `--embedded`: loaded with a sample cluster or with manifests, listening on loopback, with a
//! kubeconfig for kubectl.

use std::io::Write;
use std::path::{Path, PathBuf};

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::Timestamp;
use kube_endpoint_embedded_apiserver::{
    BuildError, EmbeddedApiServer, ListenError, ListenOptions, Listener, User,
};
use serde_json::Value;

use crate::options::EmbeddedOptions;

/// The sample: the namespace of a shop with its nodes, pods and Services, recorded from a real cluster. Node and pod health
/// is edited: all nodes, and all pods but one, are ready.
pub(crate) const SAMPLE: &str = include_str!("../sample/shop.json");

/// Why the embedded API server did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// A manifest cannot be read.
    #[error("cannot read the manifest {path}: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        why: std::io::Error,
    },
    /// A manifest is neither JSON nor YAML.
    #[error("{path}: line {line}: {why}; correct this line, or choose another file with --embedded-load")]
    Syntax {
        /// The file, or the sample.
        path: PathBuf,
        /// The line of the mistake; the first is 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// A manifest does not hold objects.
    #[error("the manifest {path} is not valid: {why}")]
    Invalid {
        /// The file, or the sample.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// The objects cannot be loaded.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The server refuses an object.
    #[error("{kind} {name:?} is refused: {why}")]
    Refused {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The message of the server's `Status`.
        why: String,
    },
    /// The operating system has no random numbers.
    #[error("cannot make a bearer token: {0}; --embedded-no-auth runs the API server without one")]
    Token(#[from] getrandom::Error),
    /// The server cannot listen on the address.
    #[error("{0}; choose another with --embedded-address, or see --embedded-allow-remote")]
    Listen(#[from] ListenError),
    /// The kubeconfig cannot be written.
    #[error("cannot write the kubeconfig {path}: {why}; choose another place with --embedded-kubeconfig")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        why: std::io::Error,
    },
}

/// A running embedded API server.
pub struct Embedded {
    /// The server.
    pub server: EmbeddedApiServer,
    /// The listening socket.
    pub listener: Listener,
    /// The path of the kubeconfig for it, which [`Embedded::write_kubeconfig`] writes.
    pub kubeconfig: PathBuf,
    /// The number of objects that it was loaded with.
    pub loaded: usize,
}

impl Embedded {
    /// Loads the objects and starts listening.
    ///
    /// # Errors
    ///
    /// When any of these fails. Nothing is left running.
    pub async fn start(options: &EmbeddedOptions, now: Timestamp, seed: u64) -> Result<Self, EmbeddedError> {
        let objects = objects(options)?;
        let loaded = objects.len();
        // An object with a uid was stored by a server and is loaded unchanged. Others are created as a client would.
        let stored = |object: &Value| object["metadata"]["uid"].is_string();
        let (stored, written): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(stored);
        let mut builder = EmbeddedApiServer::builder().seed(seed).start_time(now).load(stored);
        if !options.embedded_no_auth {
            builder = builder.token(new_token()?, administrator()).require_token();
        }
        let server = builder.build()?;
        for object in written {
            let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, name) = (of(&object["kind"]), of(&object["metadata"]["name"]));
            let created = server.create(object).await;
            created.map_err(|status| EmbeddedError::Refused { kind, name, why: status.message })?;
        }
        let listen = ListenOptions { allow_any_address: options.embedded_allow_remote };
        let listener = server.listen_with(options.embedded_address, listen).await?;
        Ok(Self { server, listener, kubeconfig: options.embedded_kubeconfig.clone(), loaded })
    }

    /// Writes the kubeconfig. Until then, no file has been touched.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::Kubeconfig`] if the file cannot be written.
    pub fn write_kubeconfig(&self) -> Result<(), EmbeddedError> {
        write_private(&self.kubeconfig, &self.server.kubeconfig(self.listener.address()))
            .map_err(|why| EmbeddedError::Kubeconfig { path: self.kubeconfig.clone(), why })
    }

    /// A client that calls the server in process, without a socket.
    pub fn client(&self) -> ApiClient {
        ApiClient::for_tests(self.server.service())
    }
}

/// A bearer token of 128 random bits. It does not depend on `--seed`, so that nobody can guess it.
#[expect(clippy::disallowed_methods, reason = "the seed is in the log")]
fn new_token() -> Result<String, getrandom::Error> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn administrator() -> User {
    let groups = ["system:masters", "system:authenticated"].map(str::to_owned).to_vec();
    User { name: "kubernetes-admin".to_owned(), groups }
}

/// Writes a file that only its owner can read, because it contains a token.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        // It may have been there before.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    file.write_all(text.as_bytes())
}

/// The objects to load.
fn objects(options: &EmbeddedOptions) -> Result<Vec<Value>, EmbeddedError> {
    if options.embedded_empty {
        return Ok(Vec::new());
    }
    let mut objects = Vec::new();
    if options.embedded_load.is_empty() {
        read(Path::new("sample"), SAMPLE, &mut objects)?;
    }
    for path in &options.embedded_load {
        let text = std::fs::read_to_string(path)
            .map_err(|why| EmbeddedError::Unreadable { path: path.clone(), why })?;
        read(path, &text, &mut objects)?;
    }
    Ok(objects)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The documents of a manifest. The error has the line of the mistake.
fn documents(text: &str) -> Result<Vec<Value>, (u64, String)> {
    // The parsers name the place at the end of their explanations.
    let explained = |language: &str, line: u64, why: &str| {
        let why = why.rsplit_once(" at line ").map_or(why, |(why, _)| why);
        (line.max(1), format!("this is not {language}: {}", one_line(why)))
    };
    if text.trim_start().starts_with('{') {
        let parsed: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        return parsed.map_err(|error| explained("JSON", error.line() as u64, &error.to_string()));
    }
    serde_saphyr::from_multiple(text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        explained("YAML", line, &error.without_snippet().to_string())
    })
}

/// Splits a manifest into objects. It may be JSON or YAML, hold several documents, and contain `List` objects.
fn read(path: &Path, text: &str, objects: &mut Vec<Value>) -> Result<(), EmbeddedError> {
    let invalid = |why: String| EmbeddedError::Invalid { path: path.to_owned(), why: one_line(&why) };
    let documents =
        documents(text).map_err(|(line, why)| EmbeddedError::Syntax { path: path.to_owned(), line, why })?;
    for document in documents {
        let items = match document {
            Value::Null => continue,
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                match list.remove("items") {
                    Some(Value::Array(items)) => items,
                    _ => return Err(invalid("a List needs items".into())),
                }
            }
            one => vec![one],
        };
        for item in items {
            let has = |field: &str| item[field].as_str().is_some_and(|value| !value.is_empty());
            if !has("kind") || !has("apiVersion") || item["metadata"]["name"].as_str().is_none() {
                let start: String = item.to_string().chars().take(80).collect();
                let why = format!("this object lacks apiVersion, kind or metadata.name: {start}");
                return Err(invalid(why));
            }
            objects.push(item);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds_of(text: &str) -> Result<Vec<String>, String> {
        let mut objects = Vec::new();
        read(Path::new("m.yaml"), text, &mut objects).map_err(|error| error.to_string())?;
        Ok(objects.iter().map(|object| object["kind"].as_str().unwrap_or_default().to_owned()).collect())
    }

    #[test]
    fn json_and_yaml_lists_and_single_objects_are_read() {
        let json = r#"{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}]}"#;
        assert_eq!(kinds_of(json).unwrap(), ["Node"]);
        let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: b\n";
        assert_eq!(kinds_of(yaml).unwrap(), ["Node", "Service"]);
    }

    #[test]
    fn an_invalid_manifest_is_reported_on_one_line() {
        let errors = [
            kinds_of("{\"kind\":\n "),
            kinds_of("kind: Node\nmetadata: {name: [}\n"),
            kinds_of("kind: Node\n\tname: a\n"),
            kinds_of("kind: Node\n---\nkind: [a\n"),
            kinds_of("kind: Node\n"),
            kinds_of("{\"kind\":\"List\",\"apiVersion\":\"v1\"}"),
            kinds_of("just words"),
        ]
        .map(Result::unwrap_err);
        assert!(errors.iter().all(|error| !error.contains('\n')));
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn the_sample_has_inputs_and_no_outputs_of_the_controllers() {
        let mut objects = Vec::new();
        read(Path::new("sample"), SAMPLE, &mut objects).unwrap();
        let count = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
        assert_eq!(
            (count("Node"), count("Service"), count("EndpointSlice"), count("Endpoints")),
            (6, 9, 0, 1)
        );
        assert_eq!(count("Pod"), 19);
    }
}
