//! Tests `deploy/build-with-profile` with programs in the place of `cargo` and `rustc` that write
//! down their calls.

use std::fs::{self, Permissions, read_to_string};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::deploy::manifests::root;

/// Writes down its arguments. The counting program leaves a profile.
const CARGO: &str = r#"#!/usr/bin/env bash
{ echo "${KUBE_ENDPOINT_MANAGER_LINKER_SCRIPT:+with a script}|$1"; printf '%s\n' "${@:2}"; echo .; } >> "$LOG"
[[ $1 != run || -n ${NO_COUNTS-} ]] || { mkdir -p "$CARGO_TARGET_DIR/profiled/executed"; echo counts > "$CARGO_TARGET_DIR/profiled/executed/1.profraw"; }
echo 'output of cargo'
"#;
const RUSTC: &str = "#!/bin/sh\necho \"$TOOLS/lib\"\n";
const PROFDATA: &str = r#"#!/bin/sh
case $1 in
    merge) echo merged > "$4" ;;
    show) printf '  unit;_RNv1a:\n    Block counts: [0, 3]\n  _RNv1b:\n    Block counts: [7]\n  _RNv1c:\n    Block counts: [0]\n' ;;
esac
"#;

struct Script {
    folder: tempfile::TempDir,
}

impl Script {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        };
        write("path/cargo", CARGO);
        write("path/rustc", RUSTC);
        write("tools/bin/llvm-profdata", PROFDATA);
        fs::create_dir(folder.path().join("tools/lib")).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(root().join("deploy/build-with-profile"));
        let path = format!("{}:{}", self.path("path").display(), std::env::var("PATH").unwrap());
        command.args(arguments).current_dir(self.folder.path()).env("PATH", path);
        command.env("LOG", self.path("log")).env("TOOLS", self.path("tools"));
        command.env("CARGO_TARGET_DIR", self.path("with space")).env_remove("CARGO_BUILD_TARGET");
        command
    }

    /// Runs the script. Returns its output, and the calls of cargo.
    fn run(&self, arguments: &[&str]) -> (String, String) {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let calls = read_to_string(self.path("log")).unwrap();
        fs::remove_file(self.path("log")).unwrap();
        (self.without_folder(&text(&output.stdout)), self.without_folder(&calls))
    }

    fn without_folder(&self, text: &str) -> String {
        let folder = Path::canonicalize(self.folder.path()).unwrap();
        text.replace(&folder.display().to_string(), "FOLDER")
    }

    fn refused(&self, command: &mut Command) -> String {
        let Output { status, stderr, .. } = command.output().unwrap();
        assert!(!status.success());
        self.without_folder(text(&stderr).lines().last().unwrap_or_default())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn the_program_is_built_runs_and_is_built_again() {
    let script = Script::new();
    let (printed, calls) = script.run(&[]);
    insta::assert_snapshot!(printed + &calls);
    let files = fs::read_dir(script.path("with space/profiled")).unwrap().map(|file| file.unwrap().path());
    let scripts: Vec<_> = files.filter(|file| file.extension().is_some_and(|it| it == "ld")).collect();
    assert_eq!(scripts.len(), 1, "{scripts:?}");
    insta::assert_snapshot!("linker_script", read_to_string(&scripts[0]).unwrap());
}

pub(crate) fn flags_are_those_of_both_builds() {
    let script = Script::new();
    fs::write(script.path("config"), "").unwrap();
    for flags in [
        &["--kubeconfig", "config", "--target", "some-target", "--features=ui"][..],
        &["--kubeconfig=config", "--target=some-target", "--features=ui"],
    ] {
        let (printed, calls) = script.run(flags);
        assert_eq!(printed, "FOLDER/with space/profiled/some-target/dist/kube-endpoint-manager\n");
        let calls: Vec<&str> = calls.split("\n.\n").collect();
        assert!(
            calls[1].contains("--kubeconfig\nFOLDER/config\n") && !calls[1].contains("--tls"),
            "{calls:?}"
        );
        assert!(
            calls[1].contains("counting/some-target/dist/kube-endpoint-manager --kubeconfig"),
            "{calls:?}"
        );
        for build in [calls[0], calls[2]] {
            assert!(build.contains("some-target") && build.contains("--features=ui"), "{build}");
            assert!(!build.contains("kubeconfig"), "{build}");
        }
    }
}

pub(crate) fn what_is_wrong_is_said() {
    let script = Script::new();
    let mut errors = vec![
        script.refused(&mut script.command(&["--kubeconfig", "missing"])),
        script.refused(&mut script.command(&["--kubeconfig"])),
        script.refused(&mut script.command(&["--target-dir=x"])),
        script.refused(script.command(&[]).env("CARGO_TARGET_DIR", "it's")),
        script.refused(script.command(&[]).env("NO_COUNTS", "1")),
    ];
    fs::remove_file(script.path("tools/bin/llvm-profdata")).unwrap();
    errors.push(script.refused(&mut script.command(&[])));
    // The script works in the root of the workspace, and its messages name it.
    let errors = errors.join("\n").replace(&root().canonicalize().unwrap().display().to_string(), "ROOT");
    insta::assert_snapshot!(errors);
}
