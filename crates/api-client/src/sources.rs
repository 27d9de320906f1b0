//! The places that certificates and credentials come from, and the content that the client read
//! there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderValue, Uri};
use kube::Config;
use kube::config::ExecConfig;
use kube_endpoint_core_model::causes;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::certificates::{CertificateLifetime, CertificatePlace, in_pem, unusable_version};
use crate::connector::{Pool, pool};
use crate::error::ClientError;
use crate::plugin::{self, PluginCredential, Validity};
use crate::timeouts::Timeouts;

const CA: &str = "CA bundle";
const CERTIFICATE: &str = "client certificate";
const KEY: &str = "client key";
const TOKEN: &str = "bearer token";

/// The configuration without the parts that the client reads again while it runs, and the places to
/// read these from.
pub(crate) struct Sources {
    config: Config,
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    token: Option<PathBuf>,
    plugin: Option<ExecConfig>,
    limits: Timeouts,
}

/// The connections and credentials for requests. A session never changes; when the client has read
/// something new, another session takes its place.
pub(crate) struct Session {
    /// The header with the token from a file or a plugin, if there is one.
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) pool: Pool,
    tls: TlsMaterial,
    token: Option<Vec<u8>>,
    plugin: Option<Arc<PluginCredential>>,
}

/// A place with a certificate or a bundle, and when it is valid.
pub(crate) type Found = (CertificatePlace, Result<CertificateLifetime, String>);

/// The content of the files that a pool was made with.
#[derive(Clone, PartialEq, Eq)]
struct TlsMaterial {
    ca: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl Session {
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.plugin.as_ref()?.validity
    }
}

impl Sources {
    /// Splits a configuration. Where it names several credentials, kube's order decides:
    /// auth-provider, user and password, token, token file, plugin. Client certificates come on top
    /// of any of them.
    pub(crate) fn new(mut config: Config, limits: Timeouts) -> Self {
        let user = &mut config.auth_info;
        let (token, plugin) = (user.token_file.take(), user.exec.take());
        let fixed = user.auth_provider.is_some()
            || user.token.is_some()
            || (user.username.is_some() && user.password.is_some());
        let token = token.filter(|_| !fixed).map(PathBuf::from);
        let plugin = plugin.filter(|_| !fixed && token.is_none());
        // Data in the configuration comes before a file of the same name.
        let certificate = user.client_certificate.as_ref().filter(|_| user.client_certificate_data.is_none());
        let key = user.client_key.as_ref().filter(|_| user.client_key_data.is_none());
        let (certificate, key) = (certificate.map(PathBuf::from), key.map(PathBuf::from));
        let ca = config.root_cert_file.take().filter(|_| !config.accept_invalid_certs);
        Self { config, ca, certificate, key, token, plugin, limits }
    }

    /// Returns the configuration of the parts that do not change: address, headers, static
    /// credentials.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn limits(&self) -> &Timeouts {
        &self.limits
    }

    /// Reads everything again and makes a session of it, or returns `previous` if nothing has
    /// changed.
    ///
    /// If a file is unreadable or holds nothing usable, the client keeps the content that it read
    /// before, and logs a warning: others replace files while the client runs, and not always
    /// atomically. The plugin runs if `ask_plugin` is true, or if it has given no credential yet.
    ///
    /// # Errors
    /// Without a `previous` session, if anything is missing or wrong. With one, if the plugin
    /// fails.
    pub(crate) async fn load(
        &self,
        previous: Option<&Arc<Session>>,
        ask_plugin: bool,
    ) -> Result<Arc<Session>, ClientError> {
        let before = previous.map(|session| &session.tls);
        let tls = TlsMaterial {
            ca: read(CA, &self.ca, before.and_then(|tls| tls.ca.as_ref())).await?,
            certificate: read(
                CERTIFICATE,
                &self.certificate,
                before.and_then(|tls| tls.certificate.as_ref()),
            )
            .await?,
            key: read(KEY, &self.key, before.and_then(|tls| tls.key.as_ref())).await?,
        };
        let mut token = read(TOKEN, &self.token, previous.and_then(|session| session.token.as_ref())).await?;
        let plugin = match (&self.plugin, previous.and_then(|session| session.plugin.as_ref())) {
            (Some(_), Some(credential)) if !ask_plugin => Some(Arc::clone(credential)),
            (Some(exec), _) => Some(Arc::new(plugin::run(exec, &self.limits).await?)),
            (None, _) => None,
        };
        if let Some(session) = previous
            && session.tls == tls
            && session.token == token
            && session.plugin == plugin
        {
            return Ok(Arc::clone(session));
        }
        let authorization = match (self.authorization(token.as_deref(), plugin.as_deref()), previous) {
            (Ok(authorization), _) => authorization,
            (Err(error), Some(session)) => {
                tracing::warn!(%error, "the bearer token was replaced by something else; the one before stays in use");
                token.clone_from(&session.token);
                session.authorization.clone()
            }
            (Err(error), None) => return Err(error),
        };
        let (pool, tls) = match previous {
            Some(session) => self.next_pool(session, tls, plugin.as_deref())?,
            None => (self.pool(&tls, plugin.as_deref())?, tls),
        };
        Ok(Arc::new(Session { authorization, pool, tls, token, plugin }))
    }

    /// Returns the client certificate of a session.
    pub(crate) fn client_certificate(&self, session: &Session) -> Option<Found> {
        let user = &self.config.auth_info;
        let plugin = || {
            let (certificate, _) = session.plugin.as_ref()?.identity.as_ref()?;
            let command = self.plugin.as_ref()?.command.clone().unwrap_or_default();
            Some((CertificatePlace::Plugin(command), certificate.clone().into_bytes()))
        };
        let file =
            || Some((CertificatePlace::File(self.certificate.clone()?), session.tls.certificate.clone()?));
        let data = || {
            let text = BASE64.decode(user.client_certificate_data.as_ref()?).unwrap_or_default();
            Some((CertificatePlace::Kubeconfig("client-certificate-data"), text))
        };
        let (place, text) = plugin().or_else(file).or_else(data).filter(|_| self.has_tls())?;
        Some((place, CertificateLifetime::of_chain(&in_pem(&text))))
    }

    /// Returns the CAs with which a session verifies the server, or `None` if they are the
    /// system's.
    pub(crate) fn ca(&self, session: &Session) -> Option<Found> {
        let file = || {
            Some((
                CertificatePlace::File(self.ca.clone()?),
                CertificateLifetime::of_bundle(&in_pem(session.tls.ca.as_ref()?)),
            ))
        };
        let data = || {
            let bundle = self.config.root_cert.as_ref()?;
            Some((
                CertificatePlace::Kubeconfig("certificate-authority-data"),
                CertificateLifetime::of_bundle(bundle),
            ))
        };
        file().or_else(data).filter(|_| self.has_tls() && !self.config.accept_invalid_certs)
    }

    fn has_tls(&self) -> bool {
        self.config.cluster_url.scheme_str() == Some("https")
    }

    /// Returns the pool after `session`, and the files that it was made with: the same pool if the
    /// certificates are the same.
    fn next_pool(
        &self,
        session: &Session,
        tls: TlsMaterial,
        plugin: Option<&PluginCredential>,
    ) -> Result<(Pool, TlsMaterial), ClientError> {
        let identity =
            |credential: Option<&PluginCredential>| credential.and_then(|plugin| plugin.identity.clone());
        let same_identity = identity(session.plugin.as_deref()) == identity(plugin);
        if session.tls == tls && same_identity {
            return Ok((session.pool.clone(), tls));
        }
        let error = match self.pool(&tls, plugin) {
            Ok(pool) => {
                tracing::info!(
                    "the certificates for the API server have changed; new requests use the new ones"
                );
                return Ok((pool, tls));
            }
            Err(error) if session.tls == tls => return Err(error),
            Err(error) => error,
        };
        // The client may have read certificate and key between two writes. The session keeps the
        // old files, so that the next look finds a difference again.
        tracing::warn!(%error, "the certificates were replaced, but not by usable ones; the ones before stay in use");
        let pool = if same_identity { session.pool.clone() } else { self.pool(&session.tls, plugin)? };
        Ok((pool, session.tls.clone()))
    }

    fn authorization(
        &self,
        token: Option<&[u8]>,
        plugin: Option<&PluginCredential>,
    ) -> Result<Option<HeaderValue>, ClientError> {
        let wrong = |why: &str| ClientError::Content {
            what: TOKEN,
            path: self.token.clone().unwrap_or_default(),
            why: why.to_owned(),
        };
        let token = match (token, plugin.and_then(|credential| credential.token.as_deref())) {
            // Editors and templates leave a newline at the end of a file.
            (Some(token), _) => token.trim_ascii(),
            (None, Some(token)) => token.as_bytes(),
            (None, None) => return Ok(None),
        };
        if token.is_empty() {
            return Err(wrong("is empty; write the token into it"));
        }
        let mut header = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
            .map_err(|_| wrong("has characters that no token has; it must hold one line"))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }

    fn pool(&self, tls: &TlsMaterial, plugin: Option<&PluginCredential>) -> Result<Pool, ClientError> {
        let mut config = self.config.clone();
        if let Some(bundle) = &tls.ca {
            config.root_cert = Some(self.certificates(bundle)?);
        }
        let is_http = |url: &Uri| url.scheme_str() == Some("http");
        let has_no_tls = is_http(&config.cluster_url) && config.proxy_url.as_ref().is_none_or(is_http);
        if config.accept_invalid_certs || has_no_tls {
            // Otherwise kube reads the system's certificates. They may not exist, and they verify
            // nothing here.
            config.root_cert.get_or_insert_default();
        }
        let user = &mut config.auth_info;
        // kube takes data in base64, as it stands in a kubeconfig.
        if let Some(certificate) = &tls.certificate {
            user.client_certificate_data = Some(BASE64.encode(certificate));
        }
        if let Some(key) = &tls.key {
            user.client_key_data = Some(BASE64.encode(key).into());
        }
        if let Some((certificate, key)) = plugin.and_then(|credential| credential.identity.as_ref()) {
            user.client_certificate_data = Some(BASE64.encode(certificate));
            user.client_key_data = Some(BASE64.encode(key).into());
        }
        pool(&config, &self.limits).map_err(|error| match error {
            ClientError::Tls(_) => self.unusable_certificate(&config, plugin.is_some()).unwrap_or(error),
            error => error,
        })
    }

    /// Returns the error for a client certificate of another X.509 version than 3, which rustls
    /// calls an invalid private key.
    fn unusable_certificate(&self, config: &Config, has_plugin: bool) -> Option<ClientError> {
        let data = BASE64.decode(config.auth_info.client_certificate_data.as_ref()?).ok()?;
        let why = unusable_version(in_pem(&data).first()?)?;
        Some(match self.certificate.clone().filter(|_| !has_plugin) {
            Some(path) => ClientError::Content { what: CERTIFICATE, path, why },
            None => ClientError::Certificate(why),
        })
    }

    fn certificates(&self, bundle: &[u8]) -> Result<Vec<Vec<u8>>, ClientError> {
        let wrong = |why| ClientError::Content { what: CA, path: self.ca.clone().unwrap_or_default(), why };
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle)
            .map(|certificate| certificate.map(|certificate| certificate.to_vec()))
            .collect();
        match certificates {
            Ok(certificates) if certificates.is_empty() => Err(wrong(
                "holds no certificate; it must hold PEM blocks that begin with BEGIN CERTIFICATE".to_owned(),
            )),
            Ok(certificates) => Ok(certificates),
            Err(error) => {
                Err(wrong(format!("is no PEM: {}; replace it by the cluster's CA bundle", causes(&error))))
            }
        }
    }
}

/// Returns a file's content, read off the runtime's threads. If the file is unreadable, returns the
/// content that was read last: some people put credentials in place for the start of a process and
/// then remove them (kubernetes/kubernetes#68164).
#[expect(clippy::disallowed_methods, reason = "files are outside of any run that repeats")]
async fn read(
    what: &'static str,
    path: &Option<PathBuf>,
    before: Option<&Vec<u8>>,
) -> Result<Option<Vec<u8>>, ClientError> {
    let Some(path) = path else { return Ok(None) };
    let content = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || std::fs::read(path))
            .await
            .map_err(|_| ClientError::Interrupted)?
    };
    match (content, before) {
        (Ok(content), _) => Ok(Some(content)),
        (Err(why), None) => Err(ClientError::File { what, path: path.clone(), why }),
        (Err(why), Some(before)) => {
            warn_about(what, path, &why);
            Ok(Some(before.clone()))
        }
    }
}

fn warn_about(what: &'static str, path: &Path, why: &std::io::Error) {
    tracing::warn!(path = %path.display(), %why, "cannot read the {what} again; what was read before stays in use");
}
