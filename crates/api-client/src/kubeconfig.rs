//! The parts of a kubeconfig that kube's [`Config`] leaves out.

use std::io;
use std::path::{Path, PathBuf};

use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{Cluster, Kubeconfig, KubeconfigError};
use kube_endpoint_core_model::causes;

/// A kubeconfig that cannot be read. The text is one sentence: the file, the fault, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("kubeconfig {} {fault}; {remedy}name another with --kubeconfig or KUBECONFIG", path.display())]
pub struct UnreadableKubeconfig {
    path: PathBuf,
    fault: String,
    /// The advice before the general one, with ` or ` at its end, or nothing.
    remedy: &'static str,
    kind: io::ErrorKind,
}

impl UnreadableKubeconfig {
    fn new(path: &Path, kind: io::ErrorKind, fault: impl Into<String>, remedy: &'static str) -> Self {
        Self { path: path.to_owned(), fault: fault.into(), remedy, kind }
    }

    fn of(path: &Path, error: KubeconfigError) -> Self {
        match error {
            KubeconfigError::ReadConfig(error, _) => {
                let fault = format!("cannot be read: {error}");
                let remedy = match error.kind() {
                    io::ErrorKind::PermissionDenied => "let this user read it, or ",
                    io::ErrorKind::InvalidData => "save it as UTF-8, or ",
                    _ => "",
                };
                Self::new(path, error.kind(), fault, remedy)
            }
            error => {
                let why = match &error {
                    KubeconfigError::Parse(error) => causes(&**error),
                    error => causes(error),
                };
                // The parser appends an excerpt of the file. The line and column before it suffice.
                let why = why.split_once(" --> ").map_or(&*why, |(why, _)| why).trim_start_matches("error: ");
                let at = if why.starts_with("line ") { " at " } else { ": " };
                let fault = format!("is wrong{at}{why}");
                Self::new(path, io::ErrorKind::InvalidData, fault, "correct it, or ")
            }
        }
    }

    /// Returns true if the file does not exist.
    pub fn is_missing(&self) -> bool {
        self.kind == io::ErrorKind::NotFound
    }

    /// Returns true if the file has no contents.
    pub fn is_empty(&self) -> bool {
        self.kind == io::ErrorKind::UnexpectedEof
    }
}

/// Reads a kubeconfig, or, without a path, those of `KUBECONFIG` or `~/.kube/config`, as kubectl
/// does. Beside one that has contents, `KUBECONFIG` may name files that are missing or empty.
///
/// # Errors
///
/// If a file cannot be read, or is no kubeconfig; of several, the error of the first.
pub fn read_kubeconfig(path: Option<&Path>) -> Result<Kubeconfig, UnreadableKubeconfig> {
    let (mut found, mut absent): (Option<Kubeconfig>, _) = (None, None);
    for path in paths(path) {
        match read_file(&path) {
            Ok(mut read) => {
                // `kubectl config unset current-context` leaves an empty name, which names nothing.
                read.current_context = read.current_context.filter(|name| !name.is_empty());
                let merged = found.unwrap_or_default().merge(read);
                found = Some(merged.map_err(|error| UnreadableKubeconfig::of(&path, error))?);
            }
            Err(error) if error.is_missing() || error.is_empty() => absent = absent.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match (found, absent) {
        (None, Some(error)) => Err(error),
        (found, _) => Ok(found.unwrap_or_default()),
    }
}

/// Returns the paths of a kubeconfig, or those of `KUBECONFIG` or `~/.kube/config`.
fn paths(path: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = path {
        return vec![path.to_owned()];
    }
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let mut paths: Vec<_> = std::env::split_paths(&named).filter(|it| !it.as_os_str().is_empty()).collect();
    if paths.is_empty() {
        paths.push(std::env::home_dir().unwrap_or_else(|| "~".into()).join(".kube").join("config"));
    }
    paths
}

fn read_file(path: &Path) -> Result<Kubeconfig, UnreadableKubeconfig> {
    let wrong = |kind, fault, remedy| Err(UnreadableKubeconfig::new(path, kind, fault, remedy));
    let kind = match std::fs::metadata(path) {
        Ok(kind) => kind,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return wrong(error.kind(), "does not exist", "");
        }
        Err(error) => {
            return Err(UnreadableKubeconfig::of(path, KubeconfigError::ReadConfig(error, path.into())));
        }
    };
    if kind.is_dir() {
        return wrong(io::ErrorKind::IsADirectory, "is a folder", "");
    }
    // A pipe can be read only once.
    if kind.is_file()
        && let Ok(bytes) = std::fs::read(path)
    {
        if bytes.trim_ascii().is_empty() {
            return wrong(io::ErrorKind::UnexpectedEof, "is empty", "write a configuration into it, or ");
        }
        // kube's reader panics there.
        if matches!(bytes.as_slice(), [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]) && bytes.len() % 2 == 1 {
            let fault = "begins as UTF-16 and has an odd number of bytes";
            return wrong(io::ErrorKind::InvalidData, fault, "save it as UTF-8, or ");
        }
    }
    Kubeconfig::read_from(path).map_err(|error| UnreadableKubeconfig::of(path, error))
}

/// Completes a configuration that kube made of the current context of `kubeconfig`:
///
/// - Notes the path of the CA bundle, so that the client reads it again while it runs.
/// - Compares `NO_PROXY` with the address of the API server. It applies to a proxy from
///   `HTTPS_PROXY`, not to one that the kubeconfig names, as in client-go.
pub fn watch_files(config: &mut Config, kubeconfig: &Kubeconfig) {
    let Some(cluster) = current_cluster(kubeconfig) else { return };
    if cluster.certificate_authority_data.is_none() {
        config.root_cert_file = cluster.certificate_authority.as_ref().map(PathBuf::from);
    }
    let named = cluster.proxy_url.as_ref().is_some_and(|proxy| !proxy.is_empty());
    let exceptions = ["NO_PROXY", "no_proxy"].iter().find_map(|name| std::env::var(name).ok());
    if !named && let Some(exceptions) = exceptions {
        without_exceptions(config, &exceptions);
    }
}

fn current_cluster(kubeconfig: &Kubeconfig) -> Option<&Cluster> {
    let context = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == *context)?.context.as_ref()?;
    kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()
}

fn without_exceptions(config: &mut Config, exceptions: &str) {
    if let Some(proxy) = &config.proxy_url {
        let matcher = Matcher::builder().all(proxy.to_string()).no(exceptions).build();
        // The matcher knows `*` for names, but not for addresses.
        let all = exceptions.split(',').any(|exception| exception.trim() == "*");
        if all || matcher.intercept(&config.cluster_url).is_none() {
            config.proxy_url = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_told_in_one_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let told = |name: &str| {
            let error = read_kubeconfig(Some(&folder.path().join(name))).err();
            let told = error.map_or_else(|| "read".to_owned(), |error| causes(&error));
            told.replace(folder.path().to_str().unwrap(), "FOLDER")
        };
        let mut lines = vec![told("missing"), told("")];
        for (name, bytes) in [
            ("zero-bytes", &b""[..]),
            ("blank", b" \r\n"),
            ("odd-utf-16", &[0xFE, 0xFF, 0x3F]),
            ("odd-utf-16-le", &[0xFF, 0xFE, 0x3F, 0, 1]),
            ("half-a-pair-of-utf-16", &[0xFF, 0xFE, 0, 0xD8]),
            ("not-utf-8", &[b'a', 0xFF]),
            ("broken-yaml", b"clusters: ["),
            ("no-kubeconfig", b"clusters: 3"),
            ("two-kinds", b"kind: Config\n---\nkind: Other\n"),
            ("a-comment", b"# nothing"),
            ("marked-as-utf-8", b"\xEF\xBB\xBF{}"),
        ] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
            lines.push(told(name));
        }
        let denied = KubeconfigError::ReadConfig(io::ErrorKind::PermissionDenied.into(), "denied".into());
        lines.push(UnreadableKubeconfig::of(Path::new("denied"), denied).to_string());
        insta::assert_snapshot!(lines.join("\n"), @"
        kubeconfig FOLDER/missing does not exist; name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/ is a folder; name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/zero-bytes is empty; write a configuration into it, or name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/blank is empty; write a configuration into it, or name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/odd-utf-16 begins as UTF-16 and has an odd number of bytes; save it as UTF-8, or name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/odd-utf-16-le begins as UTF-16 and has an odd number of bytes; save it as UTF-8, or name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/half-a-pair-of-utf-16 cannot be read: Invalid UTF-16 LE; save it as UTF-8, or name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/not-utf-8 cannot be read: Invalid UTF-8; save it as UTF-8, or name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/broken-yaml is wrong at line 1 column 11: unclosed bracket '['; correct it, or name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/no-kubeconfig is wrong at line 1 column 11: expected sequence start; correct it, or name another with --kubeconfig or KUBECONFIG
        kubeconfig FOLDER/two-kinds is wrong: kubeconfigs with mismatching kind cannot be merged; correct it, or name another with --kubeconfig or KUBECONFIG
        read
        read
        kubeconfig denied cannot be read: permission denied; let this user read it, or name another with --kubeconfig or KUBECONFIG
        ");
    }

    fn kubeconfig(cluster: &str) -> Kubeconfig {
        Kubeconfig::from_yaml(&format!(
            r#"{{"clusters":[{{"name":"other","cluster":{{"certificate-authority":"/other"}}}},{{"name":"c","cluster":{cluster}}}],
            "current-context":"c","contexts":[{{"name":"c","context":{{"cluster":"c","user":"u"}}}}],"users":[]}}"#
        ))
        .unwrap()
    }

    fn ca_file(cluster: &str) -> Option<PathBuf> {
        let mut config = Config::new("https://10.0.0.1:6443".parse().unwrap());
        watch_files(&mut config, &kubeconfig(cluster));
        config.root_cert_file
    }

    #[test]
    fn the_path_of_the_ca_bundle_is_that_of_the_current_context() {
        assert_eq!(ca_file(r#"{"certificate-authority":"/ca.crt"}"#), Some(PathBuf::from("/ca.crt")));
        assert_eq!(
            ca_file(r#"{"certificate-authority":"/ca.crt","certificate-authority-data":"QQ=="}"#),
            None
        );
        assert_eq!(ca_file("{}"), None);
    }

    #[test]
    fn no_proxy_names_servers_not_proxies() {
        let proxied = |exceptions: &str| {
            let mut config = Config::new("https://10.0.0.1:6443".parse().unwrap());
            config.proxy_url = Some("http://proxy.example.com:3128".parse().unwrap());
            without_exceptions(&mut config, exceptions);
            config.proxy_url.is_some()
        };
        assert!(proxied(""));
        assert!(proxied("proxy.example.com,192.168.0.0/16"));
        assert!(!proxied("10.0.0.0/8"));
        assert!(!proxied("example.com, 10.0.0.1"));
        assert!(!proxied("*"));
    }
}
