//! Runs tests that need a program that a machine may lack: kubectl, a browser, git. If it is
//! missing, the harness ignores them, and the line of each says what to install. The harness of the
//! standard library cannot ignore a test when it runs, so the test programs that have such tests
//! have none (`harness = false`), and list their tests in `main`:
//!
//! ```no_run
//! # fn a_test() {}
//! use kube_endpoint_integration_tests::{programs, tests};
//!
//! fn main() -> std::process::ExitCode {
//!     programs::run([tests!(programs::kubectl => a_test)])
//! }
//! ```
//!
//! An unlisted function is dead code, which Clippy reports. With `KUBE_ENDPOINT_REQUIRE_PROGRAMS=1`
//! in the environment a test fails whose program is missing; the CI gate sets it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Trial};

/// Makes the tests fail whose programs are missing, if its value is not empty.
const REQUIRE: &str = "KUBE_ENDPOINT_REQUIRE_PROGRAMS";

/// The oldest minor version of kubectl 1.x that renders the kustomizations in `deploy/` without a
/// warning.
const RENDERING_KUBECTL: u32 = 27;

/// The reason why tests cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A program is missing; the text says what to install.
    Program(String),
    /// A gate may lack it, and passes: the environment names no cluster for the tests, or Helm's
    /// renderer is missing. The text says what to set or to install.
    Optional(String),
}

/// Tests that need the same.
pub type Tests = Vec<Trial>;

/// A function that returns an error if something is missing for a test.
pub type Needs = fn() -> Result<(), Missing>;

/// Makes the list of a program's tests. A test is a function without arguments, with a path of its
/// own. The first part of the list says what the tests need; `async` before a test runs it on a
/// runtime of tokio's with several threads.
#[macro_export]
macro_rules! tests {
    ($needs:expr => $(async $test:path),+ $(,)?) => {{
        let missing = $needs();
        vec![$($crate::programs::test(concat!(module_path!(), "::", stringify!($test)), &missing, || {
            $crate::programs::block_on($test())
        })),+]
    }};
    ($needs:expr => $($test:path),+ $(,)?) => {{
        let missing = $needs();
        vec![$($crate::programs::test(concat!(module_path!(), "::", stringify!($test)), &missing, $test)),+]
    }};
}

/// Makes the test at `path`, which the harness ignores or fails if something is missing. Its name
/// is the path without the program's. [`tests!`](crate::tests) calls it.
pub fn test(path: &str, missing: &Result<(), Missing>, run: impl FnOnce() + Send + 'static) -> Trial {
    let is_required = std::env::var_os(REQUIRE).is_some_and(|value| !value.is_empty());
    let turn = Turn::new(missing, is_required);
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    Trial::ignorable_test(name, move || match turn {
        Turn::Run => {
            run();
            Ok(Completion::Completed)
        }
        Turn::Ignore(why) => Ok(Completion::ignored_with(why)),
        Turn::Fail(why) => Err(why.into()),
    })
}

/// The decision about a test.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Run,
    Ignore(String),
    Fail(String),
}

impl Turn {
    fn new(missing: &Result<(), Missing>, is_required: bool) -> Self {
        match missing {
            Ok(()) => Self::Run,
            Err(Missing::Program(what)) if is_required => Self::Fail(format!("{what}; {REQUIRE} is set")),
            Err(Missing::Program(what) | Missing::Optional(what)) => Self::Ignore(what.clone()),
        }
    }
}

/// Runs the tests that the arguments of the program select, and prints what the harness of the
/// standard library prints.
pub fn run(tests: impl IntoIterator<Item = Tests>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), tests.into_iter().flatten().collect()).exit_code()
}

/// Runs a test on a runtime of its own.
///
/// # Panics
///
/// If the system refuses a thread.
pub fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.unwrap_or_else(|error| panic!("no runtime: {error}")).block_on(test);
}

/// The needs of tests that run everywhere.
///
/// # Errors
///
/// This never fails.
pub const fn nothing() -> Result<(), Missing> {
    Ok(())
}

/// Checks for kubectl, of any version since 1.20: the program that `KUBECTL` names, or the one in
/// `PATH`.
///
/// # Errors
///
/// [`Missing`] if there is no kubectl.
pub fn kubectl() -> Result<(), Missing> {
    let needed =
        "kubectl is missing: install it (Debian: kubernetes-client), or set KUBECTL to the path of one";
    find(&kubectl_program()).map(|_| ()).ok_or_else(|| Missing::Program(needed.to_owned()))
}

/// Checks for a kubectl that renders the kustomizations in `deploy/`.
///
/// # Errors
///
/// [`Missing`] if there is no kubectl, or it is too old.
pub fn kubectl_that_renders() -> Result<(), Missing> {
    kubectl()?;
    let output = Command::new(kubectl_program()).args(["version", "--client", "--output=json"]).output();
    let found = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    check_kubectl(&found)
}

/// Returns the program that `KUBECTL` names, or `kubectl`.
pub fn kubectl_program() -> OsString {
    std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into())
}

/// Checks the output of `kubectl version --client --output=json`.
fn check_kubectl(version: &str) -> Result<(), Missing> {
    let version: serde_json::Value = serde_json::from_str(version).unwrap_or_default();
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    let number = minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>();
    if number.as_ref().is_ok_and(|number| *number >= RENDERING_KUBECTL) {
        return Ok(());
    }
    let found = number.map_or_else(|_| "of unknown version".to_owned(), |number| format!("1.{number}"));
    Err(Missing::Program(format!(
        "kubectl {found} is too old: install 1.{RENDERING_KUBECTL} or later, or set KUBECTL to the path of one"
    )))
}

/// Checks for Chromium and chromedriver; see [`browser_programs`].
///
/// # Errors
///
/// [`Missing`] if one of them is missing.
pub fn browser() -> Result<(), Missing> {
    let needed = "chromium or chromedriver is missing: install both (Debian: chromium, chromium-driver)";
    browser_programs().map(|_| ()).ok_or_else(|| Missing::Program(needed.to_owned()))
}

/// Returns the paths of Chromium, under one of its names, and of chromedriver.
pub fn browser_programs() -> Option<(PathBuf, PathBuf)> {
    let found = |name: &&str| find(&OsString::from(name));
    let chromium = ["chromium", "chromium-browser", "google-chrome"].iter().find_map(found);
    chromium.zip(found(&"chromedriver"))
}

/// Checks for the programs that run `deploy/build-with-profile`.
///
/// # Errors
///
/// [`Missing`] if one of them is missing.
pub fn bash_and_awk() -> Result<(), Missing> {
    ["bash", "awk"].into_iter().try_for_each(program)
}

/// Checks for the programs that run `release/publish`.
///
/// # Errors
///
/// [`Missing`] if one of them is missing.
pub fn bash_git_and_jq() -> Result<(), Missing> {
    ["bash", "git", "jq"].into_iter().try_for_each(program)
}

/// Checks for Helm's renderer, a package of Python's.
///
/// # Errors
///
/// [`Missing`] if Python or the package is missing.
pub fn helm() -> Result<(), Missing> {
    let imported = Command::new("python3").args(["-c", "import helm_python"]).output();
    let needed = "Helm's renderer is missing: 'pip install --require-hashes -r integration-tests/helm.txt'";
    match imported {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Missing::Optional(needed.to_owned())),
    }
}

/// Checks for git.
///
/// # Errors
///
/// [`Missing`] if there is no git.
pub fn git() -> Result<(), Missing> {
    program("git")
}

/// Checks for curl.
///
/// # Errors
///
/// [`Missing`] if there is no curl.
pub fn curl() -> Result<(), Missing> {
    program("curl")
}

/// Checks for a program whose package has its name.
fn program(name: &str) -> Result<(), Missing> {
    let needed = || Missing::Program(format!("{name} is missing: install {name}"));
    find(&name.into()).map(|_| ()).ok_or_else(needed)
}

/// Returns the path of the program that the system would start: a path itself, or a name in one of
/// the folders of `PATH`.
fn find(program: &OsString) -> Option<PathBuf> {
    find_in(program, &std::env::var_os("PATH").unwrap_or_default())
}

fn find_in(program: &OsString, path: &OsString) -> Option<PathBuf> {
    let given = PathBuf::from(program);
    if given.components().count() > 1 {
        return is_executable(&given).then_some(given);
    }
    std::env::split_paths(path).map(|folder| folder.join(&given)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_test_without_its_program_is_ignored_and_fails_where_programs_are_required() {
        let program = Err(Missing::Program("x is missing".to_owned()));
        let cluster = Err(Missing::Optional("X names no cluster".to_owned()));
        let ignored = |why: &str| Turn::Ignore(why.to_owned());
        assert_eq!(Turn::new(&Ok(()), false), Turn::Run);
        assert_eq!(Turn::new(&Ok(()), true), Turn::Run);
        assert_eq!(Turn::new(&program, false), ignored("x is missing"));
        let failed = "x is missing; KUBE_ENDPOINT_REQUIRE_PROGRAMS is set".to_owned();
        assert_eq!(Turn::new(&program, true), Turn::Fail(failed));
        assert_eq!(Turn::new(&cluster, false), ignored("X names no cluster"));
        assert_eq!(Turn::new(&cluster, true), ignored("X names no cluster"));
    }

    #[test]
    fn a_program_is_an_executable_file_of_a_folder_of_path_or_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, mode| {
            let path = folder.path().join(name);
            write(&path, "").unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let (tool, _text) = (file("tool", 0o755), file("text", 0o644));
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        let check = |program: &str, want: Option<&Path>| {
            assert_eq!(find_in(&program.into(), &path).as_deref(), want, "{program}");
        };
        check("tool", Some(&tool));
        check("text", None);
        check("absent", None);
        check(tool.to_str().unwrap(), Some(&tool));
        check("./tool", None);
        assert_eq!(find_in(&"tool".into(), &OsString::new()), None, "there is no PATH");
    }

    #[test]
    fn a_kubectl_that_is_too_old_is_named_with_its_version() {
        let of = |minor: &str| check_kubectl(&format!(r#"{{"clientVersion": {{"minor": "{minor}"}}}}"#));
        assert_eq!(of("27"), Ok(()));
        assert_eq!(of("36+"), Ok(()));
        let refused = |found: Result<(), Missing>, what: &str| {
            let text = format!(
                "kubectl {what} is too old: install 1.27 or later, or set KUBECTL to the path of one"
            );
            assert_eq!(found, Err(Missing::Program(text)));
        };
        refused(of("20"), "1.20");
        refused(check_kubectl("not JSON"), "of unknown version");
    }
}
