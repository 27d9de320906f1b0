//! Warns of a memory limit that is too low for the objects of the cluster: the kernel would end the
//! process, or refuse it a thread or an allocation, without a word about the limit.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::ACCEPT;
use http::{Request, StatusCode};
use kube::client::Body;
use kube_endpoint_api_client::{Answered, ApiClient};
use kube_endpoint_core_model::page_of_docs;
use rustix::process::{Resource, getrlimit};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::timeout;

use crate::controller_name::ControllerName;
use crate::own_process;
use crate::settings::Settings;

/// The bytes that the program takes without objects, and for each object at the peak. The page
/// about limits has the measurements.
const PROGRAM: u64 = 13_000_000;
const OBJECT: u64 = 1_000;
/// A control group with at least this limit has none: version 1 writes a number a little below 2^63
/// for that.
const NONE: u64 = 1 << 60;
/// The time limit for a count, and the most bytes of its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_ANSWER: usize = 4 << 20;

/// A limit of the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    what: &'static str,
    bytes: u64,
    /// The bytes of it that the program takes without objects.
    program: u64,
}

/// How many objects fill the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    services: u64,
    pods: u64,
}

/// Asks the API server for the number of Services and pods, and warns if the memory of this process
/// is limited to less than their caches need. Asks nothing if there is no limit.
pub async fn warn_of_memory_limit(client: &ApiClient, settings: &Settings) {
    // The add-on alone caches the pods of its Services only.
    if settings.controllers.iter().all(|name| *name == ControllerName::EndpointSelector) {
        return;
    }
    let Some(limit) = limit() else { return };
    if let Some(warning) = counts(client, settings).await.and_then(|counts| warning(limit, counts)) {
        tracing::warn!("{warning}");
    }
}

fn warning(limit: Limit, counts: Counts) -> Option<String> {
    let Counts { services, pods } = counts;
    // A Service has a slice and Endpoints at least.
    let need = limit.program + OBJECT * (pods + 3 * services);
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    (need > limit.bytes).then(|| {
        format!(
            "the memory of this process is limited to {} MB ({}), and {services} Services and {pods} pods need about {} MB: \
             raise the limit, or the system ends the process ({} has figures)",
            limit.bytes / 1_000_000,
            limit.what,
            megabytes(need),
            page_of_docs!("limits.md#memory-and-cpu")
        )
    })
}

/// Returns the limit that leaves the least to caches.
fn limit() -> Option<Limit> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let group = read(Path::new("/proc/self/cgroup")).and_then(|groups| limit_of_groups(&groups, read));
    let group = group.map(|bytes| Limit { what: "by its control group", bytes, program: PROGRAM });
    // Stacks and reserved arenas count, too, so what the process has now is the least.
    let space = getrlimit(Resource::As).current;
    let space = space.map(|bytes| Limit {
        what: "by RLIMIT_AS",
        bytes,
        program: own_process::status("VmSize").unwrap_or(PROGRAM),
    });
    group.into_iter().chain(space).min_by_key(|limit| limit.bytes.saturating_sub(limit.program))
}

/// Returns the lowest memory limit of the control groups in a `/proc/PID/cgroup`, of version 1 or
/// 2. A container without a namespace for control groups sees its own at the root, under the path
/// that the host has for it.
fn limit_of_groups(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut lowest = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let file: PathBuf = [Path::new(root), group, Path::new(file)].iter().collect();
            let limit = read(&file).and_then(|text| text.trim().parse().ok());
            lowest = limit.into_iter().chain(lowest).filter(|limit: &u64| *limit < NONE).min();
        }
    }
    lowest
}

/// Returns the numbers of objects in the namespaces of the settings, or `None` if the server does
/// not tell.
async fn counts(client: &ApiClient, settings: &Settings) -> Option<Counts> {
    let mut scopes: Vec<String> = settings.namespaces.iter().map(|it| format!("/namespaces/{it}")).collect();
    if scopes.is_empty() {
        scopes = vec![String::new()];
    }
    let mut all = Counts::default();
    for scope in scopes {
        all.services += count(client, &format!("/api/v1{scope}/services?limit=1")).await?;
        all.pods += count(client, &format!("/api/v1{scope}/pods?limit=1")).await?;
    }
    Some(all)
}

/// Returns the number of objects of a list, by its first page.
async fn count(client: &ApiClient, path: &str) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        remaining_item_count: u64,
    }
    #[derive(Deserialize)]
    struct Page {
        metadata: Metadata,
        items: Vec<IgnoredAny>,
    }

    let request = Request::get(path).header(ACCEPT, "application/json").body(Body::empty()).ok()?;
    let answer = timeout(TIMEOUT, client.send(request)).await.ok()?.ok()?;
    let answered = timeout(TIMEOUT, Answered::read(answer, LONGEST_ANSWER)).await.ok()?.ok()?;
    let page: Page = serde_json::from_slice(answered.body()).ok()?;
    (answered.status() == StatusCode::OK)
        .then(|| page.metadata.remaining_item_count + page.items.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
    use kube_endpoint_testing::Cluster;

    use super::*;

    const LIMIT: Limit = Limit { what: "by its control group", bytes: 40_000_000, program: PROGRAM };

    #[test]
    fn a_limit_below_the_need_is_told_on_one_line() {
        let told = warning(LIMIT, Counts { services: 10_000, pods: 10_000 }).unwrap();
        insta::assert_snapshot!(told, @"the memory of this process is limited to 40 MB (by its control group), and 10000 Services and 10000 pods need about 53 MB: raise the limit, or the system ends the process (https://github.com/kube-endpoint-manager/kube-endpoint-manager/blob/main/docs/limits.md#memory-and-cpu has figures)");
        // It just fits.
        assert_eq!(warning(LIMIT, Counts { services: 1_000, pods: 24_000 }), None);
        assert!(warning(LIMIT, Counts { services: 1_000, pods: 24_001 }).is_some());
        // The measured figures of the documentation need no more than this says.
        assert_eq!(
            warning(Limit { bytes: 26_000_000, ..LIMIT }, Counts { services: 1_000, pods: 10_000 }),
            None
        );
        assert_eq!(
            warning(Limit { bytes: 52_000_000, ..LIMIT }, Counts { services: 3_000, pods: 30_000 }),
            None
        );
    }

    #[test]
    fn control_groups_of_both_versions_are_read() {
        let check = |groups: &str, files: &[(&str, &str)], want: Option<u64>| {
            let files: BTreeMap<&Path, &str> =
                files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
            let got = limit_of_groups(groups, |path| files.get(path).map(|text| (*text).to_owned()));
            assert_eq!(got, want, "{groups:?} {files:?}");
        };
        let (two, parent) = ("/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max");
        check("0::/a/b\n", &[(two, "64000000\n"), (parent, "max\n")], Some(64_000_000));
        check("0::/a/b\n", &[(two, "64000000\n"), (parent, "32000000\n")], Some(32_000_000));
        check("0::/a/b\n", &[(two, "max\n")], None);
        // In a container.
        check("0::/\n", &[("/sys/fs/cgroup/memory.max", "40000000\n")], Some(40_000_000));
        let one = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        let groups = "9:cpu,cpuacct:/x\n4:memory:/kubepods/pod1\n0::/\n";
        check(groups, &[(one, "40000000\n")], Some(40_000_000));
        check(groups, &[(one, "9223372036854771712\n")], None);
        check("9:cpu:/x\n", &[("/sys/fs/cgroup/memory.max", "1\n"), (one, "1\n")], None);
        check("", &[], None);
    }

    #[tokio::test]
    async fn the_server_counts_the_objects_of_the_namespaces() {
        let cluster = Cluster::new().node("a").service("web").pods("web", 3).service("api");
        let server = EmbeddedApiServer::builder().load(cluster.objects().iter().cloned()).build().unwrap();
        let client = ApiClient::for_tests(server.service());
        let counted = async |namespaces: &[&str]| {
            let namespaces = namespaces.iter().map(|it| (*it).to_owned()).collect();
            counts(&client, &Settings { namespaces, ..Settings::default() }).await.unwrap()
        };
        assert_eq!(counted(&[]).await, Counts { services: 2, pods: 3 });
        assert_eq!(counted(&["default", "other"]).await, Counts { services: 2, pods: 3 });
        assert_eq!(counted(&["other"]).await, Counts::default());
    }
}
