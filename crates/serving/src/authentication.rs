//! Finds out who sends a request: from headers of a front proxy, client certificates and bearer
//! tokens.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, header};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::time_provider::TimeProvider;

use crate::cache::Cache;
use crate::client_ca::{ClientCa, ProxyCa};
use crate::error::ServingError;
use crate::front_proxy::RequestHeaders;
use crate::hash::Hasher;
use crate::reviews::{Reviewer, Unanswered};
use crate::user::User;

/// How many tokens with a user the cache remembers, and how many invalid ones.
const REMEMBERED_TOKENS: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// How long a connection relies on one verification of its client's certificate.
const CERTIFICATE_TTL: Duration = Duration::from_secs(10);

/// The request has credentials that are not valid, or that the server could not check, for example
/// because there are too many tokens to check. The answer is 401 in all cases, as upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unauthorized;

/// The certificates of a connection's client, and the results of verifying them: the user, and the
/// headers that count if the client is a front proxy.
pub(crate) struct Peer {
    chain: Vec<CertificateDer<'static>>,
    user: Mutex<Option<Verified<User>>>,
    headers: Mutex<Option<Verified<Arc<RequestHeaders>>>>,
}

/// The result of verifying a certificate.
struct Verified<T> {
    found: Result<Option<T>, Unauthorized>,
    generation: u64,
    at: Instant,
}

impl Peer {
    pub(crate) fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self { chain, user: Mutex::default(), headers: Mutex::default() }
    }
}

/// Authenticates requests, as upstream's delegating authentication: first the headers of a front
/// proxy, then the client certificate, then the bearer token; without any of them the user is
/// anonymous. A request with only invalid credentials is unauthorized.
pub(crate) struct Authentication {
    client_ca: Arc<ClientCa>,
    proxy_ca: Arc<ProxyCa>,
    tokens: Option<Tokens>,
    time: Arc<dyn TimeProvider>,
}

struct Tokens {
    reviewer: Arc<Reviewer>,
    hasher: Hasher,
    ttl: Duration,
    cache: Arc<Cache<[u8; 32], Option<User>, Unanswered>>,
}

#[derive(Serialize)]
struct TokenSpec<'a> {
    token: &'a str,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct TokenStatus {
    authenticated: bool,
    user: User,
    error: String,
}

impl Authentication {
    /// Creates an authentication. Without a reviewer it ignores every token.
    pub(crate) fn new(
        client_ca: Arc<ClientCa>,
        proxy_ca: Arc<ProxyCa>,
        reviewer: Option<Reviewer>,
        ttl: Duration,
        time: Arc<dyn TimeProvider>,
    ) -> Result<Self, ServingError> {
        let tokens = match reviewer {
            Some(reviewer) => Some(Tokens {
                reviewer: Arc::new(reviewer),
                hasher: Hasher::new()?,
                ttl,
                cache: Cache::new(REMEMBERED_TOKENS, Option::is_some),
            }),
            None => None,
        };
        Ok(Self { client_ca, proxy_ca, tokens, time })
    }

    /// Returns the user of a request with these headers.
    pub(crate) async fn user(&self, peer: &Peer, headers: &HeaderMap) -> Result<User, Unauthorized> {
        let proxied = self.user_of_front_proxy(peer, headers);
        if let Ok(Some(user)) = proxied {
            return Ok(user.authenticated());
        }
        let certificate = self.user_of_certificate(peer);
        if let Ok(Some(user)) = certificate {
            return Ok(user.authenticated());
        }
        let token = match (bearer_token(headers)?, &self.tokens) {
            (Some(token), Some(tokens)) => tokens.user(token).await?,
            _ => None,
        };
        match (token, proxied.and(certificate)) {
            (Some(user), _) => Ok(user.authenticated()),
            (None, Ok(_)) => Ok(User::anonymous()),
            (None, Err(unauthorized)) => Err(unauthorized),
        }
    }

    /// Returns the user that a front proxy names.
    fn user_of_front_proxy(&self, peer: &Peer, headers: &HeaderMap) -> Result<Option<User>, Unauthorized> {
        let verify = |today| self.proxy_ca.headers(&peer.chain, today);
        match self.verified(peer, &peer.headers, self.proxy_ca.generation(), verify)? {
            Some(believed) => believed.user(headers),
            None => Ok(None),
        }
    }

    fn user_of_certificate(&self, peer: &Peer) -> Result<Option<User>, Unauthorized> {
        let verify = |today| self.client_ca.user(&peer.chain, today);
        self.verified(peer, &peer.user, self.client_ca.generation(), verify)
    }

    /// Verifies the client's certificate, and remembers the result for a while: a client chooses
    /// the sizes of the keys in its chain.
    fn verified<T: Clone>(
        &self,
        peer: &Peer,
        remembered: &Mutex<Option<Verified<T>>>,
        generation: u64,
        verify: impl FnOnce(UnixTime) -> Result<Option<T>, String>,
    ) -> Result<Option<T>, Unauthorized> {
        // Before the first generation there is no CA.
        if peer.chain.is_empty() || generation == 0 {
            return Ok(None);
        }
        let now = Instant::now();
        let mut remembered = remembered.lock();
        let known = remembered.as_ref().filter(|verified| verified.generation == generation);
        if let Some(verified) = known.filter(|verified| now < verified.at + CERTIFICATE_TTL) {
            return verified.found.clone();
        }
        let today = self.time.current_time().unwrap_or_else(|| UnixTime::since_unix_epoch(Duration::ZERO));
        let found = verify(today).map_err(|why| {
            tracing::debug!("a client certificate was refused: it {why}");
            Unauthorized
        });
        *remembered = Some(Verified { found: found.clone(), generation, at: now });
        found
    }
}

impl Tokens {
    /// Returns the user of a token.
    async fn user(&self, token: &str) -> Result<Option<User>, Unauthorized> {
        let key = self.hasher.hash(token.as_bytes());
        let ttl = self.ttl;
        let ask = |expired: Option<Option<User>>| {
            let reviewer = Arc::clone(&self.reviewer);
            // A client that sends many invented tokens does not delay clients with known tokens.
            let question = reviewer.question(TokenSpec { token }, expired.flatten().is_some())?;
            Ok(async move {
                let status: TokenStatus = reviewer.ask(question).await?;
                let user = status.authenticated.then_some(status.user);
                // As upstream: an answer with an error may be another one the next time.
                let kept = (user.is_some() || status.error.is_empty()).then_some(ttl);
                Ok((user, kept))
            })
        };
        match self.cache.get(key, ask, Unanswered).await {
            Ok(Some(user)) => Ok(Some(user)),
            Ok(None) | Err(Unanswered) => Err(Unauthorized),
        }
    }
}

/// Returns the bearer token in the `Authorization` header. As upstream, it ignores all other
/// credentials there.
///
/// # Errors
/// [`Unauthorized`] if the header has characters that no token has.
fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, Unauthorized> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| Unauthorized)?;
    let mut parts = value.trim().splitn(3, ' ');
    let bearer = parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    Ok(parts.next().filter(|token| bearer && !token.is_empty()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use kube_endpoint_api_client::ApiClient;
    use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
    use kube_endpoint_embedded_apiserver::User as KnownUser;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::time_provider::DefaultTimeProvider;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_invented_tokens_leaves_room_for_a_valid_one() {
        let scraper = KnownUser { name: "prometheus".to_owned(), groups: Vec::new() };
        let api = EmbeddedApiServer::builder().token("valid", scraper).build().unwrap();
        let limit = Duration::from_secs(10);
        let reviewer = Reviewer::of_tokens(ApiClient::for_tests(api.service()), limit);
        let provider = Arc::new(default_provider());
        let client_ca = Arc::new(ClientCa::of_clients(Arc::clone(&provider)));
        let proxy_ca = Arc::new(ProxyCa::of_front_proxies(provider));
        let time = Arc::new(DefaultTimeProvider);
        let authentication = Authentication::new(client_ca, proxy_ca, Some(reviewer), limit, time).unwrap();
        let authentication = Arc::new(authentication);
        let user = |token: String| {
            let value = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
            let authentication = Arc::clone(&authentication);
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
            let peer = Peer::new(Vec::new());
            async move { authentication.user(&peer, &headers).await }
        };
        let open = || authentication.tokens.as_ref().unwrap().cache.open();

        let mut most = 0;
        for number in 0..15_000 {
            tokio::spawn(user(format!("invented-{number}")));
            if number % 500 == 499 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            most = most.max(open());
        }
        assert!((100..=400).contains(&most), "{most}");
        let asked =
            || api.request_log().iter().filter(|entry| entry.request.path.ends_with("tokenreviews")).count();
        assert!((400..1_000).contains(&asked()), "the limit was reached and held: {}", asked());

        let start = Instant::now();
        while user("valid".to_owned()).await.is_err() {
            assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        tokio::time::sleep(limit).await;
        assert_eq!(open(), 0);
    }

    #[test]
    fn a_bearer_token_is_read_by_upstreams_rules() {
        let check = |value: &'static [u8], expected: Result<Option<&str>, Unauthorized>| {
            let headers =
                HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_bytes(value).unwrap())]);
            assert_eq!(bearer_token(&headers), expected, "{}", value.escape_ascii());
        };
        check(b"Bearer abc", Ok(Some("abc")));
        check(b"bearer abc", Ok(Some("abc")));
        check(b"  BEARER abc  ", Ok(Some("abc")));
        check(b"Bearer abc def", Ok(Some("abc")));
        check(b"Bearer  abc", Ok(None));
        check(b"Bearer", Ok(None));
        check(b"", Ok(None));
        check(b"Basic YWJj", Ok(None));
        check(b"Bearerabc", Ok(None));
        check(b"Bearer \xff", Err(Unauthorized));
        assert_eq!(bearer_token(&HeaderMap::new()), Ok(None));
    }
}
