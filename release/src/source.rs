//! The sources of a release: their version, their commit and its time.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::target::{Program, Target};

/// The checkout that is built.
pub(crate) struct Source {
    pub(crate) root: PathBuf,
    pub(crate) target_folder: PathBuf,
    pub(crate) version: String,
    /// The commit, with `-dirty` if files differ from it.
    pub(crate) commit: String,
    /// The same for `--version`, as short as the programs have it in other builds.
    short_commit: String,
    /// The time of the commit, in seconds since 1970.
    pub(crate) time: u64,
    /// The packages for crates.io, each after those that it depends on.
    pub(crate) crates: Vec<String>,
    /// The same, as Cargo describes them.
    pub(crate) packages: Vec<Value>,
    /// The folders of all packages.
    pub(crate) members: Vec<PathBuf>,
}

impl Source {
    /// Reads the checkout that this program was built from. Without a version, it is that of
    /// Cargo.toml.
    pub(crate) fn read(version: Option<&str>, allow_dirty: bool) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        let at_root = |program: &str| {
            let mut command = Command::new(program);
            command.current_dir(&root);
            command
        };
        let metadata =
            output(at_root("cargo").args(["metadata", "--locked", "--no-deps", "--format-version=1"]))?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let manager = packages.iter().find(|package| package["name"] == Program::MANAGER.name);
        let chart = std::fs::read_to_string(root.join("deploy/chart/Chart.yaml"))?;
        let of_workspace = text(&manager.context("no package of the manager")?["version"]);
        let version = version.unwrap_or(&of_workspace);
        check_version(version, &of_workspace, &chart)?;

        let changes = output(at_root("git").args(["status", "--porcelain"]))?;
        if !changes.is_empty() && !allow_dirty {
            bail!(
                "files differ from the commit: commit them, or build for a trial with --allow-dirty:\n{changes}"
            );
        }
        let commit = |arguments: &[&str]| {
            let commit = output(at_root("git").arg("rev-parse").args(arguments))?;
            Ok::<_, anyhow::Error>(if changes.is_empty() { commit } else { commit + "-dirty" })
        };
        let published: Vec<Value> =
            packages.iter().filter(|package| package["publish"].is_null()).cloned().collect();
        let folder =
            |package: &Value| Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_owned());
        let source = Self {
            target_folder: text(&metadata["target_directory"]).into(),
            version: version.to_owned(),
            commit: commit(&["HEAD"])?,
            short_commit: commit(&["--short=12", "HEAD"])?,
            time: output(at_root("git").args(["log", "-1", "--format=%ct"]))?.parse()?,
            crates: in_order(&published),
            packages: published,
            members: packages.iter().filter_map(folder).collect(),
            root,
        };
        // Compilers for C get paths in a variable that separates flags by spaces.
        let paths = source.folders()?;
        match paths.iter().find(|(path, _)| path.contains(char::is_whitespace)) {
            Some((path, _)) => bail!("the path has a space: {path}"),
            None => Ok(source),
        }
    }

    /// Returns the time of the commit as in RFC 3339.
    pub(crate) fn date(&self) -> Result<String> {
        Ok(jiff::Timestamp::from_second(i64::try_from(self.time)?)?.to_string())
    }

    /// Downloads the crates, so that their folders exist.
    pub(crate) fn fetch(&self, targets: &[Target]) -> Result<()> {
        let mut cargo = self.cargo(&["fetch", "--locked"]);
        for target in targets {
            cargo.args(["--target", target.triple()]);
        }
        run(&mut cargo)
    }

    /// Returns a command of Cargo, without settings that the environment has for other builds.
    pub(crate) fn cargo(&self, subcommand: &[&str]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(subcommand).current_dir(&self.root);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let is_flags =
                name.contains("FLAGS") || name.starts_with("CC") || name.starts_with("CARGO_PROFILE_DIST");
            // Cargo sets these for programs that it starts.
            let is_own = name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST");
            if is_flags || is_own || name.contains("WRAPPER") || name.starts_with("CARGO_BUILD_TARGET") {
                cargo.env_remove(&*name);
            }
        }
        cargo
            .env("CARGO_TARGET_DIR", &self.target_folder)
            .env("CARGO_INCREMENTAL", "0")
            .env("SOURCE_DATE_EPOCH", self.time.to_string())
            .env("KUBE_ENDPOINT_MANAGER_COMMIT", &self.short_commit)
            .env_remove("KUBE_ENDPOINT_MANAGER_LINKER_SCRIPT");
        cargo
    }

    /// Returns the folders whose paths compilers write into programs, with names that are the same
    /// everywhere. A later one may be inside of an earlier one.
    pub(crate) fn folders(&self) -> Result<Vec<(String, String)>> {
        let home = match std::env::var_os("CARGO_HOME") {
            Some(home) => PathBuf::from(home),
            None => std::env::home_dir().context("no home directory: set CARGO_HOME")?.join(".cargo"),
        };
        let mut folders =
            vec![(home.clone(), "/cargo".to_owned()), (self.root.clone(), "/source".to_owned())];
        folders.push((self.target_folder.clone(), "/target".to_owned()));
        // The folder of a registry is named for its address, which may be that of a mirror.
        for registry in std::fs::read_dir(home.join("registry/src")).into_iter().flatten() {
            folders.push((registry?.path(), "/crates".to_owned()));
        }
        let compiler = output(Command::new("rustc").arg("-vV").current_dir(&self.root))?;
        let hash = compiler.lines().find_map(|line| line.strip_prefix("commit-hash: ")).unwrap_or("unknown");
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(&self.root))?;
        folders.push((PathBuf::from(&sysroot), "/toolchain".to_owned()));
        // The sources of the standard library, where rustup's component for them is installed.
        folders.push((Path::new(&sysroot).join("lib/rustlib/src/rust"), format!("/rustc/{hash}")));
        Ok(folders.into_iter().map(|(path, name)| (path.display().to_string(), name)).collect())
    }
}

/// Returns the names of packages, each after those that it depends on. Dependencies of tests do not
/// count: a test may need what depends on its package.
fn in_order(packages: &[Value]) -> Vec<String> {
    let needs = |package: &Value, name: &Value| {
        let mut all = package["dependencies"].as_array().into_iter().flatten();
        all.any(|dependency| dependency["name"] == *name && dependency["kind"] != "dev")
    };
    let mut left: Vec<&Value> = packages.iter().collect();
    let mut ordered = Vec::new();
    // Cargo refuses a circle.
    while let Some(at) = left.iter().position(|next| !left.iter().any(|other| needs(next, &other["name"]))) {
        ordered.push(left.remove(at)["name"].as_str().unwrap_or_default().to_owned());
    }
    ordered
}

fn check_version(version: &str, of_workspace: &str, chart: &str) -> Result<()> {
    if version != of_workspace {
        let hint = if version.starts_with('v') { " (VERSION has no v; the tag has)" } else { "" };
        bail!("VERSION is {version}, and Cargo.toml has {of_workspace}{hint}");
    }
    for field in ["version", "appVersion"] {
        let found =
            chart.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": ")).unwrap_or("none");
        if found != version {
            bail!("VERSION is {version}, and {field} in deploy/chart/Chart.yaml is {found}");
        }
    }
    Ok(())
}

/// Runs a command. The error has its name.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot start {name}"))?;
    if status.success() { Ok(()) } else { bail!("{status}: {name}") }
}

/// Returns what a command prints.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{}: {name}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_package_comes_after_those_that_it_depends_on() {
        let package = |name: &str, needs: &[(&str, Value)]| {
            let needs = needs.iter().map(|(name, kind)| json!({"name": name, "kind": kind}));
            json!({"name": name, "dependencies": needs.collect::<Vec<_>>()})
        };
        let all = [
            package("a", &[("c", Value::Null), ("serde", Value::Null)]),
            package("b", &[]),
            package("c", &[("b", json!("build")), ("a", json!("dev"))]),
        ];
        assert_eq!(in_order(&all), ["b", "c", "a"]);
    }

    #[test]
    fn the_version_is_that_of_the_workspace_and_of_the_chart() {
        let check =
            |version, chart| check_version(version, "1.2.3", chart).map_err(|error| error.to_string());
        let chart = "name: x\nversion: 1.2.3\nappVersion: 1.2.3\n";
        assert_eq!(check("1.2.3", chart), Ok(()));
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(check("1.2.4", chart), refused("VERSION is 1.2.4, and Cargo.toml has 1.2.3"));
        let with_v = "VERSION is v1.2.3, and Cargo.toml has 1.2.3 (VERSION has no v; the tag has)";
        assert_eq!(check("v1.2.3", chart), refused(with_v));
        let behind = "VERSION is 1.2.3, and appVersion in deploy/chart/Chart.yaml is 1.2.2";
        assert_eq!(check("1.2.3", "version: 1.2.3\nappVersion: 1.2.2\n"), refused(behind));
    }
}
