//! Measures the embedded API server at the size of a large cluster: 150,000 pods, 10,000 Services,
//! 5,000 nodes.
//!
//! `cargo run --release -p kube-endpoint-benches --example apiserver_scale` prints a table of times
//! and of resident memory, from `/proc/self/status`. It fails when memory exceeds the limit.
//! Arguments set the numbers of pods, Services and nodes.
#![expect(clippy::disallowed_methods, reason = "it measures real time")]
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::{Duration, Instant};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube_endpoint_benches::{recorded, service_as_json};
use kube_endpoint_embedded_apiserver::{Body, EmbeddedApiServer};
use serde_json::{Value, json};
use tower::ServiceExt;

/// The limit of resident memory, in bytes.
const LIMIT: u64 = 1_500_000_000;
/// Parsed objects take several times the memory of their text, so the program creates and loads
/// them in batches.
const BATCH: usize = 2_000;
const NAMESPACES: usize = 100;
const WATCHERS: usize = 50;
/// Enough patches to fill the history, so that the figures include it.
const PATCHES: usize = 10_000;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<usize>());
    let mut number = |default| numbers.next().unwrap_or(Ok(default));
    let (pods, services, nodes) = (number(150_000)?, number(10_000)?, number(5_000)?);
    let server = EmbeddedApiServer::builder().build()?;
    let before = resident()?;

    let (mut loading, mut bytes) = (Duration::ZERO, 0);
    let (pod, node) = (recorded("Pod").swap_remove(0), recorded("Node").swap_remove(0));
    for (count, make) in [
        (nodes, &(|at: usize| node_numbered(&node, at)) as &dyn Fn(usize) -> Value),
        (services, &service_numbered),
        (pods, &|at: usize| pod_numbered(&pod, at, nodes.max(1))),
    ] {
        for start in (0..count).step_by(BATCH) {
            let batch: Vec<Value> = (start..count.min(start + BATCH)).map(make).collect();
            bytes += batch.iter().map(|object| object.to_string().len()).sum::<usize>();
            let started = Instant::now();
            server.load(batch)?;
            loading += started.elapsed();
        }
    }
    row(
        "objects",
        &format!("{pods} pods, {services} Services, {nodes} nodes, {} MB of JSON", bytes / 1_000_000),
    );
    row("load", &format!("{loading:.2?}"));
    row("memory after loading", &megabytes(resident()? - before));

    let started = Instant::now();
    let listed = read(send(&server, Method::GET, "/api/v1/pods", String::new()).await?).await?;
    row("list all pods", &format!("{:.2?}, {} MB", started.elapsed(), listed.bytes / 1_000_000));
    row("  highest memory meanwhile", &megabytes(listed.peak - before));

    let started = Instant::now();
    let one = read(send(&server, Method::GET, "/api/v1/pods?labelSelector=app%3Dw-7", String::new()).await?)
        .await?;
    row("list by label, all namespaces", &format!("{:.2?}, {} KB", started.elapsed(), one.bytes / 1_000));
    let started = Instant::now();
    let path = "/api/v1/namespaces/ns-7/pods?labelSelector=app%3Dw-7";
    let one = read(send(&server, Method::GET, path, String::new()).await?).await?;
    row("list by label, one namespace", &format!("{:.2?}, {} KB", started.elapsed(), one.bytes / 1_000));

    let mut watchers = Vec::new();
    let watch = format!("/api/v1/pods?watch=true&resourceVersion={}", server.resource_version());
    for _ in 0..WATCHERS {
        watchers.push(send(&server, Method::GET, &watch, String::new()).await?.into_body());
    }
    let rounds = 200;
    let started = Instant::now();
    for turn in 0..rounds {
        patch(&server, turn, turn % pods.max(1)).await?;
        for watcher in &mut watchers {
            watcher.frame().await.ok_or("the watch ended")??;
        }
    }
    row("patch seen by 50 watchers", &format!("{:.0?} each", started.elapsed() / rounds as u32));
    drop(watchers);

    let started = Instant::now();
    for turn in 0..PATCHES {
        patch(&server, rounds + turn, (turn * 7) % pods.max(1)).await?;
    }
    row("patch without watchers", &format!("{:.0?} each", started.elapsed() / PATCHES as u32));
    let full = resident()?;
    row("memory with a full history", &megabytes(full - before));
    if full > LIMIT || listed.peak > LIMIT {
        return Err(format!("memory went past {}", megabytes(LIMIT)).into());
    }
    Ok(())
}

fn workload(at: usize) -> (String, String) {
    (format!("ns-{}", at % NAMESPACES), format!("w-{}", at % 1_000))
}

fn pod_numbered(template: &Value, at: usize, nodes: usize) -> Value {
    let mut pod = template.clone();
    let (namespace, app) = workload(at);
    let address = format!("10.{}.{}.{}", 1 + at / 65_536, at / 256 % 256, at % 256);
    pod["metadata"]["name"] = pod_name(at).into();
    pod["metadata"]["namespace"] = namespace.into();
    pod["metadata"]["uid"] = format!("00000000-0000-4000-8000-{at:012}").into();
    pod["metadata"]["labels"]["app"] = app.into();
    pod["spec"]["nodeName"] = format!("node-{}", at % nodes).into();
    pod["status"]["podIP"] = address.as_str().into();
    pod["status"]["podIPs"] = json!([{"ip": address}]);
    pod
}

fn pod_name(at: usize) -> String {
    format!("{}-{at:06}", workload(at).1)
}

fn service_numbered(at: usize) -> Value {
    let mut service = service_as_json(&format!("w-{at}"));
    service["metadata"]["namespace"] = workload(at).0.into();
    service["metadata"]["uid"] = format!("00000000-0000-4000-9000-{at:012}").into();
    let address = format!("10.96.{}.{}", at / 250, at % 250 + 1);
    service["spec"]["clusterIP"] = address.as_str().into();
    service["spec"]["clusterIPs"] = json!([address]);
    service
}

fn node_numbered(template: &Value, at: usize) -> Value {
    let mut node = template.clone();
    node["metadata"]["name"] = format!("node-{at}").into();
    node["metadata"]["uid"] = format!("00000000-0000-4000-a000-{at:012}").into();
    node
}

async fn patch(server: &EmbeddedApiServer, turn: usize, pod: usize) -> Outcome {
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", workload(pod).0, pod_name(pod));
    let body = json!({"status": {"message": format!("turn {turn}")}}).to_string();
    read(send(server, Method::PATCH, &path, body).await?).await?;
    Ok(())
}

async fn send(
    server: &EmbeddedApiServer,
    method: Method,
    path: &str,
    body: String,
) -> Outcome<Response<Body>> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/merge-patch+json").body(body)?;
    let answer = server.service().oneshot(request).await?;
    if answer.status().is_success() { Ok(answer) } else { Err(format!("{path}: {}", answer.status()).into()) }
}

struct Read {
    bytes: usize,
    /// The highest resident memory seen while reading, in bytes.
    peak: u64,
}

/// Reads an answer frame by frame and discards it.
async fn read(answer: Response<Body>) -> Outcome<Read> {
    let mut body = answer.into_body();
    let mut read = Read { bytes: 0, peak: 0 };
    let mut pieces = 0usize;
    while let Some(frame) = body.frame().await {
        let data = frame?.into_data().map_err(|_| "a frame without data")?;
        read.bytes += data.len();
        if pieces.is_multiple_of(256) && data.len() > 16_384 {
            read.peak = read.peak.max(resident()?);
        }
        pieces += 1;
    }
    Ok(read)
}

/// Returns the resident memory in bytes.
fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

fn row(what: &str, figure: &str) {
    println!("{what:<32}{figure}");
}
