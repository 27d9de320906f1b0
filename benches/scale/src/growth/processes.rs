//! CPU and memory of a controller as a process, on an embedded API server for each size.

use std::time::Duration;

use anyhow::Context;

use crate::child::program_name;
use crate::fill::fill;
use crate::measure::{Plan, Work, round};
use crate::options::GrowthOptions;
use crate::plot::{Chart, Line};
use crate::report::{Figures, Subject};
use crate::server::{Server, Transport};
use crate::workload::{Names, Workload};

const SERVICES: [usize; 5] = [100, 300, 1_000, 3_000, 10_000];
const PODS: [usize; 6] = [100, 300, 1_000, 5_000, 20_000, 50_000];
const PODS_OF_MEMORY: [usize; 5] = [1_000, 5_000, 20_000, 50_000, 150_000];

/// Pods for each Service and for each node at Kubernetes' limits.
const PODS_FOR_A_SERVICE: usize = 15;
const PODS_FOR_A_NODE: usize = 30;

/// The parameters of the measurements.
pub(super) struct Measured<'a> {
    /// The command of the controller.
    pub(super) command: &'a str,
    pub(super) options: &'a GrowthOptions,
}

/// Returns 10 Services with 10 pods each, whose readiness changes.
fn changing() -> Workload {
    Workload {
        services: 10,
        services_with_pods: 10,
        pods: 100,
        big: 0,
        own_big: false,
        idle_pods: 0,
        nodes: 10,
        namespaces: 1,
        unique_labels: false,
    }
}

impl Measured<'_> {
    /// Measures the CPU with more and more Services without pods beside those that change.
    pub(super) async fn cpu_by_services(&self) -> anyhow::Result<Chart> {
        let sizes = SERVICES.map(|services| (services, Workload { services, ..changing() }));
        let line = self.line("CPU", &sizes, self.options.flips, "churn_cpu_ms_per_flip", 1.0, 0.0).await?;
        Ok(Chart {
            name: "cpu-by-services".into(),
            title: "CPU of one change of readiness, by the number of Services".into(),
            x: "Services in the namespace".into(),
            x_is_linear: false,
            y: "milliseconds".into(),
            y_is_logarithmic: false,
            lines: vec![line],
        })
    }

    /// Measures the CPU with more and more pods without a Service beside those that change.
    pub(super) async fn cpu_by_pods(&self) -> anyhow::Result<Chart> {
        let sizes = PODS.map(|pods| (pods, Workload { idle_pods: pods - changing().pods, ..changing() }));
        let line = self.line("CPU", &sizes, self.options.flips, "churn_cpu_ms_per_flip", 1.0, 0.0).await?;
        Ok(Chart {
            name: "cpu-by-pods".into(),
            title: "CPU of one change of readiness, by the number of pods".into(),
            x: "pods in the namespace".into(),
            x_is_linear: false,
            y: "milliseconds".into(),
            y_is_logarithmic: false,
            lines: vec![line],
        })
    }

    /// Measures the memory in clusters of the proportions of Kubernetes' limits, minus the memory
    /// of the process in a nearly empty cluster.
    pub(super) async fn memory_by_pods(&self) -> anyhow::Result<Chart> {
        let empty = Workload { services: 1, services_with_pods: 1, pods: 1, nodes: 1, ..changing() };
        let base = self.median(&empty, 0, "cold_peak_mb").await?;
        let mut lines = Vec::new();
        for (name, unique_labels) in
            [("labels that the pods of a Service share", false), ("a label of its own for each pod", true)]
        {
            let sizes = PODS_OF_MEMORY.map(|pods| {
                let services = pods / PODS_FOR_A_SERVICE;
                let sizes = Workload { services, services_with_pods: services, pods, ..changing() };
                (pods, Workload { nodes: pods / PODS_FOR_A_NODE, unique_labels, ..sizes })
            });
            lines.push(self.line(name, &sizes, 0, "cold_peak_mb", 1024.0, base).await?);
        }
        lines.iter_mut().flat_map(|line| &mut line.points).for_each(|(pods, kib)| *kib /= *pods);
        Ok(Chart {
            name: "memory-by-pods".into(),
            title: "Peak memory for each pod, without that of an empty cluster".into(),
            x: "pods".into(),
            x_is_linear: false,
            y: "KiB for each pod".into(),
            y_is_logarithmic: false,
            lines,
        })
    }

    /// Returns a figure at each size, minus `base` and times a factor.
    async fn line(
        &self,
        name: &str,
        sizes: &[(usize, Workload)],
        flips: usize,
        key: &str,
        factor: f64,
        base: f64,
    ) -> anyhow::Result<Line> {
        let mut points = Vec::new();
        for (size, workload) in sizes.iter().filter(|(size, _)| *size <= self.options.limit) {
            let value = self.median(workload, flips, key).await?;
            points.push((*size as f64, factor * (value - base)));
        }
        Ok(Line { name: name.to_owned(), points })
    }

    /// Returns the median of a figure over all rounds.
    async fn median(&self, workload: &Workload, flips: usize, key: &str) -> anyhow::Result<f64> {
        let plan = Plan {
            work: Work::Churn,
            flips,
            rate: self.options.rate,
            watchers: 1,
            settle: Duration::from_secs(2),
            patience: Duration::from_secs(900),
            seed: 7,
        };
        let server = Server::embedded(Transport::Plain).await?;
        let names = Names { prefix: "scale".into() };
        let mut filled = fill(&server.api, workload, &names).await?;
        let mut rounds: Vec<Figures> = Vec::new();
        for _ in 0..self.options.rounds {
            let name = program_name(self.command);
            let measured = round(&server, &mut filled, &plan, (&name, self.command));
            rounds.push(Box::pin(measured).await?);
        }
        let subject = Subject { name: String::new(), command: String::new(), rounds };
        subject.median(key).with_context(|| format!("{key} was not measured"))
    }
}
