//! Tests `release/publish` on a checkout of two crates. Cargo is a script there, which answers for
//! the index of crates.io and packs nothing; the gate runs the script on this checkout.

use std::fs::{Permissions, copy, create_dir_all, read_to_string, remove_file, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::deploy::manifests::root;

/// `cargo info` knows the crate of the file `taken`, and fails otherwise if the file `offline` is
/// there.
const CARGO: &str = r#"#!/bin/bash
case $1 in
    deny) exit 1 ;;
    info) if [[ ${!#} == "$(cat "${0%/*}/taken")" ]]; then exit; fi
        if [[ -e ${0%/*}/offline ]]; then echo 'error: no network' >&2; else echo 'error: could not find it' >&2; fi
        exit 101 ;;
    publish) echo "packed: $*" && [[ ! -e ${0%/*}/unpackable ]] ;;
    *) PATH=${PATH#*:} exec cargo "$@" ;;
esac
"#;
const WORKSPACE: &str = r#"[workspace]
resolver = "3"
members = ["manager", "base"]
[workspace.package]
version = "1.2.3"
license = "Apache-2.0"
repository = "https://example.com"
[workspace.dependencies]
base = { version = "1.2.3", path = "base" }
"#;
const PACKAGE: &str = r#"description = "A crate."
version.workspace = true
license.workspace = true
repository.workspace = true
keywords = ["a-word-of-20-letters"]
"#;
const UUID: &str = "7a1c7c2e-4b1e-4d8e-9d0b-0d1f6e1b2c3d";

/// A checkout in which all is good.
struct Checkout(TempDir);

impl Checkout {
    fn new() -> Self {
        let checkout = Self(tempfile::tempdir().unwrap());
        for script in ["release/publish", ".krew.yaml"] {
            create_dir_all(checkout.path("release")).unwrap();
            copy(root().join(script), checkout.path(script)).unwrap();
        }
        let mut files = vec![
            ("Cargo.toml".to_owned(), WORKSPACE.to_owned()),
            ("CHANGELOG.md".to_owned(), "# Changes\n\n## [1.2.3]\n".to_owned()),
            ("deploy/artifacthub-repo.yml".to_owned(), format!("repositoryID: {UUID}\n")),
            ("deploy/chart/Chart.yaml".to_owned(), "version: 1.2.3\nappVersion: 1.2.3\n".to_owned()),
            ("deploy/chart/values.yaml".to_owned(), "# a\nimage:\n  tag: x\nmode: y\n".to_owned()),
            (
                "deploy/chart/values.schema.json".to_owned(),
                r#"{"properties": {"mode": {}, "image": {}, "global": {}}}"#.to_owned(),
            ),
        ];
        for folder in ["base", "overlays/addon", "overlays/kubeadm/static-pod"] {
            let file = format!("deploy/{folder}/kustomization.yaml");
            files.push((file, "images:\n  - newTag: 1.2.3\n".to_owned()));
        }
        for (folder, name, more) in [
            ("manager", "kube-endpoint-manager", "[dependencies]\nbase.workspace = true\n"),
            ("base", "base", "[dev-dependencies]\nkube-endpoint-manager.path = \"../manager\"\n"),
        ] {
            let manifest = format!("[package]\nname = \"{name}\"\n{PACKAGE}{more}");
            files.push((format!("{folder}/Cargo.toml"), manifest));
            files.extend(["LICENSE", "README.md"].map(|it| (format!("{folder}/{it}"), "text\n".to_owned())));
            files.push((format!("{folder}/src/lib.rs"), String::new()));
        }
        for (file, text) in files {
            create_dir_all(checkout.path(&file).parent().unwrap()).unwrap();
            write(checkout.path(&file), text).unwrap();
        }
        // Beside the checkout's files, in a folder that git does not look into.
        create_dir_all(checkout.path(".git/bin")).unwrap();
        for (name, text) in [("cargo", CARGO), ("helm", "#!/bin/bash\n[[ $* == 'lint --strict '* ]]\n")] {
            let path = checkout.path(&format!(".git/bin/{name}"));
            write(&path, text).unwrap();
            set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        write(checkout.path(".git/bin/taken"), "").unwrap();
        checkout.run("cargo", &["generate-lockfile", "--offline"]);
        checkout.run("git", &["init", "--quiet"]);
        checkout.run("git", &["add", "."]);
        let commit = ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "a"];
        checkout.run("git", &commit);
        checkout
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.0.path().join(file)
    }

    /// Replaces a text of a file.
    #[track_caller]
    fn replace(&self, file: &str, from: &str, to: &str) {
        let text = read_to_string(self.path(file)).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        write(self.path(file), text.replace(from, to)).unwrap();
    }

    #[track_caller]
    fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) {
        let done =
            Command::new(program.as_ref()).args(arguments).current_dir(self.0.path()).status().unwrap();
        assert!(done.success(), "{arguments:?}");
    }

    /// Runs the script. Returns what it prints, or that and the error.
    fn publish(&self, options: &[&str]) -> Result<String, String> {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.path(".git/bin").display());
        let mut script = Command::new(self.path("release/publish"));
        // Git's hooks set variables that name another checkout.
        let script =
            script.args(options).env("PATH", path).env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE");
        let output = script.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if output.status.success() {
            return Ok(text);
        }
        Err(text + &String::from_utf8(output.stderr).unwrap())
    }
}

pub(crate) fn the_steps_are_in_order_and_what_is_good_is_called_so() {
    let checkout = Checkout::new();
    let text = checkout.publish(&["--dry-run", "--no-verify"]).unwrap();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in\n{text}"));
    let order = [
        "Release 1.2.3 of commit ",
        "owner, once: turn on secret scanning and private vulnerability reports",
        "owner: git tag --annotate v1.2.3",
        "workflow: push the image to ghcr.io",
        "workflow: push the chart to oci://ghcr.io",
        "cargo publish --locked --package NAME\n        base\n        kube-endpoint-manager\n",
        "trusted publisher",
        "gh variable set PUBLISH_CRATES --body true",
        "krew-index",
        "Artifact Hub",
        "the site",
    ];
    assert!(order.map(at).is_sorted(), "{text}");
    let checks = text.split_once("\nChecks\n").unwrap().1;
    let names = |word: &str| -> Vec<&str> {
        let of_word = checks.lines().filter_map(|line| line.trim_start().strip_prefix(word));
        of_word.map(|it| it.trim_start().split(':').next().unwrap()).collect()
    };
    assert_eq!(
        names("good"),
        [
            "versions",
            "changelog",
            "first lines",
            "fields of the crates",
            "schema of the chart",
            "chart",
            "krew",
            "Artifact Hub",
            "licences of the crates",
            "packages",
        ]
    );
    assert_eq!(names("not checked"), ["names of the crates", "licences of dependencies", "links"]);
    assert_eq!(checks.lines().count(), 13, "{checks}");
}

pub(crate) fn faults_are_found() {
    let checkout = Checkout::new();
    // Changes a file, and looks for a line.
    let check = |file: &str, from: &str, to: &str, want: &str| {
        let before = read_to_string(checkout.path(file)).unwrap();
        checkout.replace(file, from, to);
        let result = checkout.publish(&["--dry-run", "--no-verify", "--allow-dirty"]);
        let is_refused = result.is_err();
        let text = result.unwrap_or_else(|text| text);
        assert!(text.lines().any(|line| line.trim() == want), "{file}: no {want:?} in\n{text}");
        assert_eq!(is_refused, want.starts_with("FAILED"), "{text}");
        assert!(!is_refused || text.ends_with("error: 1 checks failed\n"), "{text}");
        write(checkout.path(file), before).unwrap();
    };
    let chart = "deploy/chart/Chart.yaml";
    check(
        chart,
        "appVersion: 1.2.3",
        "appVersion: 1.2.30",
        "FAILED       versions: appVersion in deploy/chart/Chart.yaml is not 1.2.3",
    );
    check(
        "deploy/overlays/addon/kustomization.yaml",
        "1.2.3",
        "1.2.2",
        "FAILED       versions: newTag in deploy/overlays/addon is not 1.2.3",
    );
    check(
        "Cargo.toml",
        "base = { version = \"1.2.3\"",
        "base = { version = \"1.2.0\"",
        "FAILED       versions: kube-endpoint-manager wants base ^1.2.0",
    );
    check(
        "CHANGELOG.md",
        "[1.2.3]",
        "[Unreleased]",
        "to do        changelog: give 1.2.3 a section in CHANGELOG.md",
    );
    check(
        "CHANGELOG.md",
        "# Changes",
        "## [Unreleased]\n\n- It is faster.",
        "to do        changelog: move what is under Unreleased in CHANGELOG.md to the section for 1.2.3",
    );
    check(
        "CHANGELOG.md",
        "# Changes",
        "Nothing is published yet.",
        "to do        first lines: these say that nothing is released: CHANGELOG.md",
    );
    let fields = "FAILED       fields of the crates: base: description, license, repository, readme, or five short keywords are wrong";
    check("base/Cargo.toml", "description = \"A crate.\"\n", "", fields);
    check("base/Cargo.toml", "a-word-of-20-letters", "a-word-of-over-20-letters", fields);
    check("base/Cargo.toml", "[\"a-word", "[\"b\", \"c\", \"d\", \"e\", \"f\", \"a-word", fields);
    let schema = "FAILED       schema of the chart: in one of values.yaml and values.schema.json only:";
    check("deploy/chart/values.yaml", "mode: y", "mode: y\nother: 1", &format!("{schema} other"));
    check("deploy/chart/values.yaml", "mode: y", "", &format!("{schema} mode"));
    check(
        ".krew.yaml",
        "windows-amd64",
        "windows-arm64",
        "FAILED       krew: .krew.yaml lacks kubectl-diagnose-svc-windows-amd64.tar.gz",
    );
    let hub = "deploy/artifacthub-repo.yml";
    check(
        hub,
        UUID,
        "",
        "to do        Artifact Hub: write the repositoryID that Artifact Hub shows into deploy/artifacthub-repo.yml",
    );
    let no_id = "FAILED       Artifact Hub: the repositoryID in deploy/artifacthub-repo.yml is no UUID:";
    check(hub, UUID, "x", &format!("{no_id} 'x'"));
    check(hub, "repositoryID", "owners", &format!("{no_id} ''"));

    // A broken file, a missing one, and commands that fail.
    checkout.replace("deploy/chart/values.schema.json", "}}}", "");
    remove_file(checkout.path("base/LICENSE")).unwrap();
    write(checkout.path(".git/bin/helm"), "#!/bin/bash\necho broken\nexit 1\n").unwrap();
    write(checkout.path(".git/bin/unpackable"), "").unwrap();
    let text = checkout.publish(&["--dry-run", "--no-verify", "--allow-dirty"]).unwrap_err();
    for want in [
        "FAILED       schema of the chart: values.schema.json: ",
        "FAILED       licences of the crates: ",
        "FAILED       chart: 'helm lint --strict deploy/chart --namespace kube-system --set image.repository=x' fails:\nbroken\n",
        "FAILED       packages: 'cargo publish --locked --workspace --dry-run --quiet --no-verify --allow-dirty' fails:\npacked: ",
        "error: 4 checks failed\n",
    ] {
        assert!(text.contains(want), "no {want:?} in\n{text}");
    }
}

pub(crate) fn an_index_says_which_names_are_taken() {
    let checkout = Checkout::new();
    let check = |want: &str| {
        let text = checkout.publish(&["--dry-run", "--no-verify", "--index"]).unwrap();
        let line = text.lines().find(|line| line.contains("names of the crates")).unwrap();
        assert_eq!(line.trim(), want);
    };
    check("good         names of the crates: none of 2 is taken");
    write(checkout.path(".git/bin/taken"), "base").unwrap();
    check("to do        names of the crates: these exist; see that they are yours: base");
    write(checkout.path(".git/bin/offline"), "").unwrap();
    check("not checked  names of the crates: the index does not answer: error: no network");
}

pub(crate) fn other_options_and_changed_files_are_refused() {
    let checkout = Checkout::new();
    let refused = |options: &[&str]| checkout.publish(options).unwrap_err();
    assert!(refused(&[]).starts_with("error: only --dry-run exists: push a tag"));
    let text = refused(&["--dry-run", "--verify"]);
    assert!(text.starts_with("error: there is no '--verify': the options are --dry-run, "), "{text}");
    write(checkout.path("new"), "").unwrap();
    let text = refused(&["--dry-run", "--no-verify"]);
    assert_eq!(
        text,
        "error: files differ from the commit: commit them, or try with --allow-dirty:\n?? new\n"
    );
}
