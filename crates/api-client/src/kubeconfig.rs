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
/// If a file cannot be read, or is no kubeconfig.
pub fn read_kubeconfig(path: Option<&Path>) -> Result<Kubeconfig, KubeconfigError> {
    check_kubeconfig_encoding(path)?;
    path.map_or_else(Kubeconfig::read, Kubeconfig::read_from)
}

/// Finds a file on which [`Kubeconfig::read_from`] panics: one that begins with the byte order mark
/// of UTF-16 and has an odd number of bytes. Call it before kube reads kubeconfigs by itself. It
/// leaves unreadable files to kube.
///
/// # Errors
///
/// If there is such a file. The paths are those of [`read_kubeconfig`].
pub fn check_kubeconfig_encoding(path: Option<&Path>) -> Result<(), KubeconfigError> {
    let paths = match (path, std::env::var_os("KUBECONFIG")) {
        (Some(path), _) => vec![path.to_owned()],
        (None, Some(paths)) => std::env::split_paths(&paths).collect(),
        (None, None) => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
    };
    for path in paths {
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
