//! The proxy: sends requests that the guard lets through to the manager with the user's
//! credentials.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, ALLOW, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, LOCATION, RETRY_AFTER, SET_COOKIE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::{causes, harmless};
use kube_endpoint_serving::{BrowserGuard, Decision, Limits, add_browser_headers, serve_browser};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The pause before accepting again when the system has no resources for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The maximum number of characters of an error in the browser.
const LONGEST_REASON: usize = 1000;

/// The headers that the proxy passes on to the manager. It takes credentials from the kubeconfig,
/// and passes no cookie on.
const REQUEST_HEADERS: [HeaderName; 3] = [ACCEPT, ACCEPT_LANGUAGE, HeaderName::from_static("last-event-id")];

/// The headers that the proxy passes on to the browser.
const RESPONSE_HEADERS: [HeaderName; 5] =
    [CONTENT_TYPE, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, ETAG, RETRY_AFTER];

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Serves until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, guard: BrowserGuard, manager: ApiClient) {
    let guard = Arc::new(guard);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&guard), manager.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
}

async fn connection(stream: TcpStream, guard: Arc<BrowserGuard>, manager: ApiClient) {
    let service = |request| {
        let (guard, manager) = (Arc::clone(&guard), manager.clone());
        async move { answer(request, &guard, &manager).await }
    };
    serve_browser(stream, &Limits::default(), service).await;
}

async fn answer(request: Request<Incoming>, guard: &BrowserGuard, manager: &ApiClient) -> Response<Body> {
    let (mut parts, _) = request.into_parts();
    let mut response = match guard.check(&mut parts) {
        Decision::Admit => forward(&parts, manager).await,
        Decision::Exchange { location, cookie } => {
            let mut response = text(StatusCode::SEE_OTHER, String::new());
            for (name, value) in [(LOCATION, location), (SET_COOKIE, cookie)] {
                // The guard has checked the texts of both.
                if let Ok(value) = HeaderValue::from_str(&value) {
                    response.headers_mut().insert(name, value);
                }
            }
            response
        }
        Decision::Refuse { status, message } => {
            let mut response = text(status, message.to_owned());
            if status == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            }
            response
        }
    };
    add_browser_headers(response.headers_mut());
    response
}

/// Sends a request to the manager. It passes the body of the answer on as it arrives: events must
/// not wait for each other.
async fn forward(parts: &http::request::Parts, manager: &ApiClient) -> Response<Body> {
    let target = parts.uri.path_and_query().map_or("/ui", |target| target.as_str());
    let mut request = Request::new(kube::client::Body::empty());
    *request.method_mut() = Method::GET;
    match target.parse() {
        Ok(uri) => *request.uri_mut() = uri,
        Err(_) => return text(StatusCode::BAD_REQUEST, "The path is invalid.\n".to_owned()),
    }
    copy(&REQUEST_HEADERS, &parts.headers, request.headers_mut());
    match manager.send(request).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let mut response = Response::new(body.map_err(Into::into).boxed_unsync());
            *response.status_mut() = head.status;
            copy(&RESPONSE_HEADERS, &head.headers, response.headers_mut());
            response
        }
        Err(error) => {
            let why = causes(&error);
            let why = harmless(&why, LONGEST_REASON);
            text(StatusCode::BAD_GATEWAY, format!("The manager does not answer: {why}.\n"))
        }
    }
}

fn copy(names: &[HeaderName], from: &HeaderMap, to: &mut HeaderMap) {
    for name in names {
        for value in from.get_all(name) {
            to.append(name, value.clone());
        }
    }
}

fn text(status: StatusCode, text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::Mutex;

    use futures::channel::mpsc;
    use futures::{SinkExt, StreamExt};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use kube_endpoint_api_client::client_from_config;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Returns a manager that records the heads of requests, and whose events the test sends.
    async fn manager() -> (ApiClient, Arc<Mutex<Vec<http::request::Parts>>>, mpsc::Sender<&'static str>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (events, from_test) = mpsc::channel::<&'static str>(0);
        let from_test = Arc::new(Mutex::new(Some(from_test)));
        let requests = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (requests, from_test) = (Arc::clone(&requests), Arc::clone(&from_test));
                let service = service_fn(move |request: Request<Incoming>| {
                    let is_events = request.uri().path() == "/ui/events";
                    requests.lock().unwrap().push(request.into_parts().0);
                    let events = from_test.lock().unwrap().take_if(|_| is_events);
                    async move {
                        let mut response = match events {
                            Some(events) => {
                                let frames =
                                    events.map(|event| Ok::<_, Infallible>(Frame::data(Bytes::from(event))));
                                Response::new(StreamBody::new(frames).boxed_unsync())
                            }
                            None => Response::new(Full::new(Bytes::from("the page")).boxed_unsync()),
                        };
                        let headers = response.headers_mut();
                        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                        headers.insert(SET_COOKIE, HeaderValue::from_static("manager=1"));
                        Ok::<_, Infallible>(response)
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        let mut config = kube::Config::new(format!("http://{address}").parse().unwrap());
        config.auth_info.token = Some("the-users-token".to_owned().into());
        (client_from_config(config).await.unwrap(), seen, events)
    }

    /// Starts a proxy in front of a manager. Returns the address to open.
    async fn proxy(manager: ApiClient) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let guard = BrowserGuard::new(listener.local_addr().unwrap()).unwrap();
        let url = guard.url();
        tokio::spawn(serve(listener, guard, manager));
        url
    }

    /// Sends a request as a browser does, and returns the connection.
    async fn send(url: &str, target: &str, headers: &str) -> TcpStream {
        let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(host).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request and returns the whole answer.
    async fn get(url: &str, target: &str, headers: &str) -> String {
        let mut stream = send(url, target, &format!("Connection: close\r\n{headers}")).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
        answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Opens the printed address. Returns the path of the pages and the cookie.
    async fn log_in(url: &str) -> (String, String) {
        let target = url.strip_prefix("http://").unwrap();
        let answer = get(url, &target[target.find('/').unwrap()..], "").await;
        assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
        let pages = header(&answer, "location").unwrap();
        assert!(pages.starts_with("/ui/~") && pages.ends_with('/'), "{answer}");
        (pages.to_owned(), header(&answer, "set-cookie").unwrap().split(';').next().unwrap().to_owned())
    }

    #[tokio::test]
    async fn the_users_credentials_are_added_and_the_browsers_are_not_passed_on() {
        let (client, seen, _events) = manager().await;
        let url = proxy(client).await;
        let (pages, cookie) = log_in(&url).await;
        let headers = format!("Cookie: {cookie}\r\nAuthorization: Bearer other\r\nAccept: text/html\r\n");
        let answer = get(&url, &format!("{pages}?namespace=shop"), &headers).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\r\nthe page"), "{answer}");
        assert_eq!(header(&answer, "set-cookie"), None);
        assert_eq!(header(&answer, "cache-control"), Some("no-store"));
        let seen = seen.lock().unwrap();
        let [request] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!(request.uri.path_and_query().unwrap().as_str(), "/ui/?namespace=shop");
        assert_eq!(request.headers["authorization"], "Bearer the-users-token");
        assert_eq!(request.headers["accept"], "text/html");
        assert!(!request.headers.contains_key("cookie"));
    }

    #[tokio::test]
    async fn what_the_guard_refuses_does_not_reach_the_manager() {
        let (client, seen, _events) = manager().await;
        let url = proxy(client).await;
        let (pages, cookie) = log_in(&url).await;
        let cookie = format!("Cookie: {cookie}\r\n");
        for (target, headers, want) in [
            (&*pages, String::new(), "401"),
            ("/ui/", cookie.clone(), "401"),
            ("/metrics", cookie.clone(), "404"),
            (&pages, format!("{cookie}Origin: http://evil.example\r\n"), "403"),
            ("/ui/?token=wrong", cookie, "401"),
        ] {
            let answer = get(&url, target, &headers).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {want} ")), "{answer}");
            assert_eq!(header(&answer, "x-frame-options"), Some("DENY"));
        }
        assert!(seen.lock().unwrap().is_empty());
    }

    /// The test sends the second event only after the first one has arrived.
    #[tokio::test]
    async fn events_are_passed_on_as_they_arrive() {
        let (client, _, mut events) = manager().await;
        let url = proxy(client).await;
        let (pages, cookie) = log_in(&url).await;
        let mut stream = send(&url, &format!("{pages}events"), &format!("Cookie: {cookie}\r\n")).await;
        let mut text = String::new();
        for event in ["data: one\n\n", "data: two\n\n"] {
            events.send(event).await.unwrap();
            while !text.contains(event) {
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).await.unwrap();
                assert!(read > 0, "the connection ended: {text}");
                text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
            }
        }
        assert_eq!(header(&text, "content-type"), Some("text/event-stream"));
    }

    #[tokio::test]
    async fn a_manager_that_does_not_answer_is_an_error_that_says_so() {
        // Nobody listens on this port any more.
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        let url = proxy(client_from_config(config).await.unwrap()).await;
        let (pages, cookie) = log_in(&url).await;
        let answer = get(&url, &pages, &format!("Cookie: {cookie}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains("The manager does not answer: "), "{answer}");
    }
}
