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

# Play the recordings and the hand-over on a test cluster, and report: `just conformance --kubeconfig FILE`, with `--upstream 'COMMAND' --report r.md`
[positional-arguments]
conformance *ARGS:
    cargo run --package kube-endpoint-integration-tests --bin conformance -- "$@"

# Play simulated histories of so many seeds on all cores: `just simulate 20000`, `just simulate 1 --seed 17 --transcript`
simulate COUNT *ARGS:
    cargo run --release --package kube-endpoint-simulation --bin simulate -- {{ COUNT }} {{ ARGS }}

# Play the named histories, and those of ten seeds, with a fault at each request, on all cores: `just sweep`, `just sweep --from 3000`, `just sweep sieve`
sweep *ARGS:
    cargo run --release --package kube-endpoint-simulation --bin sweep -- {{ ARGS }}

# Break the product with each patch in integration-tests/simulation/mutants, and play the history that must notice: `just mutants`, `just mutants no-fence`
mutants *NAMES:
    integration-tests/simulation/mutants/play {{ NAMES }}

# Change one expression of a plan after the other, and run the tests of its crate: `just mutants-of-plans mirroring`. It needs `cargo install cargo-mutants`
mutants-of-plans PACKAGE *ARGS:
    cargo mutants --package kube-endpoint-{{ PACKAGE }} {{ ARGS }}

# Measure what clients of a Service see on two real nodes, as root: `just nodes rollout abrupt --rounds 10`, `just nodes --help`
[positional-arguments]
nodes *ARGS:
    integration-tests/nodes/measure "$@"

# Measure the controllers as a process: `just scale --preset a`, `just scale --against 'COMMAND'`
scale *ARGS:
    cargo build --profile dist --package {{ binary }}
    cargo run --profile dist --package kube-endpoint-scale -- {{ ARGS }}

# Count instructions and compare the counts with benches/instructions.txt; `just count --update` writes that file
count *ARGS:
    cargo bench --workspace --profile dev --bench instructions -- {{ ARGS }}

# Build into target/profiled with a profile of what the program executes: on the embedded API server, or on that of a test cluster with `--kubeconfig FILE`
[positional-arguments]
profiled *ARGS:
    deploy/build-with-profile "$@"

# Fuzz each target for a minute, or one target, or all, for some seconds: `just fuzz requests 600`, `just fuzz all 180`. It needs cargo-fuzz and nightly
fuzz TARGET="all" SECONDS="60":
    #!/usr/bin/env bash
    set -euo pipefail
    targets="{{ TARGET }}"
    if [[ $targets == all ]]; then targets=$(cargo +nightly fuzz list); fi
    for target in $targets; do
        echo "--- $target"
        mkdir -p "fuzz/corpus/$target"
        cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
            -max_total_time={{ SECONDS }} -max_len=16384 -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1
    done

# Build the documentation as a book into target/book: `just book --open`. It needs `cargo install mdbook`
book *ARGS:
    mdbook build {{ ARGS }}
