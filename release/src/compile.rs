//! Compiles the programs. No path of the machine is in them, and their symbols are in files beside.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::archive::Entry;
use crate::source::{Source, output, run};
use crate::target::{Program, Target};

/// A compiled program.
pub(crate) struct Built {
    pub(crate) unstripped: PathBuf,
    /// Without symbols.
    pub(crate) binary: Vec<u8>,
    /// The symbols and line tables, which debuggers find by the name of the file. Only Linux has
    /// them.
    pub(crate) symbols: Option<Vec<u8>>,
}

/// Compiles a program for a platform.
pub(crate) fn build(source: &Source, target: Target, program: &Program, profile: &str) -> Result<Built> {
    let (triple, folders) = (target.triple(), source.folders()?);
    let renamed =
        |flag: &str| folders.iter().map(|(path, name)| format!("{flag}={path}={name}")).collect::<Vec<_>>();
    let mut flags = renamed("--remap-path-prefix");
    if target == Target::WindowsAmd64 {
        // Otherwise the linker writes the time of the build into the program.
        flags.push("-Clink-arg=-Wl,--no-insert-timestamp".to_owned());
    }
    let mut cargo = source.cargo(&["build", "--locked"]);
    cargo
        .args(["--profile", profile, "--target", triple, "--package", program.name])
        .args(program.features)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env(variable("CFLAGS", triple), renamed("-ffile-prefix-map").join(" "))
        // As `cargo auditable` does, but without the path of that program: Cargo would name symbols
        // for it.
        .env("RUSTC_WORKSPACE_WRAPPER", "cargo-auditable")
        .env("CARGO_AUDITABLE_ORIG_ARGS", r#"{"offline":false,"locked":true,"frozen":false,"config":[]}"#);
    let compiler = target.gnu("gcc");
    if let Some(compiler) = &compiler {
        // `ring` has C, which needs no more than the headers of a libc, so Debian's compiler for
        // glibc serves. Rust brings musl, and links it with its own linker.
        cargo.env(variable("CC", triple), compiler);
        let linker = if target.is_linux() { "rust-lld" } else { compiler };
        cargo.arg("--config").arg(format!("target.{triple}.linker='{linker}'"));
    }
    if !target.is_linux() {
        cargo.arg("--config").arg(format!("profile.{profile}.strip='symbols'"));
    }
    run(&mut cargo)?;
    // Cargo names the folder of the profile `dev` otherwise.
    let folder = if profile == "dev" { "debug" } else { profile };
    let unstripped = source.target_folder.join(triple).join(folder).join(target.executable(program));
    let (binary, symbols) = if target.is_linux() {
        let (binary, symbols) = split(target, &unstripped)?;
        (binary, Some(symbols))
    } else {
        (crate::read(&unstripped)?, None)
    };
    for contents in [Some(&binary), symbols.as_ref()].into_iter().flatten() {
        if let Some((path, _)) = folders.iter().find(|(path, new)| path != new && has_path(contents, path)) {
            bail!("{} for {triple} has the path {path} of this machine in it", program.name);
        }
    }
    Ok(Built { unstripped, binary, symbols })
}

/// Returns true if a file in this folder is named. `/src` is not in `/crates/src/lib.rs`.
fn has_path(contents: &[u8], folder: &str) -> bool {
    let is_of_a_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    memchr::memmem::find_iter(contents, format!("{folder}/").as_bytes())
        .any(|at| at == 0 || !is_of_a_path(contents[at - 1]))
}

/// Returns the name of a variable for the C compiler of a platform.
fn variable(name: &str, triple: &str) -> String {
    format!("{name}_{}", triple.replace('-', "_"))
}

/// Returns the program without symbols, and the symbols.
fn split(target: Target, program: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let folder = tempfile::tempdir()?;
    let name = program.file_name().context("the program has no name")?.to_string_lossy();
    let (binary, symbols) = (folder.path().join(&*name), folder.path().join(format!("{name}.debug")));
    let tool = target.gnu("objcopy").context("only files of Linux are split")?;
    let objcopy = |arguments: &[OsString]| run(Command::new(&tool).args(arguments));
    objcopy(&["--only-keep-debug".into(), program.into(), (&symbols).into()])?;
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(&symbols);
    objcopy(&["--strip-all".into(), link, program.into(), (&binary).into()])?;
    Ok((crate::read(&binary)?, crate::read(&symbols)?))
}

/// Returns the man pages and the completions that a program prints.
pub(crate) fn texts(program: &Program, path: &Path) -> Result<Vec<Entry>> {
    let name = program.binary;
    let folder = tempfile::tempdir()?;
    run(Command::new(path).arg("__man").arg(folder.path()))?;
    let mut entries = Vec::new();
    for page in crate::files(folder.path())? {
        entries.push(Entry::file(&format!("man/{page}"), crate::read(&folder.path().join(page))?));
    }
    for (shell, file) in
        [("bash", format!("{name}.bash")), ("zsh", format!("_{name}")), ("fish", format!("{name}.fish"))]
    {
        let script = output(Command::new(path).args(["completion", shell]))? + "\n";
        entries.push(Entry::file(&format!("completions/{file}"), script.into_bytes()));
    }
    if name == Program::PLUGIN.binary {
        let script = |shell: &str| output(Command::new(path).args(["completion", shell]));
        let kubectl = script("kubectl")? + "\n";
        entries.push(Entry::program("completions/kubectl_complete-diagnose_svc", kubectl.into_bytes()));
        let powershell = script("powershell")? + "\n";
        entries.push(Entry::file(&format!("completions/{name}.ps1"), powershell.into_bytes()));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_where_it_begins() {
        for contents in ["/src/main.rs", "\0/src/main.rs", "a /src/x"] {
            assert!(has_path(contents.as_bytes(), "/src"), "{contents}");
        }
        for contents in ["/crates/workqueue/src/lib.rs", "/srcs/main.rs", "library/src/x", "/src"] {
            assert!(!has_path(contents.as_bytes(), "/src"), "{contents}");
        }
    }
}
