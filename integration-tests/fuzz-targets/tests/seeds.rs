//! Runs each target on its seeds, and checks that the fuzz targets are those of this crate.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kube_endpoint_fuzz_targets::TARGETS;

use crate::limits::alone;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Returns the names in a folder, without extensions.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_seed_holds() {
    let _alone = alone();
    for (name, target) in TARGETS {
        let folder = fuzz().join("seeds").join(name);
        let mut seeds: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        seeds.sort();
        assert!(seeds.len() >= 3, "{} has {} seeds", folder.display(), seeds.len());
        for seed in seeds {
            let bytes = std::fs::read(&seed).unwrap();
            assert!(bytes.len() < 10_000, "{} is large", seed.display());
            println!("{}", seed.display());
            target(&bytes);
        }
    }
}

#[test]
fn every_target_accepts_no_bytes_and_garbage() {
    let _alone = alone();
    let noise: Vec<u8> =
        (0..4096_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (_, target) in TARGETS {
        target(b"");
        target(b"\n");
        target(&[0; 64]);
        target(&noise);
    }
}

#[test]
fn the_fuzz_targets_are_those_of_this_crate() {
    let _alone = alone();
    let targets: BTreeSet<String> = TARGETS.into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names(&fuzz().join("fuzz_targets")), targets);
    assert_eq!(names(&fuzz().join("seeds")), targets);
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for target in targets {
        assert!(manifest.contains(&format!("name = \"{target}\"")), "fuzz/Cargo.toml does not have {target}");
    }
}
