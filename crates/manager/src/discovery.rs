//! Asks the API server if it serves `discovery.k8s.io/v1`, and lets the endpoint selector
//! controller begin without EndpointSelectors.
//!
//! A controller that needs slices does not begin before the API server serves them: the manager
//! does not list the kinds that only this controller reads, and the controller waits for its kinds.
//! Every API server serves pods, Services, nodes and Endpoints.
//!
//! Proxies and servers of other things answer 404, too. So discovery believes a 404 only if it has
//! the form of an API server's, and if the same server has listed the resources of `v1`. After any
//! other answer, and without an answer, the controllers begin as usual, and the informers report
//! their errors. Discovery asks again for what is missing until the server lists it.
//!
//! The endpoint selector controller does not wait for the CustomResourceDefinition: somebody may
//! have deleted it, and the slices of Services that name an EndpointSelector must not keep pods
//! that are gone. Their informer tells if the server serves them.

use std::time::Duration;

use http::header::ACCEPT;
use http::{Request, StatusCode};
use kube::client::Body;
use kube_endpoint_api_client::{Answered, ApiClient};
use kube_endpoint_core_model::{Backoff, EndpointSelector, ResourceVersion};
use kube_endpoint_informer::{Cluster, Kind, Kinds, Scope, StreamEvent};
use kube_endpoint_watch_channel as watch;
use tokio::time::{Instant, sleep, timeout};

use crate::controller_name::ControllerName;

/// The time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The pauses before discovery asks the server again for what is missing.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// The pause between two looks at the informer of EndpointSelectors.
const POLL: Duration = Duration::from_millis(100);
/// The most bytes of an answer that discovery reads. Kubernetes 1.36 answers with 10 kB.
const LONGEST_ANSWER: usize = 1 << 20;

/// The path of the list of the resources that every API server serves.
const CORE: &str = "/api/v1";
/// The path of the list of the resources that only newer API servers serve.
const SLICES: &str = "/apis/discovery.k8s.io/v1";

/// Returns the kinds that a controller reads.
pub(crate) fn kinds_of(controller: ControllerName) -> Kinds {
    match controller {
        ControllerName::Endpoints => [Kind::Pods, Kind::Services, Kind::Endpoints].into(),
        ControllerName::EndpointSlice => {
            [Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices].into()
        }
        ControllerName::EndpointSliceMirroring => {
            [Kind::Services, Kind::EndpointSlices, Kind::Endpoints].into()
        }
        ControllerName::EndpointSelector => {
            [Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices, Kind::EndpointSelectors].into()
        }
    }
}

/// Returns the API that a controller waits for while the server serves no slices, or `None` if it
/// can run.
pub(crate) fn waits_for(controller: ControllerName, serves_slices: bool) -> Option<&'static str> {
    (!serves_slices && kinds_of(controller).contains(Kind::EndpointSlices)).then_some("discovery.k8s.io/v1")
}

/// Returns the kinds of the controllers that can run.
fn kinds_to_list(controllers: &[ControllerName], serves_slices: bool) -> Kinds {
    let running = controllers.iter().filter(|controller| waits_for(**controller, serves_slices).is_none());
    running.flat_map(|controller| kinds_of(*controller).iter()).collect()
}

/// Sends to `listed` the kinds of the controllers that can run, and again when the server serves
/// slices. The cluster counts as synced when the informers have listed these kinds. Also calls
/// `report` with false if the server serves no slices.
pub(crate) async fn run(
    client: ApiClient,
    cluster: Cluster,
    controllers: Vec<ControllerName>,
    listed: watch::Sender<Kinds>,
    report: impl Fn(bool),
) {
    let announce = |serves_slices: bool| {
        report(serves_slices);
        let kinds = kinds_to_list(&controllers, serves_slices);
        cluster.await_kinds(kinds);
        listed.send_replace(kinds);
    };
    let waiting = || controllers.iter().filter_map(|it| Some((*it, waits_for(*it, false)?)));
    let slices = async {
        match waiting().next() {
            Some(_) => ask(&client, SLICES).await,
            None => Reply::Unknown,
        }
    };
    let (core, slices) = tokio::join!(ask(&client, CORE), slices);
    if let Some((path, answer)) = foreign(&core, &slices) {
        tracing::error!(
            url = client.url_of(path), %answer,
            "the answer is not that of a Kubernetes API server; check the server in the kubeconfig, or --master, and whether \
             a proxy answers in its place"
        );
    }
    if core == Reply::Listed && matches!(slices, Reply::NotServed(_)) {
        for (controller, api) in waiting() {
            tracing::warn!(
                %controller, api,
                "the API server does not serve what this controller needs; it is started when the server does"
            );
        }
        announce(false);
        for attempt in 0.. {
            sleep(PAUSES.delay(attempt)).await;
            if ask(&client, SLICES).await == Reply::Listed {
                break;
            }
        }
        for (controller, _) in waiting() {
            tracing::info!(%controller, "the API server serves what this controller needs; it is started");
        }
    }
    announce(true);
    if controllers.contains(&ControllerName::EndpointSelector) {
        begin_without_selectors(&cluster).await;
    }
    std::future::pending::<()>().await;
}

/// Lets the stores show that there are no EndpointSelectors if the server does not serve them,
/// until the informer has listed them.
async fn begin_without_selectors(cluster: &Cluster) {
    let others = kinds_of(ControllerName::EndpointSelector).iter();
    cluster.synced_kinds(others.filter(|kind| *kind != Kind::EndpointSelectors).collect::<Kinds>()).await;
    let error = loop {
        let status = cluster.status(Kind::EndpointSelectors);
        if status.synced {
            return;
        }
        if let Some(failure) = status.failure.filter(|it| it.code == Some(404)) {
            break failure.message;
        }
        sleep(POLL).await;
    };
    let none = || StreamEvent::<EndpointSelector>::restarted(Vec::new(), ResourceVersion::default());
    let namespaces: Vec<Scope> =
        cluster.watched_namespaces().names().map(|name| Scope::Namespace(name.clone())).collect();
    if namespaces.is_empty() {
        cluster.apply(none());
    }
    for namespace in &namespaces {
        cluster.apply_in(namespace, none());
    }
    tracing::warn!(
        error,
        "the API server does not serve EndpointSelectors; until it does, endpoints only leave the slices of Services that \
         name one. Install the CustomResourceDefinition: `kubectl apply -k deploy/crds`"
    );
    // A real list may have come in between.
    cluster.relist(Kind::EndpointSelectors, Instant::now()).await;
}

/// The outcome of a request for a list of resources.
#[derive(Debug, PartialEq)]
enum Reply {
    Listed,
    /// A 404 of an API server, as a text.
    NotServed(String),
    /// There is no answer, or the server refuses or fails to answer now. If this lasts, the
    /// informers report it.
    Unknown,
    /// An answer that no API server gives, as a text.
    Foreign(String),
}

impl Reply {
    fn of(answered: &Answered) -> Self {
        match answered.status() {
            StatusCode::OK if answered.is_kind("APIResourceList") => Self::Listed,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => Self::Unknown,
            status if status.is_server_error() => Self::Unknown,
            _ if answered.says_not_served() => Self::NotServed(answered.to_string()),
            status if status.is_client_error() && answered.is_kind("Status") => Self::Unknown,
            _ => Self::Foreign(answered.to_string()),
        }
    }
}

/// Returns the path and the answer that show that something other than an API server answers.
fn foreign<'a>(core: &'a Reply, slices: &'a Reply) -> Option<(&'static str, &'a str)> {
    match (core, slices) {
        // Every API server serves v1.
        (Reply::Foreign(answer) | Reply::NotServed(answer), _) => Some((CORE, answer)),
        (_, Reply::Foreign(answer)) => Some((SLICES, answer)),
        _ => None,
    }
}

/// Asks for a list of resources.
async fn ask(client: &ApiClient, path: &str) -> Reply {
    let asked = async {
        let request = Request::get(path).header(ACCEPT, "application/json").body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let answer = client.send(request).await.map_err(|error| error.to_string())?;
        Answered::read(answer, LONGEST_ANSWER).await
    };
    let answered = timeout(TIMEOUT, asked).await;
    match answered.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}"))) {
        Ok(answered) => Reply::of(&answered),
        Err(error) => {
            tracing::debug!(error, path, "discovery was not answered");
            Reply::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_kinds_of_controllers_that_can_run_are_listed() {
        use ControllerName::{EndpointSelector, EndpointSlice, EndpointSliceMirroring, Endpoints};
        let check = |controllers: &[ControllerName], serves_slices: bool, want: &[Kind]| {
            let want = want.iter().copied().collect::<Kinds>();
            assert_eq!(kinds_to_list(controllers, serves_slices), want, "{controllers:?} {serves_slices}");
        };
        let all = ControllerName::ALL;
        let of_all: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Leases).collect();
        check(&all, true, &of_all);
        check(&all, false, &[Kind::Pods, Kind::Services, Kind::Endpoints]);
        let of_default = [Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices, Kind::Endpoints];
        check(&ControllerName::DEFAULT, true, &of_default);
        check(&[EndpointSelector], false, &[]);
        check(&[EndpointSlice, EndpointSliceMirroring], false, &[]);
        check(&[Endpoints], true, &[Kind::Pods, Kind::Services, Kind::Endpoints]);
        check(&[], true, &[]);
    }

    fn reply(status: u16, body: &'static str) -> Reply {
        let body = http_body_util::Full::from(body);
        let body =
            kube_endpoint_api_client::AnswerBody::new(http_body_util::BodyExt::map_err(body, |never| {
                match never {}
            }));
        let answer = http::Response::builder().status(status).body(body).unwrap();
        let answered = Answered::read(answer, LONGEST_ANSWER).now_or_never().unwrap().unwrap();
        Reply::of(&answered)
    }

    const LIST: &str = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}"#;
    const NOT_SERVED: &str = "404 page not found\n";

    #[test]
    fn only_the_answers_of_an_api_server_say_what_is_served() {
        assert_eq!(reply(200, LIST), Reply::Listed);
        let status =
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
        for body in [NOT_SERVED, status] {
            assert!(matches!(reply(404, body), Reply::NotServed(_)), "{body}");
        }
        let bad_request =
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400}"#;
        for (code, body) in [
            (401, ""),
            (403, status),
            (429, "<html>"),
            (500, LIST),
            (502, "<html>"),
            (503, ""),
            (504, ""),
            (400, bad_request),
            (404, bad_request),
        ] {
            assert_eq!(reply(code, body), Reply::Unknown, "{code} {body}");
        }
        let other_bodies =
            ["", "{}", "[]", "<html>log in</html>", "ok", status, r#"{"kind":"List","items":[]}"#];
        for body in other_bodies {
            assert!(matches!(reply(200, body), Reply::Foreign(_)), "{body}");
        }
        for (code, body) in [
            (201, LIST),
            (204, ""),
            (301, ""),
            (302, LIST),
            (400, "<html>"),
            (404, ""),
            (404, "{}"),
            (404, "<html>"),
            (404, LIST),
            (410, ""),
        ] {
            assert!(matches!(reply(code, body), Reply::Foreign(_)), "{code} {body}");
        }
    }

    #[test]
    fn another_server_is_told_by_either_answer() {
        let not_served = || reply(404, NOT_SERVED);
        let foreign_reply = || reply(200, "<html>");
        let listed = || reply(200, LIST);
        let replies = [listed as fn() -> Reply, not_served, foreign_reply, || Reply::Unknown];
        for (core_at, core) in replies.iter().enumerate() {
            for (slices_at, slices) in replies.iter().enumerate() {
                let (core, slices) = (core(), slices());
                let want = match (core_at, slices_at) {
                    (1 | 2, _) => Some(CORE),
                    (_, 2) => Some(SLICES),
                    _ => None,
                };
                assert_eq!(foreign(&core, &slices).map(|(path, _)| path), want, "{core:?} {slices:?}");
            }
        }
        assert_eq!(
            foreign(&not_served(), &Reply::Unknown),
            Some((CORE, r#"404 Not Found with no Content-Type: "404 page not found""#))
        );
    }
}
