//! Plays the hand-overs, and judges them.
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use kube_endpoint_controllers::{ControllerName, Gates};
use kube_endpoint_integration_tests::left_behind::{ALL_CONTROLLERS, read};
use kube_endpoint_integration_tests::processes::{
    Line, Scene, Size, needless, objects as objects_of_load, worst, writes_of_a_new_manager,
};
use kube_endpoint_integration_tests::running_manager::settings;
use rustix::process::Signal;

use crate::builds::Builds;
use crate::load::{Load, POD, objects, services_of};

/// The time limit for the end of a process.
const TO_END: Duration = Duration::from_secs(20);
/// How long nobody leads if no other process stands by, besides the start of the next one.
const WITHOUT_LEADER: Duration = Duration::from_secs(2);
/// How long the outputs may take to become those of a plan from scratch.
const TO_SETTLE: Duration = Duration::from_secs(20);

/// The way in which a leader ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It gets SIGTERM, and releases the Lease to a standby.
    Released,
    /// It gets SIGTERM, and the next process starts when it has ended.
    NobodyStandsBy,
    /// It gets SIGKILL.
    Killed,
    /// It gets SIGSTOP, and SIGCONT when another process leads.
    Suspended,
}

impl End {
    const ALL: [Self; 4] = [Self::Released, Self::NobodyStandsBy, Self::Killed, Self::Suspended];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Released => "SIGTERM",
            Self::NobodyStandsBy => "SIGTERM, nobody stands by",
            Self::Killed => "SIGKILL",
            Self::Suspended => "SIGSTOP and SIGCONT",
        }
    }
}

/// The measurements of a hand-over.
pub(crate) struct Row {
    pub(crate) end: End,
    /// True if this version takes over.
    pub(crate) to_this: bool,
    pub(crate) figures: Option<Figures>,
    /// A sentence for each thing that went wrong.
    pub(crate) faults: Vec<String>,
}

pub(crate) struct Figures {
    /// The time from the signal to the new leader's first write of an output.
    pub(crate) first_write: Duration,
    /// The longest time that a change of a pod waited for its outputs.
    pub(crate) longest_wait: Duration,
    /// Number of the new leader's successful writes of outputs.
    pub(crate) writes: usize,
    /// Its writes that no change explains.
    pub(crate) needless: usize,
    /// Its writes that the server refused.
    pub(crate) refused: usize,
    /// Number of writes of a new process of this version on what the new leader has left.
    pub(crate) this_would_write: usize,
}

/// Plays each end both ways, in one chain: each process starts on what the other version left.
/// After a hand-over that went wrong the chain begins anew.
pub(crate) async fn hand_overs(builds: &Builds) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut scene = None;
    for end in End::ALL {
        for to_this in [true, false] {
            println!("{}, to {}", end.name(), builds.get(to_this).name);
            let play = async {
                let scene = match &mut scene {
                    Some(scene) => scene,
                    none => none.insert(start(builds, !to_this).await),
                };
                hand_over(builds, scene, end, to_this).await
            };
            let played = AssertUnwindSafe(Box::pin(play)).catch_unwind().await;
            let row = played.unwrap_or_else(|panic| Row {
                end,
                to_this,
                figures: None,
                faults: vec![message(&*panic)],
            });
            if !row.faults.is_empty()
                && let Some(scene) = scene.take()
            {
                println!("{}", scene.last_lines(30));
            }
            rows.push(row);
        }
    }
    rows
}

/// Returns a scene in which a process leads, without load.
async fn start(builds: &Builds, leader_is_this: bool) -> Scene {
    let size = Size::SMALL;
    let mut all = objects_of_load(size.services, size.pods_per_service);
    all.extend(objects(builds));
    let mut scene = Box::pin(Scene::start_on(&builds.apiserver, size, all)).await;
    start_replica(builds, &mut scene, leader_is_this);
    scene.settled().await;
    scene
}

fn start_replica(builds: &Builds, scene: &mut Scene, this: bool) {
    let all: &[&str] = if builds.both_know("EndpointSelectors") { &[ALL_CONTROLLERS] } else { &[] };
    scene.start_replica_of(&builds.get(this).program, all);
}

async fn hand_over(builds: &Builds, scene: &mut Scene, end: End, to_this: bool) -> Row {
    let before = scene.mark();
    scene.start_flips();
    let load = Load::start(scene.client.clone());
    if end != End::NobodyStandsBy {
        start_replica(builds, scene, to_this);
    }
    scene.wait_until_all_stand_by().await;
    tokio::time::sleep(scene.size.steady).await;

    let mark = scene.mark();
    let signalled = scene.lines().iter().map(Line::time).max().unwrap_or_default();
    let mut faults = Vec::new();
    let ended = scene.replicas[0].user.clone();
    match end {
        End::Released | End::NobodyStandsBy => {
            scene.signal(0, Signal::TERM);
            let status = scene.replicas[0].process.wait(TO_END).await;
            if !status.success() {
                faults.push(format!("the former leader ended with {status}"));
            }
        }
        End::Killed => drop(scene.signal(0, Signal::KILL)),
        End::Suspended => drop(scene.signal(0, Signal::STOP)),
    }
    if end == End::NobodyStandsBy {
        tokio::time::sleep(WITHOUT_LEADER).await;
        start_replica(builds, scene, to_this);
    }
    let leader = scene.leader_after(&ended).await;
    let user = scene.replicas[leader].user.clone();
    if end == End::Suspended {
        let others = scene.mark();
        scene.signal(0, Signal::CONT);
        let status = scene.replicas[0].process.wait(TO_END).await;
        if status.success() {
            faults.push("the former leader ended without an error".to_owned());
        }
        faults.extend(late_writes(&scene.lines()[others..], &ended));
    }
    tokio::time::sleep(scene.size.steady * 2).await;
    load.stop().await;
    scene.rest().await;
    scene.remove(0);
    scene.assert_one_writer_at_a_time();

    let this_would_write = this_would_write(builds, scene).await;
    let mut answers = scene.answers_since(mark);
    // The pod of the other load has several Services.
    answers.retain(|answer| answer.service != POD);
    let longest_wait = worst(&answers);
    let lines = scene.lines();
    let needless = needless(lines, mark, &user, services_of);
    let by_leader = |line: &&Line| line.user == user && line.writes_output();
    let writes: Vec<&Line> = lines[before..].iter().filter(by_leader).collect();
    let first = writes.iter().map(|line| line.arrival()).min().unwrap_or_default();
    let succeeded = writes.iter().filter(|line| line.succeeded()).count();
    let figures = Figures {
        first_write: first.saturating_sub(signalled),
        longest_wait,
        writes: succeeded,
        needless: needless.len(),
        refused: writes.len() - succeeded,
        this_would_write: this_would_write.len(),
    };
    if matches!(end, End::Released | End::NobodyStandsBy) && !needless.is_empty() {
        faults.push(format!("writes that were not needed: {}", few(needless.iter().map(|it| object(it)))));
    }
    if to_this && !this_would_write.is_empty() {
        faults.push(format!("outputs are not those of a new process: {}", few(this_would_write)));
    }
    // On a busy machine too, a standby takes a released Lease before it would have expired.
    let lease = scene.size.lease;
    let limit = match end {
        End::Released => Some(lease.duration),
        End::NobodyStandsBy => None,
        End::Killed | End::Suspended => Some(lease.duration * 2),
    };
    if let Some(limit) = limit.filter(|limit| longest_wait > *limit) {
        faults.push(format!("a change waited {longest_wait:.2?}, and {limit:?} is the limit"));
    }
    Row { end, to_this, figures: Some(figures), faults }
}

/// Returns the writes of a new process of this version on the objects of the server, once there
/// are none or the leader has had time enough.
async fn this_would_write(builds: &Builds, scene: &Scene) -> Vec<String> {
    let mut settings = settings(Gates::default());
    if builds.both_know("EndpointSelectors") {
        settings.controllers = ControllerName::ALL.to_vec();
    }
    let deadline = Instant::now() + TO_SETTLE;
    loop {
        let writes = match read(&scene.client).await {
            Ok(objects) => writes_of_a_new_manager(objects, settings.clone()),
            Err(error) => vec![error.to_string()],
        };
        if writes.is_empty() || Instant::now() > deadline {
            return writes;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Returns a sentence if a former leader wrote when another process led. An event may say that it
/// has stopped leading, and the server refuses its renewal of the Lease.
fn late_writes(lines: &[Line], user: &str) -> Option<String> {
    let is_late = |line: &&Line| {
        line.user == user
            && line.is_write()
            && line.resource != "events"
            && (line.resource != "leases" || line.succeeded())
    };
    let late: Vec<String> = lines.iter().filter(is_late).map(object).collect();
    (!late.is_empty()).then(|| format!("the former leader wrote beside the new one: {}", few(late)))
}

fn object(line: &Line) -> String {
    format!("{} {}/{}", line.verb, line.resource, line.name)
}

/// Returns the first of some texts, and their number.
fn few(texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<String> = texts.into_iter().collect();
    format!("{} ({})", texts[..texts.len().min(5)].join(", "), texts.len())
}

/// Returns the first line of a panic's message.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
    text.lines().next().unwrap_or_default().to_owned()
}
