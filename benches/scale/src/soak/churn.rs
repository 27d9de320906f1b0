//! The changes of a cluster: of pods, of Services, and of Endpoints that users write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::objects::{Change, Objects, Pod};
use super::published::{Watching, manual_prefix};
use crate::api::Api;
use crate::workload::{self, Names, Workload};

/// How many changes are under way at a time.
const UNDER_WAY: usize = 64;

/// The time until a pod that was deleted is gone.
const KUBELET: Duration = Duration::from_secs(1);

/// How long a change goes on trying while the server restarts.
const PATIENCE: Duration = Duration::from_secs(300);

/// The addresses before they repeat.
const ADDRESSES: usize = 7_000_000;

/// Makes changes.
pub(crate) struct Churn {
    api: Api,
    workload: Workload,
    names: Names,
    watching: Arc<Watching>,
    objects: Mutex<Objects>,
}

impl Churn {
    pub(crate) fn new(api: Api, workload: Workload, names: Names, watching: Arc<Watching>) -> Arc<Self> {
        let objects = Mutex::new(Objects::new(&workload, &names));
        Arc::new(Self { api, workload, names, watching, objects })
    }

    /// Returns the numbers of changes so far, by kind.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        self.objects.lock().counts.clone()
    }

    /// Makes changes at a rate until a time, and waits for the last ones.
    pub(crate) async fn run(self: &Arc<Self>, seed: u64, rate: f64, until: Instant) -> anyhow::Result<()> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // After a restart of the server, the changes that could not be made come at once.
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
        let under_way = Arc::new(Semaphore::new(UNDER_WAY));
        let mut tasks = JoinSet::new();
        while Instant::now() < until {
            ticks.tick().await;
            let permit = under_way.clone().acquire_owned().await?;
            let waits = |pod: &str| self.watching.seen(|seen| seen.waiting.contains_key(pod));
            let Some(change) = self.objects.lock().choose(&mut random, waits) else { continue };
            let churn = self.clone();
            tasks.spawn(async move {
                let _permit = permit;
                churn.make(change).await
            });
            while let Some(done) = tasks.try_join_next() {
                done??;
            }
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Makes a pod unready or ready, which a slice has to show. From then on writes for the
    /// Services of the pod do not count.
    pub(crate) async fn flip_one(&self) -> anyhow::Result<()> {
        let pod = self.objects.lock().selected_pod();
        let pod = pod.context("each Service selects a part of its pods")?;
        let services = self.objects.lock().services_like(pod % self.workload.services, &self.names);
        self.watching.seen(|seen| seen.uncounted = services);
        self.make(Change::Flip(pod)).await
    }

    /// Makes a change. It tries again if the server restarts; each step may be repeated.
    async fn make(&self, change: Change) -> anyhow::Result<()> {
        let start = Instant::now();
        let number = self.objects.lock().next_number();
        let mut first_time = true;
        loop {
            match self.attempt(&change, number, first_time).await {
                Ok(kind) => {
                    *self.objects.lock().counts.entry(kind.to_owned()).or_default() += 1;
                    return Ok(());
                }
                Err(error) if start.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
            first_time = false;
        }
    }

    async fn attempt(
        &self,
        change: &Change,
        number: usize,
        first_time: bool,
    ) -> anyhow::Result<&'static str> {
        match change {
            Change::Flip(pod) => self.flip(*pod, first_time).await.map(|()| "readiness of a pod"),
            Change::Replace(pod) => self.replace(*pod, number, first_time).await.map(|()| "pod replaced"),
            Change::Selector(service) => self.selector(*service).await.map(|()| "selector of a Service"),
            Change::AddService(service) => {
                let name = format!("{}-x{number}", self.names.prefix);
                let namespace = self.workload.namespace_of_service(*service);
                let selector = workload::selector_of_service(*service);
                self.api
                    .create(&self.path(namespace, "services"), &workload::service(&name, selector))
                    .await?;
                self.objects.lock().extra.push((name, *service));
                Ok("Service created")
            }
            Change::RemoveService(name, service) => {
                let namespace = self.workload.namespace_of_service(*service);
                self.api.delete(&self.path(namespace, &format!("services/{name}")), None).await?;
                Ok("Service deleted")
            }
            Change::AddManual(namespace) => {
                let name = format!("{}{number}", manual_prefix(&self.names.prefix));
                let service = workload::service(&name, Value::Null);
                self.api.create(&self.path(*namespace, "services"), &service).await?;
                let mut endpoints = subsets(number);
                endpoints["metadata"] = json!({"name": name});
                self.api.create(&self.path(*namespace, "endpoints"), &endpoints).await?;
                self.objects.lock().manual.push((name, *namespace));
                Ok("Endpoints of a user created")
            }
            Change::EditManual(name, namespace) => {
                let path = self.path(*namespace, &format!("endpoints/{name}"));
                // Another change may have deleted them.
                let gone = [http::StatusCode::NOT_FOUND];
                self.api.call(http::Method::PATCH, &path, Some(&subsets(number)), &gone).await?;
                Ok("Endpoints of a user changed")
            }
            Change::RemoveManual(name, namespace) => {
                self.api.delete(&self.path(*namespace, &format!("endpoints/{name}")), None).await?;
                self.api.delete(&self.path(*namespace, &format!("services/{name}")), None).await?;
                Ok("Endpoints of a user deleted")
            }
        }
    }

    async fn flip(&self, pod: usize, first_time: bool) -> anyhow::Result<()> {
        let (name, ready) = {
            let objects = &mut *self.objects.lock();
            let chosen = &mut objects.pods[pod];
            (chosen.name.clone(), !chosen.ready)
        };
        self.expect(pod, &name, ready, first_time);
        let ready_status = if ready { "True" } else { "False" };
        let conditions = json!([{"type": "Ready", "status": ready_status, "lastTransitionTime": crate::clock::now_in_seconds()}]);
        let path = format!("{}/{name}/status", self.pods(pod));
        self.api.patch(&path, &json!({"status": {"conditions": conditions}})).await?;
        let chosen = &mut self.objects.lock().pods[pod];
        (chosen.ready, chosen.busy) = (ready, false);
        Ok(())
    }

    async fn replace(&self, pod: usize, number: usize, first_time: bool) -> anyhow::Result<()> {
        let old = self.objects.lock().pods[pod].name.clone();
        let name = format!("{}-p{pod}-{number}", self.names.prefix);
        let mut object = workload::pod(&self.workload, &self.names, pod, true);
        object["metadata"]["name"] = name.as_str().into();
        self.api.create(&self.pods(pod), &object).await?;
        self.expect(pod, &name, true, first_time);
        let address = workload::address(number % ADDRESSES, true);
        let status = workload::pod_status(&address, true, &crate::clock::now_in_seconds());
        self.api.patch(&format!("{}/{name}/status", self.pods(pod)), &status).await?;
        // The grace period begins, and the kubelet ends it.
        self.api.delete(&format!("{}/{old}", self.pods(pod)), None).await?;
        tokio::time::sleep(KUBELET).await;
        self.api.delete(&format!("{}/{old}", self.pods(pod)), Some(0)).await?;
        self.objects.lock().pods[pod] = Pod { name, ready: true, busy: false };
        Ok(())
    }

    /// Changes the selector so that it selects a part of the pods, or all again.
    async fn selector(&self, service: usize) -> anyhow::Result<()> {
        let is_of_service = |name: &str| {
            number_of(name, &self.names.prefix).is_some_and(|pod| pod % self.workload.services == service)
        };
        self.watching.seen(|seen| seen.waiting.retain(|name, _| !is_of_service(name)));
        let narrow = self.objects.lock().selectors[service].narrow;
        let team = if narrow { json!("t1") } else { Value::Null };
        let namespace = self.workload.namespace_of_service(service);
        let path = self.path(namespace, &format!("services/{}", self.names.service(service)));
        self.api.patch(&path, &json!({"spec": {"selector": {"team": team}}})).await?;
        self.objects.lock().selectors[service].busy = false;
        Ok(())
    }

    /// Begins to wait for a slice that shows a pod, if its Service certainly selects it. A change
    /// that is tried again may be in a slice already.
    fn expect(&self, pod: usize, name: &str, ready: bool, first_time: bool) {
        let selector = self.objects.lock().selectors[pod % self.workload.services];
        self.watching.seen(|seen| {
            if !first_time {
                seen.waiting.remove(name);
            } else if !selector.narrow && !selector.busy {
                seen.waiting.insert(name.to_owned(), (ready, Instant::now()));
            }
        });
    }

    fn pods(&self, pod: usize) -> String {
        self.path(self.workload.namespace_of_pod(pod), "pods")
    }

    fn path(&self, namespace: usize, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.names.namespace(&self.workload, namespace))
    }
}

/// Returns the number of a pod, which may be one that replaces another.
fn number_of(name: &str, prefix: &str) -> Option<usize> {
    let number = name.strip_prefix(prefix)?.strip_prefix("-p")?;
    number.split('-').next()?.parse().ok()
}

/// Returns Endpoints of a few addresses, which differ by the number.
fn subsets(number: usize) -> Value {
    let address =
        |at: usize| json!({"ip": format!("172.16.{}.{}", number / 250 % 250, (number + at) % 250 + 1)});
    let addresses: Vec<Value> = (0..2 + number % 4).map(address).collect();
    json!({"apiVersion": "v1", "kind": "Endpoints",
        "subsets": [{"addresses": addresses, "ports": [{"name": "http", "port": 8080}]}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_replaces_another_has_its_number() {
        let check = |name: &str, want| assert_eq!(number_of(name, "soak"), want, "{name}");
        check("soak-p12", Some(12));
        check("soak-p12-345", Some(12));
        check("soak-s12", None);
        check("other-p12", None);
    }

    #[test]
    fn endpoints_of_users_differ() {
        let addresses = |number| subsets(number)["subsets"][0]["addresses"].as_array().unwrap().clone();
        assert_eq!(addresses(4), [json!({"ip": "172.16.0.5"}), json!({"ip": "172.16.0.6"})]);
        assert_eq!(addresses(7).len(), 5);
    }
}
