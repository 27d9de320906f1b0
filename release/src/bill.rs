//! The bill of materials of a program: the crates that it is made of, in CycloneDX's format.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::archive::sha256;
use crate::source::{Source, output, run};
use crate::target::{Program, Target};

/// Makes the bill. Its serial number and its time follow from the sources.
pub(crate) fn make(source: &Source, target: Target, program: &Program) -> Result<Vec<u8>> {
    // cargo-cyclonedx writes a file beside the manifest of each member of the workspace.
    let name = format!("release-{}", target.triple());
    let file = |folder: &std::path::PathBuf| folder.join(format!("{name}.json"));
    let mut cyclonedx = source.cargo(&["cyclonedx"]);
    cyclonedx
        .args([
            "--quiet",
            "--format=json",
            "--spec-version=1.5",
            "--no-build-deps",
            "--target",
            target.triple(),
        ])
        .args(["--override-filename", &name])
        .arg("--manifest-path")
        .arg(source.root.join("bins").join(program.name).join("Cargo.toml"));
    let written = run(&mut cyclonedx);
    let bill = crate::read(&file(&source.root.join("bins").join(program.name)));
    for folder in &source.members {
        let _ = std::fs::remove_file(file(folder));
    }
    written?;
    let bill =
        String::from_utf8(bill?)?.replace(&format!("file://{}", source.root.display()), "file:///source");
    let bill = normal(serde_json::from_str(&bill)?, &crates(source, target, program)?)?;
    Ok(serde_json::to_vec_pretty(&bill)?)
}

/// Returns the crates that Cargo links into a program, each as `NAME vVERSION`. Macros run in the
/// compiler, and so do the crates that only they need.
fn crates(source: &Source, target: Target, program: &Program) -> Result<BTreeSet<String>> {
    let mut tree: Command = source.cargo(&["tree", "--locked"]);
    tree.args([
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--color=never",
        "--target",
        target.triple(),
    ]);
    let text = output(tree.args(["--package", program.name]).args(program.features))?;
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Ok(text.lines().map(name).collect())
}

/// Leaves out the crates that the program is not made of, since cargo-cyclonedx adds the features
/// of the whole workspace, and sets the serial number.
fn normal(mut bill: Value, crates: &BTreeSet<String>) -> Result<Value> {
    let mut kept = BTreeSet::from([bill["metadata"]["component"]["bom-ref"].clone().to_string()]);
    let components = bill["components"].as_array_mut().context("a bill without components")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    components.retain(|component| {
        let is_kept =
            crates.contains(&format!("{} v{}", text(&component["name"]), text(&component["version"])));
        if is_kept {
            kept.insert(component["bom-ref"].to_string());
        }
        is_kept
    });
    let dependencies = bill["dependencies"].as_array_mut().context("a bill without dependencies")?;
    dependencies.retain(|dependency| kept.contains(&dependency["ref"].to_string()));
    for on in dependencies.iter_mut().filter_map(|dependency| dependency.get_mut("dependsOn")?.as_array_mut())
    {
        on.retain(|reference| kept.contains(&reference.to_string()));
    }
    let sum = sha256(&serde_json::to_vec(&bill)?);
    // Version 8 of a UUID is for numbers of one's own making.
    let parts =
        [&sum[..8], &sum[8..12], &format!("8{}", &sum[12..15]), &format!("8{}", &sum[15..18]), &sum[18..30]];
    bill["serialNumber"] = json!(format!("urn:uuid:{}", parts.join("-")));
    bill.sort_all_objects();
    Ok(bill)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_has_the_crates_of_the_program() {
        let component =
            |name: &str| json!({"name": name, "version": "1.0.0", "bom-ref": format!("ref-{name}")});
        let bill = json!({
            "metadata": {"component": {"bom-ref": "root"}},
            "components": [component("used"), component("of-a-feature")],
            "dependencies": [
                {"ref": "root", "dependsOn": ["ref-used", "ref-of-a-feature"]},
                {"ref": "ref-used"},
                {"ref": "ref-of-a-feature"},
            ],
        });
        let bill = normal(bill, &BTreeSet::from(["used v1.0.0".to_owned()])).unwrap();
        assert_eq!(bill["components"], json!([component("used")]));
        let dependencies = json!([{"ref": "root", "dependsOn": ["ref-used"]}, {"ref": "ref-used"}]);
        assert_eq!(bill["dependencies"], dependencies);
        let number = bill["serialNumber"].as_str().unwrap();
        let lengths: Vec<usize> = number.trim_start_matches("urn:uuid:").split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{number}");
    }
}
