//! Runs the plugin for Windows under Wine. `KUBECTL_DIAGNOSE_SVC_EXE` names the program, which
//! mingw links on Linux; without it, without Wine or without mingw the harness ignores the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, ListenOptions, User};
use kube_endpoint_integration_tests::programs::{Missing, Tests};
use kube_endpoint_integration_tests::tests;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The variable that names the program.
const PROGRAM: &str = "KUBECTL_DIAGNOSE_SVC_EXE";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";

pub(crate) fn tests() -> Vec<Tests> {
    vec![
        tests!(needs => help_and_completion_are_printed, files_have_backslashes_and_the_line_ends_of_windows),
        tests!(needs =>
            async the_kubeconfig_is_that_of_the_profile,
            async a_credential_plugin_is_a_program_of_windows,
        ),
    ]
}

fn needs() -> Result<(), Missing> {
    let needed = |what: &str| Missing::Optional(what.to_owned());
    if std::env::var_os(PROGRAM).is_none() {
        return Err(needed(
            "KUBECTL_DIAGNOSE_SVC_EXE names no program: build one with `cargo build --target x86_64-pc-windows-gnu -p kubectl-diagnose-svc`",
        ));
    }
    wine().ok_or_else(|| needed("wine is missing: install it (Debian: wine64)"))?;
    let has_compiler = Command::new(COMPILER).arg("--version").output().is_ok();
    has_compiler
        .then_some(())
        .ok_or_else(|| needed("mingw is missing: install it (Debian: gcc-mingw-w64-x86-64)"))
}

/// Returns the program that runs programs of Windows. Debian has it outside of `PATH`.
fn wine() -> Option<&'static str> {
    let runs =
        |program: &&str| Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success());
    ["wine64", "/usr/lib/wine/wine64", "wine"].into_iter().find(runs)
}

/// A system of its own, with the plugin on drive C.
struct Windows {
    folder: TempDir,
}

impl Windows {
    fn new() -> Self {
        let windows = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(windows.at("")).unwrap();
        fs::copy(std::env::var_os(PROGRAM).unwrap(), windows.at("kubectl-diagnose_svc.exe")).unwrap();
        // Wine before 9 lacks the random numbers that Rust's standard library takes from Windows.
        windows.compile(
            "bcryptprimitives.dll",
            "#include <windows.h>\nBOOLEAN NTAPI SystemFunction036(PVOID, ULONG);\n\
             __declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *b, SIZE_T n) { return SystemFunction036(b, (ULONG)n); }\n",
            &["-shared"],
        );
        windows
    }

    /// Returns a path in the folder of the program.
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("drive_c/plugin").join(name)
    }

    fn compile(&self, name: &str, source: &str, arguments: &[&str]) {
        let file = self.at("source.c");
        fs::write(&file, source).unwrap();
        let mut compiler = Command::new(COMPILER);
        compiler.args(arguments).arg("-o").arg(self.at(name)).arg(file).arg("-ladvapi32");
        assert!(compiler.status().unwrap().success(), "{name}");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut wine = Command::new(wine().unwrap());
        wine.arg("kubectl-diagnose_svc.exe").args(arguments).current_dir(self.at(""));
        wine.env("WINEPREFIX", self.folder.path()).env("WINEDEBUG", "-all").env_remove("KUBECONFIG");
        // It would offer to download these.
        wine.env("WINEDLLOVERRIDES", "mscoree,mshtml=").output().unwrap()
    }

    /// Returns what a command prints, and its exit code.
    fn told(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (text, output.status.code())
    }
}

fn help_and_completion_are_printed() {
    let windows = Windows::new();
    let (help, code) = windows.told(&["--help"]);
    assert!(code == Some(0) && help.contains("Usage: kubectl diagnose-svc [OPTIONS] <COMMAND>"), "{help}");
    let (script, _) = windows.told(&["completion", "powershell"]);
    assert!(script.contains("Register-ArgumentCompleter") && script.contains("'explain'"), "{script}");
    let (version, _) = windows.told(&["--version"]);
    assert!(version.starts_with("kubectl-diagnose-svc "), "{version}");
    let (error, code) = windows.told(&["lint"]);
    assert!(code == Some(2) && error.contains(r".kube\config does not exist"), "{error}");
}

const MANIFEST: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec:\n  selector: {app: web}\n  ports: [{port: 80}]\n\
    ---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-1, namespace: shop, labels: {app: wbe}}\nspec:\n  containers: [{name: web, image: web:1}]\n";

fn files_have_backslashes_and_the_line_ends_of_windows() {
    let windows = Windows::new();
    fs::create_dir(windows.at("dump")).unwrap();
    fs::write(windows.at("dump/all.yaml"), MANIFEST.replace('\n', "\r\n")).unwrap();
    for file in [r"dump\all.yaml", r"C:\plugin\dump\all.yaml", "dump/all.yaml", "dump"] {
        let (told, code) = windows.told(&["explain", "web", "-n", "shop", "-f", file]);
        assert!(
            code == Some(0) && told.contains("DOWN  Service shop/web") && told.contains("wbe"),
            "{file}: {code:?} {told}"
        );
    }
    let (told, code) = windows.told(&["explain", "web", "-f", r"dump\none.yaml"]);
    assert!(code == Some(2) && told.contains(r"dump\none.yaml"), "{told}");
}

/// A server with a Service without pods, and its kubeconfig.
async fn server() -> (EmbeddedApiServer, kube_endpoint_embedded_apiserver::Listener, String) {
    #[expect(clippy::disallowed_methods, reason = "clients compare the certificate with the system's time")]
    let now = jiff::Timestamp::now();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let user = User { name: "jane".to_owned(), groups: Vec::new() };
    let server =
        EmbeddedApiServer::builder().start_time(now).load([service]).token("secret", user).require_token();
    let server = server.build().unwrap();
    let options = ListenOptions { allow_any_address: false, tls: true };
    let listener = server.listen_with("127.0.0.1:0".parse().unwrap(), options).await.unwrap();
    let kubeconfig = server.kubeconfig_of(&listener);
    (server, listener, kubeconfig)
}

/// Explains the Service of [`server`] in JSON.
#[track_caller]
fn explains(windows: &Windows, flags: &[&str]) {
    let output = windows.run(&[&["explain", "web", "-n", "shop", "-o", "json"], flags].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    let explanation: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
    assert_eq!(explanation["service"]["name"], "web", "{errors}");
}

async fn the_kubeconfig_is_that_of_the_profile() {
    let (_server, _listener, kubeconfig) = server().await;
    let windows = Windows::new();
    // Wine makes the profile at the first start.
    windows.run(&["--version"]);
    let users = fs::read_dir(windows.folder.path().join("drive_c/users")).unwrap();
    let profile = users.map(|it| it.unwrap().path()).find(|it| !it.ends_with("Public")).unwrap();
    fs::create_dir(profile.join(".kube")).unwrap();
    fs::write(profile.join(".kube/config"), kubeconfig.replace('\n', "\r\n")).unwrap();
    explains(&windows, &[]);
}

async fn a_credential_plugin_is_a_program_of_windows() {
    let (_server, _listener, kubeconfig) = server().await;
    let windows = Windows::new();
    fs::create_dir(windows.at("bin")).unwrap();
    let credential = r#"{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"secret\"}}"#;
    windows.compile(
        "bin/aws.exe",
        &format!("#include <stdio.h>\nint main(void) {{ puts(\"{credential}\"); return 0; }}\n"),
        &[],
    );
    let exec = r"{exec: {apiVersion: client.authentication.k8s.io/v1, command: 'bin\aws.exe', interactiveMode: Never}}";
    let with_plugin = kubeconfig.replace("{token: \"secret\"}", exec);
    assert_ne!(with_plugin, kubeconfig);
    fs::write(windows.at("config"), with_plugin).unwrap();
    explains(&windows, &["--kubeconfig", r"C:\plugin\config"]);
    let wrong = kubeconfig.replace("secret", "wrong");
    fs::write(windows.at("config"), wrong).unwrap();
    let (told, code) =
        windows.told(&["explain", "web", "--kubeconfig", Path::new("config").to_str().unwrap()]);
    assert!(code == Some(2) && told.contains("401 Unauthorized"), "{told}");
}
