#!/usr/bin/env bash
# The tests, quick things first: scripts/test.sh core | lint | all
source "$(dirname "$0")/environment.sh"

# TensorFlow tells at every start which instructions it was not built for.
export TF_CPP_MIN_LOG_LEVEL=2

TOOLS=(auditwheel ruff mypy pytest pytest-timeout numpy 'cloudpickle>=2')

install_tools() { make_venv; "$BIN/pip" install --upgrade pip; "$BIN/pip" install "${TOOLS[@]}"; }

lint_rust() { cargo fmt --all --check && cargo clippy --quiet --workspace --all-targets -- -D warnings; }
lint_python() { "$BIN/ruff" format --check . && "$BIN/ruff" check . && "$BIN/mypy"; }
tidy() { cargo xtask tidy; }
# A broken link or a page missing from the navigation fails the build.
docs_site() { scripts/docs.sh; }
core() { rust_tests --workspace --exclude hvd-python; }
fuzz_targets() { debian g++; CARGO_TARGET_DIR=$PWD/fuzz/target cargo build --quiet --manifest-path fuzz/Cargo.toml; }

# The project as a user gets it, from the wheel.
install_wheel() { "$BIN/pip" install --force-reinstall --no-deps dist/*.whl; }
install_torch() { "$BIN/python" -c 'import torch' 2>/dev/null || "$BIN/pip" install torch; "$BIN/pip" install --no-deps pytorch-ignite packaging; }

# TensorFlow in a venv of its own: nothing else has to wait for its import.
TENSORFLOW=$PWD/.venv-tensorflow/bin
install_tensorflow() {
    [ -x "$TENSORFLOW/pip" ] || "$PYTHON" -m venv "$PWD/.venv-tensorflow"
    "$TENSORFLOW/pip" install tensorflow-cpu pytest pytest-timeout 'cloudpickle>=2'
    "$TENSORFLOW/pip" install --no-deps tf_keras
}
# JAX likewise.
JAX=$PWD/.venv-jax/bin
install_jax() {
    [ -x "$JAX/pip" ] || "$PYTHON" -m venv "$PWD/.venv-jax"
    "$JAX/pip" install jax flax optax keras pytest pytest-timeout 'cloudpickle>=2'
}
install_wheel_beside_jax() { "$JAX/pip" install --force-reinstall --no-deps dist/*.whl; }
jax() { "$JAX/horovodrun" -np 2 "$JAX/python" -m pytest -q -p no:cacheprovider tests/parallel/test_jax_*.py; }
jax_jobs() { "$JAX/python" -m pytest -q tests/integration/test_jax_*.py; }

install_wheel_beside_tensorflow() { "$TENSORFLOW/pip" install --force-reinstall --no-deps dist/*.whl; }

# They are gigabytes, and are downloaded while Rust is compiled and tested.
install_frameworks() { install_torch && install_tensorflow && install_jax; }
start_installing_frameworks() { install_frameworks & FRAMEWORKS=$!; }
frameworks() { wait "$FRAMEWORKS"; }
on_two_ranks() { "$TENSORFLOW/horovodrun" -np 2 "$TENSORFLOW/python" -m pytest -q -p no:cacheprovider "$@"; }
tensorflow() { on_two_ranks tests/parallel/test_tensorflow_*.py; }
keras() { on_two_ranks tests/parallel/test_keras_*.py; }
tensorflow_jobs() { "$TENSORFLOW/python" -m pytest -q tests/integration/test_{tensorflow,keras}_*.py tests/single/test_{tensorflow,keras}_*.py; }

# What has a step of its own.
APART=(--ignore-glob='*/test_tensorflow_*' --ignore-glob='*/test_keras_*' --ignore-glob='*/test_jax_*')
single() { "$BIN/python" -m pytest -q tests/single; }
# Each rank runs the same tests; a failure on any rank fails the job.
parallel() { local np=$1; shift; env "$@" "$BIN/horovodrun" -np "$np" "$BIN/python" -m pytest -q -p no:cacheprovider tests/parallel; }
integration() { [ "$(id -u)" != 0 ] || { debian openmpi-bin mpich; scripts/mpi.sh openmpi; }; "$BIN/python" -m pytest -q "${APART[@]}" tests/integration; }
# Ranks killed, stopped, cut off and besieged; the long version is tests/chaos/chaos.py.
chaos() { debian iproute2; "$BIN/python" -m pytest -q tests/chaos; }
# Hosts made of namespaces; without root these tests say why they did not run.
hosts() { [ "$(id -u)" != 0 ] || scripts/hosts.sh packages; "$BIN/python" -m pytest -q tests/hosts; }
# Jobs over containers, and docs/guide/docker.md as it stands; without an engine they say why they did not run.
containers() { "$BIN/python" -m pytest -q tests/containers; }
# Jobs that mpirun and srun start, also in Apptainer, and docs/guide/hpc.md as it stands; what takes long, and the large
# implementations of MPI, are in scripts/test_matrix.sh. Without root these tests say why they did not run.
other_launchers() {
    [ "$(id -u)" != 0 ] || { scripts/hosts.sh packages; scripts/mpi.sh debian openmpi; }
    "$BIN/pip" install mpi4py
    "$BIN/python" -m pytest -q -m 'not slow' tests/hpc
}

case ${1:-all} in
core)
    step "Rust tests" core
    ;;
lint)
    step "tools" install_tools
    step "Rust lints" lint_rust
    step "Python lints" lint_python
    step "rules of the house" tidy
    ;;
all)
    step "tools" install_tools
    start_installing_frameworks
    step "Rust lints" lint_rust
    step "Python lints" lint_python
    step "documentation site" docs_site
    step "Rust tests" core
    step "fuzz targets build" fuzz_targets
    step "torch, TensorFlow and JAX" frameworks
    step "wheel" scripts/wheel.sh
    step "install the wheel" install_wheel
    step "single process" single
    step "2 ranks, shared memory" parallel 2
    step "2 ranks, TCP" parallel 2 HOROVOD_TRANSPORT=tcp
    step "4 ranks, shared memory, by way of relays" parallel 4 HOROVOD_CONTROL_FAN_OUT=1
    step "install the wheel beside TensorFlow" install_wheel_beside_tensorflow
    step "2 ranks, TensorFlow" tensorflow
    step "2 ranks, Keras" keras
    step "whole jobs, TensorFlow and Keras" tensorflow_jobs
    step "install the wheel beside JAX" install_wheel_beside_jax
    step "2 ranks, JAX" jax
    step "whole jobs, JAX" jax_jobs
    step "whole jobs" integration
    step "faults" chaos
    step "several hosts" hosts
    step "containers" containers
    step "other launchers" other_launchers
    say "all tests passed"
    ;;
*)
    fail "unknown word: $1 (core, lint or all)"
    ;;
esac
