//! The platforms of a release, the programs for each, and the tools that make them.

use std::process::Command;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::source::output;

/// The tools from crates.io, with their versions; .ci/run and the workflow install them.
const TOOLS: &str = include_str!("../tools.txt");

/// A platform, by Rust's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    #[value(name = "x86_64-unknown-linux-musl")]
    LinuxAmd64,
    #[value(name = "aarch64-unknown-linux-musl")]
    LinuxArm64,
    #[value(name = "x86_64-apple-darwin")]
    DarwinAmd64,
    #[value(name = "aarch64-apple-darwin")]
    DarwinArm64,
    #[value(name = "x86_64-pc-windows-gnu")]
    WindowsAmd64,
}

/// A program, with the flags that choose its features.
#[derive(Debug)]
pub(crate) struct Program {
    /// The package, which names the archive.
    pub(crate) name: &'static str,
    /// The file in it.
    pub(crate) binary: &'static str,
    pub(crate) features: &'static [&'static str],
}

impl Program {
    /// The API server for trials takes memory that a cluster has no use for.
    pub(crate) const MANAGER: Self = Self {
        name: "kube-endpoint-manager",
        binary: "kube-endpoint-manager",
        features: &[
            "--no-default-features",
            "--features=endpoints,endpointslice,mirroring,selectors,otlp,ui",
        ],
    };
    pub(crate) const PLUGIN: Self =
        Self { name: "kubectl-diagnose-svc", binary: "kubectl-diagnose_svc", features: &[] };
}

impl Target {
    pub(crate) const ALL: [Self; 5] =
        [Self::LinuxAmd64, Self::LinuxArm64, Self::DarwinAmd64, Self::DarwinArm64, Self::WindowsAmd64];

    /// Returns the platforms that are built where `--target` names none.
    pub(crate) fn defaults() -> Vec<Self> {
        // Linux has a compiler for Windows.
        let is_macos = std::env::consts::OS == "macos";
        Self::ALL.into_iter().filter(|target| (target.system() == "darwin") == is_macos).collect()
    }

    pub(crate) fn triple(self) -> &'static str {
        match self {
            Self::LinuxAmd64 => "x86_64-unknown-linux-musl",
            Self::LinuxArm64 => "aarch64-unknown-linux-musl",
            Self::DarwinAmd64 => "x86_64-apple-darwin",
            Self::DarwinArm64 => "aarch64-apple-darwin",
            Self::WindowsAmd64 => "x86_64-pc-windows-gnu",
        }
    }

    pub(crate) fn is_linux(self) -> bool {
        matches!(self, Self::LinuxAmd64 | Self::LinuxArm64)
    }

    /// Returns the system, as Go and krew name it.
    pub(crate) fn system(self) -> &'static str {
        match self {
            Self::LinuxAmd64 | Self::LinuxArm64 => "linux",
            Self::DarwinAmd64 | Self::DarwinArm64 => "darwin",
            Self::WindowsAmd64 => "windows",
        }
    }

    /// Returns the architecture, as Go, krew and images name it.
    pub(crate) fn architecture(self) -> &'static str {
        match self {
            Self::LinuxAmd64 | Self::DarwinAmd64 | Self::WindowsAmd64 => "amd64",
            Self::LinuxArm64 | Self::DarwinArm64 => "arm64",
        }
    }

    /// Returns the machine, as Rust and Debian's compilers name it.
    pub(crate) fn machine(self) -> &'static str {
        if self.architecture() == "amd64" { "x86_64" } else { "aarch64" }
    }

    /// The manager runs on control planes.
    pub(crate) fn programs(self) -> &'static [Program] {
        if self.is_linux() { &[Program::MANAGER, Program::PLUGIN] } else { &[Program::PLUGIN] }
    }

    /// Returns true if this machine can run programs for the platform.
    pub(crate) fn runs_here(self) -> bool {
        let system = if self.system() == "darwin" { "macos" } else { self.system() };
        std::env::consts::OS == system && std::env::consts::ARCH == self.machine()
    }

    /// Returns true if a file is named for the platform, which another machine makes.
    pub(crate) fn is_file_of(self, name: &str) -> bool {
        !Self::defaults().contains(&self)
            && name.contains(&format!("-{}-{}", self.system(), self.architecture()))
    }

    /// Returns the name of the file of a program.
    pub(crate) fn executable(self, program: &Program) -> String {
        format!("{}{}", program.binary, if self == Self::WindowsAmd64 { ".exe" } else { "" })
    }

    /// Returns a tool of the GNU toolchain for the platform, or `None` if another toolchain builds
    /// for it.
    pub(crate) fn gnu(self, tool: &str) -> Option<String> {
        match self.system() {
            "linux" => Some(format!("{}-linux-gnu-{tool}", self.machine())),
            "windows" => Some(format!("{}-w64-mingw32-{tool}", self.machine())),
            _ => None,
        }
    }
}

/// Reports the first missing tool, with the package that has it.
pub(crate) fn check_tools(targets: &[Target]) -> Result<()> {
    if !targets.iter().any(|target| target.runs_here()) {
        let here = Target::ALL.into_iter().find(|target| target.runs_here()).map_or("none", Target::triple);
        bail!("the man pages come from a program that runs here: add --target {here}");
    }
    for target in targets {
        let libraries =
            output(Command::new("rustc").args(["--print=target-libdir", "--target", target.triple()]))?;
        if !std::path::Path::new(&libraries).is_dir() {
            bail!("Rust's library for {0} is missing: run 'rustup target add {0}'", target.triple());
        }
        let Some(compiler) = target.gnu("gcc") else { continue };
        // Debian's packages have dashes: gcc-x86-64-linux-gnu.
        let machine = target.machine().replace('_', "-");
        if !target.is_linux() {
            check(&compiler, &["--version"], "", &format!("install gcc-mingw-w64-{machine}"))?;
            continue;
        }
        check(&compiler, &["--version"], "", &format!("install gcc-{machine}-linux-gnu"))?;
        let libc = match target.runs_here() {
            true => "libc6-dev".to_owned(),
            false => format!("libc6-dev-{}-cross", target.architecture()),
        };
        check_headers(&compiler, &libc)?;
        let objcopy = target.gnu("objcopy").unwrap_or_default();
        check(&objcopy, &["--version"], "", &format!("install binutils-{machine}-linux-gnu"))?;
    }
    for line in TOOLS.lines() {
        let (program, version) = line.split_once(' ').unwrap_or((line, ""));
        let needed = format!("run 'cargo install {program} --version {version} --locked'");
        // cargo-auditable prints no version of its own.
        let subcommand = program.trim_start_matches("cargo-");
        match subcommand {
            "auditable" => check(program, &["rustc", "--version"], "", &needed)?,
            _ => check(program, &[subcommand, "--version"], version, &needed)?,
        }
    }
    Ok(())
}

/// Runs a tool, whose output must contain a text.
fn check(program: &str, arguments: &[&str], wanted: &str, needed: &str) -> Result<()> {
    match Command::new(program).args(arguments).output() {
        Ok(found) if found.status.success() => {
            let text = String::from_utf8_lossy(&found.stdout);
            if text.contains(wanted) { Ok(()) } else { bail!("{program} has another version: {needed}") }
        }
        _ => bail!("{program} is missing: {needed}"),
    }
}

/// Compiles a file that needs the headers of a libc. Debian's compilers for other machines come
/// without, and `ring`, which needs them, is compiled late.
fn check_headers(compiler: &str, package: &str) -> Result<()> {
    let arguments = ["-fsyntax-only", "-x", "c", "-include", "stdint.h", "/dev/null"];
    match Command::new(compiler).args(arguments).output() {
        Ok(compiled) if compiled.status.success() => Ok(()),
        _ => bail!("{compiler} does not find the headers of a libc: install {package}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let error = check("no-such-gcc", &[], "", "install gcc").unwrap_err().to_string();
        assert_eq!(error, "no-such-gcc is missing: install gcc");
        let error = check("rustc", &["--version"], "9.9.9", "install 9.9.9").unwrap_err().to_string();
        assert_eq!(error, "rustc has another version: install 9.9.9");
        // `false` fails as a compiler that finds no header.
        let error = check_headers("false", "libc6-dev-arm64-cross").unwrap_err().to_string();
        assert_eq!(error, "false does not find the headers of a libc: install libc6-dev-arm64-cross");
        check_headers("cc", "libc6-dev").unwrap();
    }

    #[test]
    fn names_are_those_of_rust() {
        for target in Target::ALL {
            assert_eq!(Target::from_str(target.triple(), false), Ok(target));
        }
    }
}
