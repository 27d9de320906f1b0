//! A server of something else, or a proxy, answers in place of the API server: the manager takes
//! nothing for read, and writes nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::{CONTENT_TYPE, LOCATION};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use kube_endpoint_controllers::{ApiClient, LeaderElectionSettings, Manager, ManagerHandle, Settings};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tower::{BoxError, ServiceExt, service_fn};

/// Status, Content-Type and body of an answer.
type Page = (u16, &'static str, &'static str);

const NOT_FOUND: &str =
    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m","reason":"NotFound","code":404}"#;

/// The answers that such servers give to all requests.
const PAGES: [Page; 14] = [
    (404, "text/plain; charset=utf-8", "404 page not found\n"),
    (404, "application/json", NOT_FOUND),
    (404, "text/html", "<html><body><h1>404 Not Found</h1></body></html>"),
    (404, "", ""),
    (200, "text/html", "<!DOCTYPE html>\n<html><body>\nPlease log in.\n</body></html>\n"),
    (200, "text/plain", "ok"),
    (200, "", ""),
    (200, "application/vnd.kubernetes.protobuf", ""),
    (200, "application/json", "{}"),
    (200, "application/json", "{}\n"),
    (200, "application/json", r#"{"kind":"Status","apiVersion":"v1","status":"Success","code":200}"#),
    (
        200,
        "application/json",
        r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}"#,
    ),
    (204, "", ""),
    (302, "text/html", "<a href=\"https://login.example\">Found</a>"),
];

/// An API server, and the page that something else answers in its place.
struct Place {
    server: EmbeddedApiServer,
    page: Arc<Mutex<Option<Page>>>,
    /// Method and path of the requests that the page answered.
    asked: Arc<Mutex<Vec<(Method, String)>>>,
}

impl Place {
    async fn new(page: Option<Page>) -> Self {
        let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        server.create(service).await.unwrap();
        Self { server, page: Arc::new(Mutex::new(page)), asked: Arc::default() }
    }

    fn client(&self) -> ApiClient {
        let (server, page, asked) = (self.server.clone(), Arc::clone(&self.page), Arc::clone(&self.asked));
        ApiClient::for_tests(service_fn(move |request: Request<Body>| {
            let (service, page) = (server.service(), *page.lock().unwrap());
            if page.is_some() {
                asked.lock().unwrap().push((request.method().clone(), request.uri().path().to_owned()));
            }
            async move {
                let Some((status, media_type, body)) = page else {
                    let answer = service.oneshot(request).await.map_err(BoxError::from)?;
                    return Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()));
                };
                let answer = Response::builder().status(status).header(CONTENT_TYPE, media_type);
                let answer =
                    if status == 302 { answer.header(LOCATION, "https://login.example") } else { answer };
                let body: UnsyncBoxBody<_, BoxError> =
                    Full::from(body).map_err(|never| match never {}).boxed_unsync();
                Ok::<_, BoxError>(answer.body(body)?)
            }
        }))
    }

    fn start(&self, elects: bool) -> (ManagerHandle, JoinHandle<()>) {
        let mut settings = Settings::default();
        settings.leader_election = elects.then(LeaderElectionSettings::default);
        let manager = Manager::new(self.client(), &settings, self.server.now(), 1).unwrap();
        let handle = manager.handle();
        (handle, tokio::spawn(async move { manager.run(std::future::pending()).await.unwrap() }))
    }

    fn asked(&self, method: &Method, path: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|(it, of)| it == method && of == path).count()
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_counts_as_read_until_an_api_server_answers() {
    for page in PAGES {
        for elects in [false, true] {
            let place = Place::new(Some(page)).await;
            let (handle, task) = place.start(elects);
            sleep(Duration::from_secs(200)).await;
            let status = handle.status();
            assert!(!status.synced, "{page:?}");
            assert!(!elects || !status.leading, "{page:?}");
            let unlisted: Vec<&str> = status.unlisted.iter().map(|it| it.kind).collect();
            assert_eq!(unlisted, ["pods", "services", "nodes", "endpointslices", "endpoints"], "{page:?}");
            assert!(status.unlisted.iter().all(|it| it.error.is_some()), "{page:?}: {status}");
            for path in ["/api/v1/pods", "/apis/discovery.k8s.io/v1/endpointslices"] {
                assert!(place.asked(&Method::GET, path) >= 5, "{page:?}: {path} is retried");
            }
            let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
            let is_lease = |path: &str| path == lease;
            let asked = place.asked.lock().unwrap().clone();
            let wrote = asked.iter().find(|(method, path)| method != Method::GET && !is_lease(path));
            assert_eq!(wrote, None, "{page:?}");
            // The elector creates a Lease only if an API server says that there is none. Only this
            // page looks like such an answer.
            let created = asked.iter().any(|(method, _)| method == Method::POST);
            assert_eq!(created, elects && page.2 == NOT_FOUND, "{page:?}");
            assert!(!task.is_finished());
            // The proxy lets the API server answer again.
            *place.page.lock().unwrap() = None;
            sleep(Duration::from_secs(120)).await;
            assert!(handle.status().synced, "{page:?}: {}", handle.status());
            assert_eq!(
                (place.server.count("endpoints"), place.server.count("endpointslices")),
                (1, 1),
                "{page:?}"
            );
            task.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_read_is_kept_while_something_else_answers() {
    for page in PAGES {
        let place = Place::new(None).await;
        let (handle, task) = place.start(false);
        sleep(Duration::from_secs(20)).await;
        let slices = || place.server.list("endpointslices");
        let before = slices();
        assert_eq!(before.len(), 1);
        *place.page.lock().unwrap() = Some(page);
        place.server.close_watches();
        sleep(Duration::from_secs(300)).await;
        let asked = place.asked.lock().unwrap().clone();
        assert!(asked.len() > 20, "{page:?}: {} requests", asked.len());
        assert!(asked.iter().all(|(method, _)| method == Method::GET), "{page:?}: {asked:?}");
        assert_eq!(handle.cluster().services().len(), 1, "{page:?}");
        *place.page.lock().unwrap() = None;
        sleep(Duration::from_secs(120)).await;
        assert_eq!(slices(), before, "{page:?}");
        let failing = handle.status().controllers.iter().map(|it| it.failing).sum::<usize>();
        assert_eq!(failing, 0, "{page:?}");
        task.abort();
    }
}
