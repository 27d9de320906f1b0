//! A headless Chromium that a test drives through chromedriver.
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kube_endpoint_integration_tests::processes::Process;
use kube_endpoint_integration_tests::programs::browser_programs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::page::webdriver::{Key, WebDriver};

/// How long a condition may take on a busy machine. The page looks for problems every 10 seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two checks of a condition.
const POLL: Duration = Duration::from_millis(50);

/// The colours that the user prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

/// A browser with one page. Dropping it removes everything of it, also if the test panics.
pub(crate) struct Browser {
    /// `None` until the browser has started.
    driver: Option<WebDriver>,
    chromedriver: Process,
}

impl Browser {
    /// Starts a browser. Its profile and its log are in `folder`.
    pub(crate) async fn start(folder: &Path) -> Self {
        let (chromium, chromedriver) = browser_programs().unwrap();
        let mut command = Command::new(chromedriver);
        command.arg("--port=0");
        let chromedriver =
            Process::start("chromedriver", command, &folder.join("chromedriver.log"), None).unwrap();
        let mut browser = Self { driver: None, chromedriver };
        let port = browser.port().await;
        let arguments = [
            &*format!("--user-data-dir={}", folder.join("profile").display()),
            "--headless=new",
            // Chromium refuses to run as root with its sandbox. The page comes from this test.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            // This makes smaller pictures.
            "--disable-lcd-text",
            "--no-first-run",
            // Names other than that of the manager's listener do not exist: the page must not need
            // them.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ];
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": chromium, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        browser.driver = Some(WebDriver::start(port, wanted).await);
        browser
    }

    async fn port(&mut self) -> u16 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = self.chromedriver.log();
            let port = log.split_once("successfully on port ").and_then(|(_, rest)| rest.split_once('.'));
            if let Some(port) = port.and_then(|(port, _)| port.parse().ok()) {
                return port;
            }
            assert!(
                Instant::now() < deadline && self.chromedriver.exit_status().is_none(),
                "chromedriver names no port:\n{log}"
            );
            tokio::time::sleep(POLL).await;
        }
    }

    pub(crate) fn driver(&self) -> &WebDriver {
        self.driver.as_ref().unwrap()
    }

    /// Ends the browser.
    pub(crate) async fn quit(self) {
        self.driver().quit().await;
    }

    /// Loads an address.
    pub(crate) async fn open(&self, address: &str) {
        self.driver().open(address).await;
    }

    /// Returns the value of a JavaScript expression.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        self.driver().value(expression).await
    }

    /// Returns the value of an expression that is a text.
    pub(crate) async fn text(&self, expression: &str) -> String {
        let value = self.value(expression).await;
        value.as_str().unwrap_or_else(|| panic!("{expression}: {value}")).to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) async fn wait_until(&self, what: &str, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.value(expression).await != Value::Bool(true) {
            if Instant::now() > deadline {
                let shown = self.text("document.body.innerText").await;
                panic!(
                    "not within {PATIENCE:?}: {what}\nconsole: {:#?}\npage:\n{shown}",
                    self.console().await
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Presses keys, one after the other, in whatever has the focus.
    pub(crate) async fn press(&self, keys: &[Key]) {
        let characters = keys.iter().filter_map(|key| char::from_u32(*key as u32));
        self.driver().type_characters(characters).await;
    }

    /// Types a text into whatever has the focus.
    pub(crate) async fn type_text(&self, text: &str) {
        self.driver().type_characters(text.chars()).await;
    }

    /// Returns the tag and the text or label of the focused element.
    pub(crate) async fn focused(&self) -> String {
        let name = "(one => `${one.tagName.toLowerCase()} ${(one.getAttribute('aria-label') || one.placeholder || one.innerText || '').trim()}`)";
        self.text(&format!("{name}(document.activeElement)")).await
    }

    /// Sets the size of the window, and the preferences that CSS asks for.
    pub(crate) async fn emulate(&self, width: u32, height: u32, scheme: Scheme, reduced_motion: bool) {
        let scheme = if scheme == Scheme::Dark { "dark" } else { "light" };
        let motion = if reduced_motion { "reduce" } else { "no-preference" };
        self.driver()
            .devtools(
                "Emulation.setDeviceMetricsOverride",
                json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}),
            )
            .await;
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}]);
        self.driver().devtools("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// Returns the entries of the console since the last call, including errors of the network and
    /// of CSP.
    pub(crate) async fn console(&self) -> Vec<String> {
        let entries = self.driver().console().await;
        entries.iter().map(|entry| format!("{}: {}", entry["level"], entry["message"])).collect()
    }

    /// Returns a picture of the whole page, as PNG.
    pub(crate) async fn picture(&self, width: u32, scheme: Scheme) -> Vec<u8> {
        self.emulate(width, 800, scheme, true).await;
        let height = self.value("document.documentElement.scrollHeight").await.as_u64().unwrap();
        self.emulate(width, u32::try_from(height).unwrap(), scheme, true).await;
        self.driver().picture().await
    }

    /// Returns the processes of chromedriver and the browser.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.chromedriver.id()];
        let parents = parents();
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(id, _)| *id));
            at += 1;
        }
        found
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let processes = self.processes();
        // Dropping the field kills the process of chromedriver, which would leave the browser
        // behind.
        for id in processes.iter().skip(1) {
            if let Some(process) = i32::try_from(*id).ok().and_then(Pid::from_raw) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }
}

/// Returns the running processes, each with its parent. It leaves out ended processes that nobody
/// has waited for.
pub(crate) fn parents() -> BTreeMap<u32, u32> {
    let ids = read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| {
        // `1234 (the name) S 1 …`: state and parent. A name can contain anything.
        let stat = read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        Some((id, fields.next()?.parse().ok()?)).filter(|_| !matches!(state, "Z" | "X"))
    })
    .collect()
}
