# Recipes for developers; `just` lists them. CI runs `.ci/run`, which does not need just.

binary := "kube-endpoint-manager"

_default:
    @just --list --unsorted

# Everything that CI runs
ci:
    .ci/run

# The quick checks, before each commit
check: fmt-check clippy test

# Format everything
fmt:
    cargo fmt --all

# Check the formatting
fmt-check:
    cargo fmt --all --check

# Lint all targets
clippy:
    cargo clippy --locked --workspace --all-targets -- -D warnings

# Run all tests, or those of one crate: `just test -p kube-endpoint-tracker`
test *ARGS="--workspace":
    cargo test {{ ARGS }}

# Run tests and overwrite changed snapshots: read the diff before you commit
test-accept *ARGS="--workspace":
    INSTA_UPDATE=always cargo test {{ ARGS }}

# Build the documentation, with broken links as errors
doc *ARGS:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps {{ ARGS }}

# Check each crate by itself, so that a feature that a manifest forgets is found
check-alone:
    #!/usr/bin/env bash
    set -euo pipefail
    for member in $(cargo tree --workspace --depth 0 --prefix none --format '{p}' --color never | cut -d ' ' -f 1); do
        echo "--- $member"
        cargo check --locked --package "$member"
    done

# Lint the binary with some features only: `just check-features endpointslice embedded`
check-features *FEATURES:
    cargo clippy --locked --package {{ binary }} --no-default-features --features "{{ FEATURES }}" -- -D warnings

# Check licences, sources and duplicates of dependencies
deny:
    cargo deny --locked check --hide-inclusion-graph licenses bans sources

# Run all benchmarks, or some of them: `just bench --bench plan`
bench *ARGS:
    cargo bench --package kube-endpoint-benches {{ ARGS }}
