//! Runs the plugin for Windows under Wine. `KUBECTL_DIAGNOSE_SVC_EXE` names the program, which
//! mingw links on Linux; without it the harness ignores the tests.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, ListenOptions, Listener, User};
use kube_endpoint_integration_tests::processes::free_port;
use kube_endpoint_integration_tests::programs::{Missing, Tests};
use kube_endpoint_integration_tests::tests;
use kube_endpoint_processes::{POLL, Process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The variable that names the program.
const PROGRAM: &str = "KUBECTL_DIAGNOSE_SVC_EXE";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";
/// A start of Wine alone takes seconds on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn tests() -> Vec<Tests> {
    vec![
        tests!(needs =>
            help_and_completion_are_printed,
            files_have_backslashes_and_are_as_programs_of_windows_write_them,
            a_pipe_gets_colors_and_a_width_only_if_it_is_told_to,
        ),
        tests!(needs =>
            async the_kubeconfig_is_that_of_the_home_folder,
            async a_credential_plugin_is_a_program_or_a_script,
            async text_fits_on_the_console_which_is_asked_for_colors,
            async the_page_is_served_on_loopback,
            async ctrl_c_ends_the_page_and_q_top,
        ),
    ]
}

fn needs() -> Result<(), Missing> {
    if std::env::var_os(PROGRAM).is_none() {
        return Err(Missing::Optional(
            "KUBECTL_DIAGNOSE_SVC_EXE names no program: build one with `cargo build --target x86_64-pc-windows-gnu -p kubectl-diagnose-svc`".to_owned(),
        ));
    }
    let needed = |what: &str| Missing::Program(what.to_owned());
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

/// Wine takes half a minute to make drive C, so all tests share it. It has the plugin.
struct System {
    prefix: TempDir,
}

impl System {
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<System>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let system = Arc::new(Self::new());
            *shared = Arc::downgrade(&system);
            system
        })
    }

    fn new() -> Self {
        let system = Self { prefix: tempfile::tempdir().unwrap() };
        fs::create_dir_all(system.at("")).unwrap();
        fs::copy(std::env::var_os(PROGRAM).unwrap(), system.at("kubectl-diagnose_svc.exe")).unwrap();
        // Wine before 9 lacks the random numbers that Rust's standard library takes from Windows.
        system.compile(
            "bcryptprimitives.dll",
            "#include <windows.h>\nBOOLEAN NTAPI SystemFunction036(PVOID, ULONG);\n\
             __declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *b, SIZE_T n) { return SystemFunction036(b, (ULONG)n); }\n",
            &["-shared"],
        );
        system.compile("on_console.exe", ON_CONSOLE, &[]);
        let made =
            system.command(wine().unwrap()).arg(r"C:\plugin\kubectl-diagnose_svc.exe").output().unwrap();
        assert_eq!(made.status.code(), Some(2), "{made:?}");
        system
    }

    /// Returns a path in the folder of the plugin.
    fn at(&self, name: &str) -> PathBuf {
        self.prefix.path().join("drive_c/plugin").join(name)
    }

    fn compile(&self, name: &str, source: &str, arguments: &[&str]) {
        let file = self.at(name).with_extension("c");
        fs::write(&file, source).unwrap();
        let mut compiler = Command::new(COMPILER);
        compiler.args(arguments).arg("-o").arg(self.at(name)).arg(file).arg("-ladvapi32");
        assert!(compiler.status().unwrap().success(), "{name}");
    }

    /// Returns a command that runs Wine with this drive.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("WINEPREFIX", self.prefix.path()).env("WINEDEBUG", "-all");
        // It would offer to download these.
        command.env("WINEDLLOVERRIDES", "mscoree,mshtml=");
        ["KUBECONFIG", "COLUMNS", "NO_COLOR"].into_iter().for_each(|name| {
            command.env_remove(name);
        });
        command
    }
}

/// A program that runs the command after its first argument, and writes to the file which that
/// names what it finds on the console: its width, if it obeyed and obeys codes, and its text.
const ON_CONSOLE: &str = r#"
#include <windows.h>
#include <process.h>
#include <stdio.h>
int main(int argc, char **argv) {
    HANDLE console = GetStdHandle(STD_OUTPUT_HANDLE);
    CONSOLE_SCREEN_BUFFER_INFO info;
    DWORD before, after, read;
    char line[512];
    GetConsoleMode(console, &before);
    intptr_t code = _spawnv(_P_WAIT, argv[2], (const char *const *)argv + 2);
    GetConsoleMode(console, &after);
    GetConsoleScreenBufferInfo(console, &info);
    FILE *file = fopen(argv[1], "w");
    fprintf(file, "%d columns, obeys: %d %d\n", info.dwSize.X, !!(before & 4), !!(after & 4));
    for (SHORT y = 0; y < info.dwCursorPosition.Y; y++) {
        ReadConsoleOutputCharacterA(console, line, min(info.dwSize.X, 512), (COORD){0, y}, &read);
        fprintf(file, "%.*s\n", (int)read, line);
    }
    fclose(file);
    return (int)code;
}
"#;

/// A folder on drive C, in which a test runs the plugin.
struct Windows {
    system: Arc<System>,
    folder: TempDir,
}

impl Windows {
    fn new() -> Self {
        let system = System::shared();
        let drive = system.prefix.path().join("drive_c");
        let folder = tempfile::Builder::new().prefix("test").tempdir_in(drive).unwrap();
        Self { system, folder }
    }

    /// Returns a path in the folder.
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path that Windows has for one in the folder.
    fn path(&self, name: &str) -> String {
        format!(r"C:\{}\{name}", self.folder.path().file_name().unwrap().display())
    }

    /// Returns a command that runs the plugin.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.system.command(wine().unwrap());
        command.arg(r"C:\plugin\kubectl-diagnose_svc.exe").args(arguments).current_dir(self.folder.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Returns what a command prints, and its exit code.
    fn told(&self, arguments: &[&str]) -> (String, Option<i32>) {
        told(&self.run(arguments))
    }

    /// Starts a program of the folder of the plugin on a console with 60 columns.
    fn on_console(&self, words: &[&str], variables: &[(&str, &str)]) -> Process {
        let mut command = self.system.command("script");
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let run = format!(r"stty cols 60 rows 40; exec {} 'C:\plugin\'{}", wine().unwrap(), words.join(" "));
        // Without standard input, the console would get the end of the input.
        command.args(["-qec", &run, "/dev/null"]).stdin(Stdio::piped()).current_dir(self.folder.path());
        command.env("SHELL", "/bin/sh").envs(variables.iter().copied());
        Process::start("console", command, &self.at("console.log"), None).unwrap()
    }
}

fn told(output: &Output) -> (String, Option<i32>) {
    let text = String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
    (text, output.status.code())
}

fn help_and_completion_are_printed() {
    let windows = Windows::new();
    let (help, code) = windows.told(&["--help"]);
    assert!(code == Some(0) && help.contains("Usage: kubectl diagnose-svc [OPTIONS] <COMMAND>"), "{help}");
    let (script, _) = windows.told(&["completion", "powershell"]);
    assert!(script.contains("Register-ArgumentCompleter") && script.contains("'explain'"), "{script}");
    let (version, _) = windows.told(&["--version"]);
    assert!(version.starts_with("kubectl-diagnose-svc "), "{version}");
    let (error, code) = windows.told(&["lint", "--no-such-flag"]);
    assert!(code == Some(2) && error.contains("unexpected argument '--no-such-flag'"), "{error}");
}

const MANIFEST: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec:\n  selector: {app: web}\n  ports: [{port: 80}]\n\
    ---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-1, namespace: shop, labels: {app: wbe}}\nspec:\n  containers: [{name: web, image: web:1}]\n";

fn files_have_backslashes_and_are_as_programs_of_windows_write_them() {
    let windows = Windows::new();
    fs::create_dir(windows.at("dump")).unwrap();
    let text = format!("\u{feff}{}", MANIFEST.replace('\n', "\r\n"));
    fs::write(windows.at("dump/all.yaml"), &text).unwrap();
    // `kubectl get -o yaml > file` in Windows PowerShell.
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(windows.at("utf16.yaml"), utf16).unwrap();
    for file in [r"dump\all.yaml", &windows.path(r"dump\all.yaml"), "dump/all.yaml", "dump", "utf16.yaml"] {
        let (told, code) = windows.told(&["explain", "web", "-n", "shop", "-f", file]);
        assert!(
            code == Some(0) && told.contains("DOWN  Service shop/web") && told.contains("wbe"),
            "{file}: {code:?} {told}"
        );
    }
    let mut command = windows.command(&["render", "-f", "-"]);
    let output = command.stdin(fs::File::open(windows.at("dump/all.yaml")).unwrap()).output().unwrap();
    let (told, code) = told(&output);
    assert!(code == Some(0) && told.contains("EndpointSlice"), "{told}");
    let (told, code) = windows.told(&["explain", "web", "-f", r"dump\none.yaml"]);
    assert!(code == Some(2) && told.contains(r"dump\none.yaml"), "{told}");
}

fn a_pipe_gets_colors_and_a_width_only_if_it_is_told_to() {
    let windows = Windows::new();
    fs::write(windows.at("all.yaml"), MANIFEST).unwrap();
    let explain = ["explain", "web", "-n", "shop", "-f", "all.yaml"];
    let plain = windows.run(&explain).stdout;
    assert!(plain.starts_with(b"DOWN  Service shop/web") && !plain.contains(&b'\x1b'));
    let (colored, _) = windows.told(&[&explain[..], &["--color=always"]].concat());
    assert!(colored.starts_with("\x1b["), "{colored}");
    let narrow = windows.command(&explain).env("COLUMNS", "50").output().unwrap().stdout;
    let widest = |text: &[u8]| text.split(|byte| *byte == b'\n').map(<[u8]>::len).max();
    assert!(widest(&narrow) < widest(&plain) && widest(&narrow) <= Some(50), "{narrow:?}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unread = windows.command(&explain).stdout(writer).output().unwrap();
    assert!(unread.status.success(), "as with `| more`: {unread:?}");
}

async fn text_fits_on_the_console_which_is_asked_for_colors() {
    let windows = Windows::new();
    fs::write(windows.at("all.yaml"), MANIFEST).unwrap();
    let explain = ["explain", "web", "-n", "shop", "-f", "all.yaml"];
    let plain = windows.command(&explain).env("COLUMNS", "60").output().unwrap();
    for (variables, obeys) in [(&[("NO_COLOR", "1")][..], 0), (&[], 1)] {
        let words =
            [&["on_console.exe", "screen.txt", r"C:\plugin\kubectl-diagnose_svc.exe"], &explain[..]].concat();
        let mut console = windows.on_console(&words, variables);
        assert_eq!(console.wait(TIMEOUT).await.code(), Some(0), "{}", console.log());
        let screen = fs::read_to_string(windows.at("screen.txt")).unwrap();
        let (head, text) = screen.split_once('\n').unwrap();
        assert_eq!(head.trim_end(), format!("60 columns, obeys: 0 {obeys}"));
        if obeys == 0 {
            // Notes on standard error are before it.
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            let plain = String::from_utf8_lossy(&plain.stdout);
            assert!(lines.join("\n").ends_with(plain.trim_end()), "{text}\n{plain}");
        }
    }
}

/// A server with a Service without pods, and its kubeconfig.
async fn server() -> (EmbeddedApiServer, Listener, String) {
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

/// Checks that a command explains the Service of [`server`] in JSON.
#[track_caller]
fn explains(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let explanation: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
    assert_eq!(explanation["service"]["name"], "web", "{errors}");
}

const EXPLAIN: [&str; 6] = ["explain", "web", "-n", "shop", "-o", "json"];

async fn the_kubeconfig_is_that_of_the_home_folder() {
    let (_server, _listener, kubeconfig) = server().await;
    let kubeconfig = kubeconfig.replace('\n', "\r\n");
    let windows = Windows::new();
    let (error, code) = windows.told(&EXPLAIN);
    assert!(code == Some(2) && error.contains(r".kube\config does not exist"), "{error}");
    let users = fs::read_dir(windows.system.prefix.path().join("drive_c/users")).unwrap();
    let profile = users.map(|it| it.unwrap().path()).find(|it| !it.ends_with("Public")).unwrap();
    assert!(error.contains(&format!(r"C:\users\{}\.kube\config", profile.file_name().unwrap().display())));
    fs::create_dir(profile.join(".kube")).unwrap();
    fs::write(profile.join(".kube/config"), &kubeconfig).unwrap();
    explains(&mut windows.command(&EXPLAIN));
    fs::write(profile.join(".kube/config"), "apiVersion: v1\nkind: Config\nclusters: [").unwrap();
    // Wine has another home, so a shell of Windows sets this one.
    fs::create_dir(windows.at(".kube")).unwrap();
    fs::write(windows.at(".kube/config"), &kubeconfig).unwrap();
    let plugin = format!(r"C:\plugin\kubectl-diagnose_svc.exe {}", EXPLAIN.join(" "));
    let home = format!("set HOME={}", windows.path(""));
    let mut command = windows.system.command(wine().unwrap());
    explains(command.args(["cmd", "/c", &format!("{home}&{plugin}")]));
    // Paths of a list have a semicolon between them, as those have a colon.
    let list = format!(r"{};{}", windows.path("none"), windows.path(r".kube\config"));
    explains(windows.command(&EXPLAIN).env("KUBECONFIG", list));
}

async fn a_credential_plugin_is_a_program_or_a_script() {
    let (_server, _listener, kubeconfig) = server().await;
    let windows = Windows::new();
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "secret"}})
    .to_string();
    let source = format!("#include <stdio.h>\nint main(void) {{ puts({credential:?}); return 0; }}\n");
    windows.system.compile("aws.exe", &source, &[]);
    fs::create_dir(windows.at("bin")).unwrap();
    fs::rename(windows.system.at("aws.exe"), windows.at("bin/aws.exe")).unwrap();
    fs::write(windows.at("bin/script.cmd"), format!("@echo {credential}\r\n")).unwrap();
    // Relative to the folder of the kubeconfig, and in PATH.
    for name in [r"bin\aws.exe", "aws", "aws.exe", "script", r"bin\script"] {
        let exec = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{name}', interactiveMode: Never}}}}"
        );
        let with_plugin = kubeconfig.replace("{token: \"secret\"}", &exec);
        assert_ne!(with_plugin, kubeconfig);
        fs::write(windows.at("config"), with_plugin).unwrap();
        let mut command = windows.command(&EXPLAIN);
        explains(command.arg("--kubeconfig=config").env("WINEPATH", windows.path("bin")));
    }
    fs::write(windows.at("config"), kubeconfig.replace("secret", "wrong")).unwrap();
    let (told, code) = windows.told(&["explain", "web", "--kubeconfig=config"]);
    assert!(code == Some(2) && told.contains("401 Unauthorized"), "{told}");
}

/// Requests a path of the page. Returns the answer, or nothing if the port refuses the connection.
fn get(host: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Some(answer)
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waited).await.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn the_page_is_served_on_loopback() {
    let (_server, _listener, kubeconfig) = server().await;
    let windows = Windows::new();
    fs::write(windows.at("config"), kubeconfig).unwrap();
    let log = windows.at("ui.log");
    let ui = Process::start("ui", windows.command(&["ui", "--kubeconfig=config"]), &log, None).unwrap();
    until("the address is printed", || ui.log().contains("Ctrl-C ends")).await;
    let log = ui.log();
    let url = log.lines().find_map(|line| line.strip_prefix("Open http://")).unwrap();
    let (host, path) = url.trim_end().split_once('/').unwrap();
    assert!(host.starts_with("127.0.0.1:"), "{log}");
    let page = get(host, &format!("/{path}")).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<!doctype html>"), "{page}");
    let explained = get(host, "/ui/api/services/shop/web").unwrap();
    assert!(
        explained.starts_with("HTTP/1.1 200 ") && explained.contains(r#""status":"down""#),
        "{explained}"
    );
    let elsewhere = host.replace("127.0.0.1", "127.0.0.2");
    assert_eq!(get(&elsewhere, "/ui/"), None, "it listens on 127.0.0.1 alone");
}

async fn ctrl_c_ends_the_page_and_q_top() {
    let (server, _listener, kubeconfig) = server().await;
    let windows = Windows::new();
    fs::write(windows.at("config"), kubeconfig).unwrap();
    let press = async |mut console: Process, key: &[u8]| {
        console.child().stdin.as_mut().unwrap().write_all(key).unwrap();
        assert_eq!(console.wait(TIMEOUT).await.code(), Some(0), "{}", console.log());
    };
    let host = format!("127.0.0.1:{}", free_port());
    let port = format!("--port={}", host.split_once(':').unwrap().1);
    let console = windows.on_console(&["kubectl-diagnose_svc.exe", "ui", "--kubeconfig=config", &port], &[]);
    until("the page is served", || get(&host, "/ui/").is_some()).await;
    press(console, b"\x03").await;
    assert_eq!(get(&host, "/ui/"), None);

    server.clear_request_log();
    let console = windows.on_console(&["kubectl-diagnose_svc.exe", "top", "-A", "--kubeconfig=config"], &[]);
    let watches = |plural: &str| {
        let log = server.request_log();
        log.iter().any(|it| it.request.verb == "watch" && it.request.path.ends_with(plural))
    };
    until("top watches", || watches("/services") && watches("/endpointslices")).await;
    // Wine 10 keeps Ctrl-C from a program that reads it as a key.
    press(console, b"q").await;
}
