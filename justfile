# Recipes for developers; `just` alone lists them. `.ci/run` is what counts, and needs no just.

binary := "kube-endpoint-manager"

_default:
    @just --list --unsorted

# All that CI does, in the same way
ci:
    .ci/run

# The quick part, before each commit
check: fmt-check clippy test

# Format everything
fmt:
    cargo fmt --all

# Is everything formatted?
fmt-check:
    cargo fmt --all --check

# Lints, on all targets
clippy:
    cargo clippy --locked --workspace --all-targets -- -D warnings

# All tests, or those of one crate: `just test -p kube-endpoint-tracker`
test *ARGS="--workspace":
    cargo test {{ ARGS }}

# Tests, with snapshots that changed written over the old ones: read the diff before you commit
test-accept *ARGS="--workspace":
    INSTA_UPDATE=always cargo test {{ ARGS }}

# Documentation, with broken links as errors
doc *ARGS:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps {{ ARGS }}

# Each crate by itself, so that no manifest lives off another's features
check-alone:
    #!/usr/bin/env bash
    set -euo pipefail
    for member in $(cargo tree --workspace --depth 0 --prefix none --format '{p}' --color never | cut -d ' ' -f 1); do
        echo "--- $member"
        cargo check --locked --package "$member"
    done

# The binary with some features only: `just check-features endpointslice embedded`
check-features *FEATURES:
    cargo clippy --locked --package {{ binary }} --no-default-features --features "{{ FEATURES }}" -- -D warnings

# Licences, sources and duplicates of dependencies
deny:
    cargo deny --locked check --hide-inclusion-graph licenses bans sources

# Benchmarks, or some of them: `just bench --bench plan`
bench *ARGS:
    cargo bench --package kube-endpoint-benches {{ ARGS }}
