//! Asks the API server whether it serves the group `discovery.k8s.io/v1`.
//!
//! Without EndpointSlices, the controllers that need them do not begin: the manager does not list
//! the kinds that only these controllers read, and each controller waits for its kinds. They begin
//! when the resource appears. Every API server serves pods, Services, nodes and Endpoints.
//!
//! Proxies and servers of other things answer 404, too. So discovery believes a 404 only if it has
//! the form of an API server's, and if the same server has listed the resources of `v1`. After any
//! other answer, and without an answer, all controllers begin as usual, and the informers report
//! their errors. If EndpointSlices are missing, discovery asks for them again until the server
//! lists them.

use std::time::Duration;

use http::header::ACCEPT;
use http::{Request, StatusCode};
use kube::client::Body;
use kube_endpoint_api_client::{Answered, ApiClient};
use kube_endpoint_informer::{Cluster, Kind, Kinds};
use kube_endpoint_watch_channel as watch;
use tokio::time::{sleep, timeout};

use crate::controller_name::ControllerName;

/// The time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before discovery asks the server again for EndpointSlices.
const PERIOD: Duration = Duration::from_secs(60);
/// The most bytes of an answer that discovery reads. Kubernetes 1.36 answers with 10 kB.
const LONGEST_ANSWER: usize = 1 << 20;

/// The paths of the lists of resources.
const CORE: &str = "/api/v1";
const SLICES: &str = "/apis/discovery.k8s.io/v1";
/// The group and version in `SLICES`.
const SLICES_API: &str = "discovery.k8s.io/v1";

/// Returns the kinds that a controller reads.
fn kinds_of(controller: ControllerName) -> &'static [Kind] {
    match controller {
        ControllerName::Endpoints => &[Kind::Pods, Kind::Services, Kind::Endpoints],
        ControllerName::EndpointSlice => &[Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices],
        ControllerName::EndpointSliceMirroring => &[Kind::Services, Kind::EndpointSlices, Kind::Endpoints],
    }
}

fn needs_slices(controller: ControllerName) -> bool {
    kinds_of(controller).contains(&Kind::EndpointSlices)
}

/// Returns the kinds of the controllers that can run.
fn kinds_to_list(controllers: &[ControllerName], slices_are_served: bool) -> Kinds {
    let running = controllers.iter().filter(|controller| slices_are_served || !needs_slices(**controller));
    running.flat_map(|controller| kinds_of(*controller)).copied().collect()
}

/// Sends to `listed` the kinds of the controllers that can run, and again when EndpointSlices
/// appear. The cluster counts as synced when the informers have listed these kinds.
pub(crate) async fn run(
    client: ApiClient,
    cluster: Cluster,
    controllers: Vec<ControllerName>,
    listed: watch::Sender<Kinds>,
) {
    let announce = |slices_are_served: bool| {
        let kinds = kinds_to_list(&controllers, slices_are_served);
        cluster.await_kinds(kinds);
        listed.send_replace(kinds);
    };
    let waiting: Vec<ControllerName> =
        controllers.iter().copied().filter(|controller| needs_slices(*controller)).collect();
    let (core, slices) = tokio::join!(ask(&client, CORE), async {
        if waiting.is_empty() { None } else { Some(ask(&client, SLICES).await) }
    });
    let judged = judge(&core, slices.as_ref());
    if let Some((path, answer)) = &judged.foreign {
        tracing::error!(
            url = client.url_of(path), %answer,
            "the answer is not that of a Kubernetes API server; check the server in the kubeconfig, or --master, and whether \
             a proxy answers in its place"
        );
    }
    if judged.slices_are_served {
        announce(true);
        return std::future::pending().await;
    }
    for controller in &waiting {
        tracing::warn!(
            %controller, api = SLICES_API,
            "the API server does not serve what this controller needs; it is started when the server does"
        );
    }
    announce(false);
    loop {
        sleep(PERIOD).await;
        if matches!(ask(&client, SLICES).await, Reply::Listed) {
            break;
        }
    }
    for controller in &waiting {
        tracing::info!(%controller, "the API server serves what this controller needs; it is started");
    }
    announce(true);
    std::future::pending::<()>().await;
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

#[derive(Debug, PartialEq)]
struct Judged<'a> {
    slices_are_served: bool,
    /// The path and the answer that show that something other than an API server answers.
    foreign: Option<(&'static str, &'a str)>,
}

/// Judges the first replies about `v1` and about EndpointSlices. `slices` is `None` if no
/// controller needs EndpointSlices.
fn judge<'a>(core: &'a Reply, slices: Option<&'a Reply>) -> Judged<'a> {
    let slices_are_served = !(*core == Reply::Listed && matches!(slices, Some(Reply::NotServed(_))));
    let foreign = match (core, slices) {
        // Every API server serves v1.
        (Reply::Foreign(answer) | Reply::NotServed(answer), _) => Some((CORE, answer.as_str())),
        (_, Some(Reply::Foreign(answer))) => Some((SLICES, answer.as_str())),
        _ => None,
    };
    Judged { slices_are_served, foreign }
}

/// Asks for a list of resources.
async fn ask(client: &ApiClient, path: &'static str) -> Reply {
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
        use ControllerName::{EndpointSlice, EndpointSliceMirroring, Endpoints};
        let check = |controllers: &[ControllerName], slices_are_served: bool, want: &[Kind]| {
            let want: Kinds = want.iter().copied().collect();
            assert_eq!(
                kinds_to_list(controllers, slices_are_served),
                want,
                "{controllers:?} {slices_are_served}"
            );
        };
        let all = [Endpoints, EndpointSlice, EndpointSliceMirroring];
        let of_all = [Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices, Kind::Endpoints];
        check(&all, true, &of_all);
        check(&all, false, &[Kind::Pods, Kind::Services, Kind::Endpoints]);
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
    fn slices_are_not_served_only_by_a_server_that_lists_v1() {
        let not_served = || reply(404, NOT_SERVED);
        let foreign = || reply(200, "<html>");
        let listed = || reply(200, LIST);
        let replies = [listed as fn() -> Reply, not_served, foreign, || Reply::Unknown];
        let mut missing = Vec::new();
        for (core_at, core) in replies.iter().enumerate() {
            for (slices_at, slices) in replies.iter().enumerate() {
                let (core, slices) = (core(), slices());
                let judged = judge(&core, Some(&slices));
                let want = match (core_at, slices_at) {
                    (1 | 2, _) => Some(CORE),
                    (_, 2) => Some(SLICES),
                    _ => None,
                };
                assert_eq!(judged.foreign.map(|(path, _)| path), want, "{core:?} {slices:?}");
                if !judged.slices_are_served {
                    missing.push((core_at, slices_at));
                }
            }
        }
        assert_eq!(missing, [(0, 1)]);
        assert!(judge(&listed(), None).slices_are_served);
        let answer = not_served();
        let judged = judge(&answer, None);
        assert!(judged.slices_are_served);
        assert_eq!(
            judged.foreign,
            Some((CORE, r#"404 Not Found with no Content-Type: "404 page not found""#))
        );
    }
}
