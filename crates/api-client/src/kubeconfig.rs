//! The parts of a kubeconfig that kube's [`Config`] leaves out.

use std::io;
use std::path::{Path, PathBuf};

use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{Cluster, Kubeconfig, KubeconfigError};

/// Reads a kubeconfig, or, without a path, those of `KUBECONFIG` or `~/.kube/config`, as kubectl
/// does.
///
/// # Errors
///
/// If a file cannot be read, or is no kubeconfig. If all files are empty, the error of the first
/// has the kind [`io::ErrorKind::UnexpectedEof`].
pub fn read_kubeconfig(path: Option<&Path>) -> Result<Kubeconfig, KubeconfigError> {
    check_kubeconfig_encoding(path)?;
    let paths = paths(path);
    // A pipe can be read only once.
    let is_blank =
        |path: &PathBuf| path.is_file() && std::fs::read(path).is_ok_and(|it| it.trim_ascii().is_empty());
    if paths.iter().all(is_blank)
        && let Some(first) = paths.into_iter().next()
    {
        let why = "the file is empty; write a kubeconfig into it, or choose another with --kubeconfig";
        let error = io::Error::new(io::ErrorKind::UnexpectedEof, why);
        return Err(KubeconfigError::ReadConfig(error, first));
    }
    path.map_or_else(Kubeconfig::read, Kubeconfig::read_from)
}

/// Returns the paths of a kubeconfig, or those of `KUBECONFIG` or `~/.kube/config`.
fn paths(path: Option<&Path>) -> Vec<PathBuf> {
    match (path, std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty())) {
        (Some(path), _) => vec![path.to_owned()],
        (None, Some(paths)) => {
            std::env::split_paths(&paths).filter(|it| !it.as_os_str().is_empty()).collect()
        }
        (None, None) => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
    }
}

/// Finds a file on which [`Kubeconfig::read_from`] panics: one that begins with the byte order mark
/// of UTF-16 and has an odd number of bytes. Call it before kube reads kubeconfigs by itself. It
/// leaves unreadable files to kube.
///
/// # Errors
///
/// If there is such a file. The paths are those of [`read_kubeconfig`].
pub fn check_kubeconfig_encoding(path: Option<&Path>) -> Result<(), KubeconfigError> {
    for path in paths(path) {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        if matches!(bytes.as_slice(), [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]) && bytes.len() % 2 == 1 {
            let why = "it begins as UTF-16 and has an odd number of bytes; save it as UTF-8";
            return Err(KubeconfigError::ReadConfig(io::Error::new(io::ErrorKind::InvalidData, why), path));
        }
    }
    Ok(())
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
    fn utf_16_with_an_odd_number_of_bytes_is_an_error() {
        let check = |bytes: &[u8], want: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            let error = read_kubeconfig(Some(file.path()))
                .err()
                .map(|error| kube_endpoint_core_model::causes(&error));
            assert!(error.clone().unwrap_or_default().contains(want), "{bytes:?}: {error:?}");
        };
        check(&[0xFE, 0xFF, 0x3F], "odd number of bytes");
        check(&[0xFF, 0xFE, 0x3F, 0, 1], "odd number of bytes");
        check(&[0xFF, 0xFE, 0, 0xD8], "UTF-16");
        check(b"\xEF\xBB\xBF{}", "");
    }

    #[test]
    fn an_empty_file_is_named_as_such() {
        let check = |bytes: &[u8], is_empty: bool| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            let error = read_kubeconfig(Some(file.path())).err();
            let told = error.map(|error| kube_endpoint_core_model::causes(&error)).unwrap_or_default();
            assert_eq!(told.contains("the file is empty;"), is_empty, "{bytes:?}: {told}");
            assert!(!is_empty || told.contains(file.path().to_str().unwrap()), "{told}");
        };
        check(b"", true);
        check(b" \r\n", true);
        check(b"{}", false);
        check(b"# a comment", false);
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
