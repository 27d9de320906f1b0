//! kubectl's options that choose the server, the user and the namespace, for all commands alike.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, FromArgMatches};
use jiff::SignedDuration;
use kube::Config;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};
use kube_endpoint_api_client::{UnusableKubeconfig, read_kubeconfig};

/// The options, with kubectl's names and meaning. Those that are not given are as the kubeconfig
/// says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Options of kubectl")]
pub(crate) struct ConfigFlags {
    /// Path of the kubeconfig [default: that of kubectl]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Cluster of the kubeconfig [default: that of the context]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// User of the kubeconfig [default: that of the context]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Namespace [default: that of the context]
    #[arg(long, short, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Address of the API server
    #[arg(long, short, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// CA bundle that the server's certificate is verified with
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Do not verify the server's certificate. It receives your credentials
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Name in the server's certificate [default: the host of its address]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// Client certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) client_certificate: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) client_key: Option<PathBuf>,
    /// Bearer token
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// User to impersonate
    #[arg(long = "as", id = "as", global = true, value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long, global = true, value_name = "GROUP")]
    pub(crate) as_group: Vec<String>,
    /// UID to impersonate
    #[arg(long, global = true, value_name = "UID")]
    pub(crate) as_uid: Option<String>,
    /// Extra field of the user to impersonate; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) as_user_extra: Vec<(String, String)>,
    /// Time within which the answer to a request has to begin, such as 5s; 0: no limit [default:
    /// 30s]
    #[arg(long, global = true, value_name = "DURATION", value_parser = timeout)]
    pub(crate) request_timeout: Option<Duration>,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Reads a time as kubectl does: a number alone counts seconds.
fn timeout(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time; write a number with a unit, such as 5s, 2m or 1h");
    let seconds = text.parse::<u64>().ok().map(Duration::from_secs);
    let parsed = || Duration::try_from(text.parse::<SignedDuration>().ok()?).ok();
    seconds.or_else(parsed).ok_or_else(wrong)
}

impl ConfigFlags {
    /// Reads the flags among the words of an incomplete command line, each in the form
    /// `--FLAG=VALUE`. A value that cannot be read leaves out all of them.
    pub(crate) fn of_words(words: &[String]) -> Self {
        let command = Self::augment_args(clap::Command::new("flags").no_binary_name(true));
        let flag = |word: &str| word.strip_prefix("--")?.split('=').next().map(str::to_owned);
        let is_known = |word: &&String| {
            flag(word).is_some_and(|flag| command.get_arguments().any(|arg| arg.get_long() == Some(&flag)))
        };
        let known: Vec<&String> = words.iter().filter(is_known).collect();
        let matches = command.try_get_matches_from(known);
        matches.and_then(|matches| Self::from_arg_matches(&matches)).unwrap_or_default()
    }

    /// Returns true if no flag says where the server is, so that it may be that of a pod.
    pub(crate) fn is_default_place(&self) -> bool {
        self.kubeconfig.is_none() && self.context.is_none() && self.cluster.is_none() && self.server.is_none()
    }

    /// Reads the kubeconfig, that of kubectl if no flag names another, and changes its current
    /// context as the flags say.
    ///
    /// # Errors
    ///
    /// An error if there is no readable kubeconfig, or if a flag names what it does not have.
    pub(crate) fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        self.check()?;
        let needs_none = |error: &UnusableKubeconfig| {
            let is_missing = error.is_missing() && self.kubeconfig.is_none();
            self.server.is_some() && (is_missing || error.is_empty())
        };
        let mut kubeconfig = match read_kubeconfig(self.kubeconfig.as_deref()) {
            Err(error) if needs_none(&error) => Kubeconfig::default(),
            read => read?.contents,
        };
        if self.context.is_some() {
            kubeconfig.current_context.clone_from(&self.context);
        }
        self.change(&mut kubeconfig)?;
        Ok(kubeconfig)
    }

    /// Changes the configuration that a pod has from its service account, as the flags say.
    pub(crate) fn change_in_pod(&self, config: &mut Config) {
        self.change_user(&mut config.auth_info);
        if self.insecure_skip_tls_verify || self.certificate_authority.is_some() {
            config.accept_invalid_certs = self.insecure_skip_tls_verify;
            config.root_cert = None;
            config.root_cert_file.clone_from(&self.certificate_authority);
        }
        if self.tls_server_name.is_some() {
            config.tls_server_name.clone_from(&self.tls_server_name);
        }
    }

    /// Checks that the flags fit together.
    fn check(&self) -> anyhow::Result<()> {
        let needs_user = !self.as_group.is_empty() || self.as_uid.is_some() || !self.as_user_extra.is_empty();
        ensure!(
            self.as_user.is_some() || !needs_user,
            "--as-group, --as-uid and --as-user-extra need a user: --as USER"
        );
        ensure!(
            !(self.insecure_skip_tls_verify && self.certificate_authority.is_some()),
            "--certificate-authority has no effect with --insecure-skip-tls-verify; leave one of them out"
        );
        Ok(())
    }

    fn change(&self, kubeconfig: &mut Kubeconfig) -> anyhow::Result<()> {
        if self.server.is_some() && kubeconfig.current_context.as_deref().unwrap_or_default().is_empty() {
            let context = Some(Context::default());
            kubeconfig.contexts.push(NamedContext { context, ..NamedContext::default() });
            kubeconfig.current_context = Some(String::new());
        }
        let Kubeconfig { contexts, clusters, auth_infos, current_context, .. } = kubeconfig;
        let named = contexts.iter_mut().find(|named| Some(&named.name) == current_context.as_ref());
        // Without a context, the client has an error that says so.
        let Some(context) = named.and_then(|named| named.context.as_mut()) else { return Ok(()) };
        if let Some(cluster) = &self.cluster {
            context.cluster.clone_from(cluster);
        }
        if let Some(user) = &self.user {
            ensure!(auth_infos.iter().any(|named| named.name == *user), "the kubeconfig has no user {user}");
            context.user = Some(user.clone());
        }
        if self.server.is_some() && !clusters.iter().any(|named| named.name == context.cluster) {
            ensure!(self.cluster.is_none(), "the kubeconfig has no cluster {}", context.cluster);
            clusters.push(NamedCluster { name: context.cluster.clone(), ..NamedCluster::default() });
        }
        if let Some(named) = clusters.iter_mut().find(|named| named.name == context.cluster) {
            self.change_cluster(named.cluster.get_or_insert_default());
        }
        let user = context.user.get_or_insert_default();
        if !auth_infos.iter().any(|named| named.name == *user) {
            auth_infos.push(NamedAuthInfo { name: user.clone(), ..NamedAuthInfo::default() });
        }
        if let Some(named) = auth_infos.iter_mut().find(|named| named.name == *user) {
            self.change_user(named.auth_info.get_or_insert_default());
        }
        Ok(())
    }

    fn change_cluster(&self, cluster: &mut Cluster) {
        if let Some(server) = &self.server {
            cluster.server = Some(server.clone());
            // The name in the kubeconfig is that of its server.
            cluster.tls_server_name = None;
        }
        if self.tls_server_name.is_some() {
            cluster.tls_server_name.clone_from(&self.tls_server_name);
        }
        if self.insecure_skip_tls_verify || self.certificate_authority.is_some() {
            cluster.insecure_skip_tls_verify = Some(self.insecure_skip_tls_verify);
            cluster.certificate_authority =
                self.certificate_authority.as_ref().map(|path| path.to_string_lossy().into_owned());
            cluster.certificate_authority_data = None;
        }
    }

    fn change_user(&self, user: &mut AuthInfo) {
        if let Some(token) = &self.token {
            user.token = Some(token.clone().into());
            (user.token_file, user.exec, user.auth_provider) = (None, None, None);
            (user.username, user.password) = (None, None);
        }
        let path = |path: &PathBuf| Some(path.to_string_lossy().into_owned());
        if let Some(certificate) = &self.client_certificate {
            (user.client_certificate, user.client_certificate_data) = (path(certificate), None);
        }
        if let Some(key) = &self.client_key {
            (user.client_key, user.client_key_data) = (path(key), None);
        }
        if self.as_user.is_some() {
            user.impersonate.clone_from(&self.as_user);
            user.impersonate_uid.clone_from(&self.as_uid);
            user.impersonate_groups = Some(self.as_group.clone());
            let mut extra: HashMap<String, Vec<String>> = HashMap::new();
            for (key, value) in &self.as_user_extra {
                extra.entry(key.clone()).or_default().push(value.clone());
            }
            user.impersonate_user_extra = Some(extra);
        }
    }

    /// Returns the flags, but for the namespace, as words for kubectl.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        let mut add = |flag: &str, value: &dyn AsRef<OsStr>| {
            let mut word = OsString::from(format!("--{flag}="));
            word.push(value);
            words.push(word);
        };
        for (flag, path) in [
            ("kubeconfig", &self.kubeconfig),
            ("certificate-authority", &self.certificate_authority),
            ("client-certificate", &self.client_certificate),
            ("client-key", &self.client_key),
        ] {
            path.iter().for_each(|path| add(flag, path));
        }
        for (flag, text) in [
            ("context", &self.context),
            ("cluster", &self.cluster),
            ("user", &self.user),
            ("server", &self.server),
            ("tls-server-name", &self.tls_server_name),
            ("token", &self.token),
            ("as", &self.as_user),
            ("as-uid", &self.as_uid),
        ] {
            text.iter().for_each(|text| add(flag, text));
        }
        self.as_group.iter().for_each(|group| add("as-group", group));
        self.as_user_extra.iter().for_each(|(key, value)| add("as-user-extra", &format!("{key}={value}")));
        if self.insecure_skip_tls_verify {
            words.push("--insecure-skip-tls-verify".into());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> ConfigFlags {
        ConfigFlags::of_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn times_are_read_as_kubectl_does() {
        for (text, want) in [
            ("0", Some(Duration::ZERO)),
            ("0s", Some(Duration::ZERO)),
            ("5", Some(Duration::from_secs(5))),
            ("300ms", Some(Duration::from_millis(300))),
            ("1m30s", Some(Duration::from_secs(90))),
            ("1.5h", Some(Duration::from_secs(5400))),
            ("-1s", None),
            ("", None),
            ("m", None),
        ] {
            assert_eq!(timeout(text).ok(), want, "{text:?}");
        }
    }

    #[test]
    fn files_and_tokens_of_flags_replace_what_the_kubeconfig_has() {
        let mut kubeconfig = Kubeconfig::from_yaml(
            "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], \
             clusters: [{name: c, cluster: {server: 'https://a', tls-server-name: a, certificate-authority-data: QQ==, \
             insecure-skip-tls-verify: true}}], \
             users: [{name: u, user: {client-certificate-data: QQ==, client-key-data: QQ==, tokenFile: /t, exec: {command: c}}}]}",
        )
        .unwrap();
        let words = [
            "--server=https://b",
            "--certificate-authority=/ca",
            "--client-certificate=/cert",
            "--client-key=/key",
            "--token=t",
        ];
        flags(&words).change(&mut kubeconfig).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(
            serde_json::to_value(cluster).unwrap(),
            serde_json::json!({"server": "https://b", "certificate-authority": "/ca", "insecure-skip-tls-verify": false})
        );
        let user = kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(
            serde_json::to_value(user).unwrap(),
            serde_json::json!({"client-certificate": "/cert", "client-key": "/key", "token": "t"})
        );
    }

    #[test]
    fn flags_change_the_configuration_of_a_pod() {
        let mut config = Config::new("https://10.96.0.1".parse().unwrap());
        (config.root_cert, config.root_cert_file) = (Some(vec![vec![1]]), Some("/of-pod".into()));
        config.auth_info.token_file = Some("/token".to_owned());
        flags(&["--as=jane", "--as-group=ops", "--tls-server-name=a"]).change_in_pod(&mut config);
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("jane"));
        assert_eq!(config.auth_info.impersonate_groups, Some(vec!["ops".to_owned()]));
        assert_eq!(config.auth_info.token_file.as_deref(), Some("/token"));
        assert_eq!((config.tls_server_name.as_deref(), config.accept_invalid_certs), (Some("a"), false));
        assert_eq!(config.root_cert_file, Some("/of-pod".into()));
        flags(&["--certificate-authority=/ca"]).change_in_pod(&mut config);
        assert_eq!((&config.root_cert, &config.root_cert_file), (&None, &Some("/ca".into())));
        flags(&["--insecure-skip-tls-verify", "--token=t"]).change_in_pod(&mut config);
        assert_eq!((config.accept_invalid_certs, &config.root_cert_file), (true, &None));
        assert!(config.auth_info.token.is_some() && config.auth_info.token_file.is_none());
    }

    /// `ui` hands them to `kubectl port-forward`.
    #[test]
    fn all_flags_but_the_namespace_are_words_for_kubectl() {
        let words = [
            "--kubeconfig=k",
            "--certificate-authority=ca",
            "--client-certificate=cc",
            "--client-key=ck",
            "--context=c",
            "--cluster=cl",
            "--user=u",
            "--server=s",
            "--tls-server-name=n",
            "--token=t",
            "--as=a",
            "--as-uid=1",
            "--as-group=g",
            "--as-group=h",
            "--as-user-extra=e=f",
            "--insecure-skip-tls-verify",
        ];
        assert_eq!(flags(&words).words(), words.map(OsString::from));
        let with_more = [&words[..], &["--namespace=x", "--request-timeout=1s"]].concat();
        assert_eq!(flags(&with_more).words(), words.map(OsString::from));
    }
}
