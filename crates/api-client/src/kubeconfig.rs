//! Reads kubeconfigs, and the parts of them that kube's [`Config`] leaves out.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_endpoint_core_model::causes;

/// A kubeconfig that cannot be used. The text is one sentence: the file, the fault, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("kubeconfig {} {}; {}name another{}", path.display(), fault.text, fault.remedy, named_by.places())]
pub struct UnusableKubeconfig {
    path: PathBuf,
    named_by: NamedBy,
    fault: Fault,
}

/// Who names a kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedBy {
    Caller,
    Variable,
    Nobody,
}

#[derive(Debug)]
struct Fault {
    kind: io::ErrorKind,
    text: String,
    /// The advice before the general one, with ` or ` at its end, or nothing.
    remedy: &'static str,
}

impl NamedBy {
    /// Returns where another file can be named. A flag goes before `KUBECONFIG`, and only the
    /// caller knows which flag it was.
    fn places(self) -> &'static str {
        if self == Self::Caller { "" } else { " with --kubeconfig or KUBECONFIG" }
    }
}

impl Fault {
    fn new(kind: io::ErrorKind, text: impl Into<String>, remedy: &'static str) -> Self {
        Self { kind, text: text.into(), remedy }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => return Self::new(error.kind(), "does not exist", ""),
            io::ErrorKind::PermissionDenied => "let this user read it, or ",
            io::ErrorKind::InvalidData => "save it as UTF-8, or ",
            _ => "",
        };
        Self::new(error.kind(), format!("cannot be read: {error}"), remedy)
    }
}

impl From<KubeconfigError> for Fault {
    fn from(error: KubeconfigError) -> Self {
        let why = match error {
            KubeconfigError::ReadConfig(error, _) => return error.into(),
            KubeconfigError::Parse(error) => causes(&*error),
            error => causes(&error),
        };
        // The parser appends an excerpt of the file. The line and column before it suffice.
        let why = why.split_once(" --> ").map_or(&*why, |(why, _)| why).trim_start_matches("error: ");
        let at = if why.starts_with("line ") { " at " } else { ": " };
        Self::new(io::ErrorKind::InvalidData, format!("is wrong{at}{why}"), "correct it, or ")
    }
}

impl UnusableKubeconfig {
    /// Returns true if the file does not exist.
    pub fn is_missing(&self) -> bool {
        self.fault.kind == io::ErrorKind::NotFound
    }

    /// Returns true if the file has no contents.
    pub fn is_empty(&self) -> bool {
        self.fault.kind == io::ErrorKind::UnexpectedEof
    }

    /// Returns true if neither the caller nor `KUBECONFIG` names the file.
    pub fn is_unnamed(&self) -> bool {
        self.named_by == NamedBy::Nobody
    }
}

/// A kubeconfig, and where it was found.
#[derive(Clone, Debug)]
pub struct FoundKubeconfig {
    /// The contents of the file, or of several, merged.
    pub contents: Kubeconfig,
    path: PathBuf,
    named_by: NamedBy,
}

impl FoundKubeconfig {
    /// Makes the configuration of the current context, as [`watch_files`] completes it.
    ///
    /// # Errors
    ///
    /// If the context, or what it names, cannot be used.
    pub async fn config(self) -> Result<Config, UnusableKubeconfig> {
        let Self { contents, path, named_by } = self;
        let made = Config::from_custom_kubeconfig(contents.clone(), &KubeConfigOptions::default()).await;
        let mut config = made.map_err(|error| UnusableKubeconfig { path, named_by, fault: error.into() })?;
        watch_files(&mut config, &contents);
        Ok(config)
    }
}

/// Reads a kubeconfig, or, without a path, those of `KUBECONFIG` or `~/.kube/config`, as kubectl
/// does. Beside one that has contents, `KUBECONFIG` may name files that are missing or empty.
///
/// # Errors
///
/// If a file cannot be read, or is no kubeconfig; of several, the error of the first.
pub fn read_kubeconfig(path: Option<&Path>) -> Result<FoundKubeconfig, UnusableKubeconfig> {
    let (named_by, whole) = named(path);
    let paths: Vec<PathBuf> = match named_by {
        NamedBy::Variable => std::env::split_paths(&whole).filter(|it| !it.as_os_str().is_empty()).collect(),
        NamedBy::Caller | NamedBy::Nobody => vec![whole.clone()],
    };
    let (mut found, mut absent): (Option<Kubeconfig>, _) = (None, None);
    for path in paths {
        let unusable = |fault: Fault| UnusableKubeconfig { path: path.clone(), named_by, fault };
        match read_file(&path).map_err(unusable) {
            Ok(read) => {
                let merged = found.unwrap_or_default().merge(read);
                found = Some(merged.map_err(|error| unusable(error.into()))?);
            }
            Err(error) if error.is_missing() || error.is_empty() => absent = absent.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match (found, absent) {
        (None, Some(error)) => Err(error),
        (found, _) => Ok(FoundKubeconfig { contents: found.unwrap_or_default(), path: whole, named_by }),
    }
}

/// Returns the path of a kubeconfig, the paths in `KUBECONFIG`, or `~/.kube/config`.
fn named(path: Option<&Path>) -> (NamedBy, PathBuf) {
    if let Some(path) = path {
        return (NamedBy::Caller, path.to_owned());
    }
    let variable = std::env::var_os("KUBECONFIG").unwrap_or_default();
    if std::env::split_paths(&variable).any(|it| !it.as_os_str().is_empty()) {
        return (NamedBy::Variable, variable.into());
    }
    (NamedBy::Nobody, below(&home().unwrap_or_else(|| "~".into())))
}

/// Returns the path of the kubeconfig in a user's folder.
fn below(home: &Path) -> PathBuf {
    home.join(".kube").join("config")
}

/// Returns the user's folder. On Windows that is, as for kubectl, the first with a kubeconfig of
/// those that `HOME`, `HOMEDRIVE` and the profile name, or else the profile.
fn home() -> Option<PathBuf> {
    let profile = std::env::home_dir();
    let of = |name: &str| std::env::var_os(name).unwrap_or_default();
    let mut drive = of("HOMEDRIVE");
    drive.push(of("HOMEPATH"));
    let before = [of("HOME"), drive].into_iter().filter(|_| cfg!(windows)).map(PathBuf::from);
    before.chain(profile.clone()).find(|home| home.is_absolute() && below(home).exists()).or(profile)
}

fn read_file(path: &Path) -> Result<Kubeconfig, Fault> {
    let file = std::fs::metadata(path)?;
    if file.is_dir() {
        return Err(Fault::new(io::ErrorKind::IsADirectory, "is a folder", ""));
    }
    // kube's reader panics there.
    if is_odd_utf16(path, &file) {
        let text = "begins as UTF-16 and has an odd number of bytes";
        return Err(Fault::new(io::ErrorKind::InvalidData, text, "save it as UTF-8, or "));
    }
    let mut read = Kubeconfig::read_from(path)?;
    // `kubectl config unset current-context` leaves an empty name, which names nothing.
    read.current_context = read.current_context.filter(|name| !name.is_empty());
    let Kubeconfig { clusters, auth_infos, contexts, current_context, .. } = &read;
    if clusters.is_empty() && auth_infos.is_empty() && contexts.is_empty() && current_context.is_none() {
        let remedy = "write a configuration into it, or ";
        return Err(Fault::new(io::ErrorKind::UnexpectedEof, "is empty", remedy));
    }
    Ok(read)
}

/// Returns true if a file's text cannot be UTF-16, as its first bytes say. A pipe can be read only
/// once, so that this does not look into it.
fn is_odd_utf16(path: &Path, file: &Metadata) -> bool {
    let mut mark = [0; 2];
    file.is_file()
        && file.len() % 2 == 1
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut mark).is_ok())
        && matches!(mark, [0xFF, 0xFE] | [0xFE, 0xFF])
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
            ("marked-as-utf-8", b"\xEF\xBB\xBFcurrent-context: c"),
            ("odd-utf-8", b"current-context: odd"),
        ] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
            lines.push(told(name));
        }
        let fault = io::Error::from(io::ErrorKind::PermissionDenied).into();
        let denied = UnusableKubeconfig { path: "denied".into(), named_by: NamedBy::Variable, fault };
        lines.push(denied.to_string());
        insta::assert_snapshot!(lines.join("\n"), @"
        kubeconfig FOLDER/missing does not exist; name another
        kubeconfig FOLDER/ is a folder; name another
        kubeconfig FOLDER/zero-bytes is empty; write a configuration into it, or name another
        kubeconfig FOLDER/blank is empty; write a configuration into it, or name another
        kubeconfig FOLDER/odd-utf-16 begins as UTF-16 and has an odd number of bytes; save it as UTF-8, or name another
        kubeconfig FOLDER/odd-utf-16-le begins as UTF-16 and has an odd number of bytes; save it as UTF-8, or name another
        kubeconfig FOLDER/half-a-pair-of-utf-16 cannot be read: Invalid UTF-16 LE; save it as UTF-8, or name another
        kubeconfig FOLDER/not-utf-8 cannot be read: Invalid UTF-8; save it as UTF-8, or name another
        kubeconfig FOLDER/broken-yaml is wrong at line 1 column 11: unclosed bracket '['; correct it, or name another
        kubeconfig FOLDER/no-kubeconfig is wrong at line 1 column 11: expected sequence start; correct it, or name another
        kubeconfig FOLDER/two-kinds is wrong: kubeconfigs with mismatching kind cannot be merged; correct it, or name another
        kubeconfig FOLDER/a-comment is empty; write a configuration into it, or name another
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
