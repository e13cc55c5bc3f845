#!/usr/bin/env bash
# The Python tests with other versions of the frameworks: scripts/test_matrix.sh [ROW...], all rows without one.
# Each row is a virtual environment of its own under .venv-matrix/, with the wheel as users get it. It is removed after
# its tests, because a framework takes gigabytes; KEEP=1 keeps it for the next time. WHEEL=FILE takes a wheel that is
# already built. What each row printed stays in .venv-matrix/ROW.log.
source "$(dirname "$0")/environment.sh"

# A row: its name, which begins with the framework that its tests have in their names; Python; packages, and variables
# for the tests, which are in capitals.
MATRIX=(
    "torch-2.0 3.11 torch==2.0.1 numpy<2"
    "torch-2.1 3.11 torch==2.1.2 numpy<2"
    "torch-2.3 3.11 torch==2.3.1 numpy<2"
    "torch-2.4 3.11 torch==2.4.1 numpy"
    "torch-2.6 3.11 torch==2.6.0 numpy"
    "torch-2.8 3.12 torch==2.8.0 numpy"
    "torch-2.10 3.12 torch==2.10.0 numpy"
    "torch-newest 3.13 torch numpy"
    "tensorflow-2.13 3.11 tensorflow-cpu==2.13.1"
    "tensorflow-2.15 3.11 tensorflow-cpu==2.15.1"
    "tensorflow-newest 3.12 tensorflow-cpu"
    "keras-2 3.11 tensorflow-cpu tf_keras TF_USE_LEGACY_KERAS=1"
    "keras-torch 3.11 keras torch KERAS_BACKEND=torch"
    "keras-jax 3.11 keras jax KERAS_BACKEND=jax"
    "mxnet-1.8 3.11 mxnet==1.8.0.post0 numpy==1.23.5 sockeye==2.3.24 mpi4py"
    "mxnet-1.9 3.11 mxnet==1.9.1 numpy==1.23.5 mpi4py"
    "mxnet-2.0 3.11 mxnet==2.0.0b1 numpy==1.23.5 mpi4py"
    "jax-0.4.38 3.11 jax==0.4.38 jaxlib==0.4.38"
    "jax-0.6 3.11 jax==0.6.2 jaxlib==0.6.2"
    "jax-0.10 3.11 jax==0.10.2 flax optax"
    "jax-newest 3.13 jax flax optax"
    "launchers 3.11 numpy torch"
)
PLACE=$PWD/.venv-matrix
NP=2
results=()

names() { printf '%s\n' "${MATRIX[@]}" | cut -d' ' -f1; }

# The line of the matrix with a name.
row_named() {
    printf '%s\n' "${MATRIX[@]}" | grep -F -- "$1 " | grep -m1 "^$1 " || fail "no row $1; there are: $(names | paste -sd' ')"
}

# A Python that runs: what is on the PATH may be a stand-in for one that is not installed.
has_python() { "python$1" -c '' 2>/dev/null; }

install_row() {
    local venv=$1 python=$2
    shift 2
    if [ ! -x "$venv/bin/pytest" ]; then
        "python$python" -m venv --clear "$venv"
        "$venv/bin/pip" install --no-cache-dir "$@" pytest pytest-timeout 'cloudpickle>=2' || return
    fi
    "$venv/bin/pip" install --force-reinstall --no-deps "$WHEEL"
}

# Runs what has the framework in its name: tests, those of every framework as far as they are about it, and examples.
# The other frameworks have files of their own, which are named: nothing else has to wait for their import.
tests_of() {
    local venv=$1 framework=$2 pytest=("$1/bin/python" -m pytest -q -p no:cacheprovider)
    local ranks=("$venv/bin/horovodrun" -np "$NP" "${pytest[@]}")
    case $framework in
    tensorflow)
        "${pytest[@]}" tests/single/test_{tensorflow,keras}_*.py tests/integration/test_{tensorflow,keras}_*.py || return
        "${ranks[@]}" tests/parallel/test_tensorflow_*.py || return
        "${ranks[@]}" tests/parallel/test_keras_*.py
        ;;
    # With the MXNet that Sockeye wants, Sockeye as well, also on hosts made of namespaces.
    mxnet)
        [ "$(id -u)" != 0 ] || { scripts/hosts.sh packages; scripts/mpi.sh debian; }
        "${pytest[@]}" tests/single/test_mxnet_*.py tests/integration/test_mxnet_*.py || return
        "${pytest[@]}" tests/hosts/test_mxnet_*.py || [ $? = 5 ] || return
        "${ranks[@]}" tests/parallel/test_mxnet_*.py
        ;;
    keras) "${ranks[@]}" tests/parallel/test_keras_*.py ;;
    jax)
        mapfile -t alone < <(compgen -G 'tests/single/test_jax_*.py'; compgen -G 'tests/integration/test_jax_*.py')
        [ "${#alone[@]}" -eq 0 ] || "${pytest[@]}" "${alone[@]}" || return
        "${ranks[@]}" tests/parallel/test_jax_*.py
        ;;
    # All implementations of MPI, and the tests that take long.
    launchers)
        scripts/mpi.sh debian openmpi mpich intel && "${pytest[@]}" tests/hpc
        ;;
    *)
        "${pytest[@]}" -k "$framework" tests/single tests/integration/test_examples.py || return
        "${ranks[@]}" -k "$framework" tests/parallel
        ;;
    esac
}

version_in() {
    local package
    for package in "$2" "$2-cpu"; do
        "$1/bin/python" -c "from importlib.metadata import version; print(version('$package'))" 2>/dev/null && return
    done
    echo -
}

# What pytest says at its end: in the processes that start no ranks or their own, and on rank 0.
counted_in() {
    local ends
    ends=$(sed -nE '/^\[[1-9]/d; s/(.*>:)?([0-9]+ (passed|failed).*) in [0-9.]+s.*/\2/p' "$1")
    sed -E 's/, [0-9]+ (deselected|warnings?)//g' <<<"${ends:--}" | paste -sd';'
}

# Runs a row, adds its line to the results. A row that could not run has not passed.
run_row() {
    local name=$1 python=$2 venv=$PLACE/$1 log=$PLACE/$1.log start=$SECONDS outcome=passed
    local word packages=() variables=(TF_CPP_MIN_LOG_LEVEL=2)
    shift 2
    for word in "$@"; do
        if [[ $word =~ ^[A-Z_]+= ]]; then variables+=("$word"); else packages+=("$word"); fi
    done
    if ! has_python "$python"; then
        say "$name: python$python is not installed, or not on the PATH"
        results+=("$name|-|-|NOT RUN: no python$python")
        return
    fi
    say "$name: $*, Python $python (log: ${log#"$PWD"/})"
    {
        install_row "$venv" "$python" "${packages[@]}" && (export "${variables[@]}" && tests_of "$venv" "${name%%-*}")
    } >"$log" 2>&1 || outcome=FAILED
    [ "$outcome" = passed ] || tail -n 40 "$log"
    results+=("$name|$(version_in "$venv" "${name%%-*}")|$(counted_in "$log")|$outcome ($((SECONDS - start)) s)")
    [ -n "${KEEP:-}" ] || rm -rf "$venv"
}

table() {
    local line name version counted outcome
    for line in "row|version|single and examples;$NP ranks|result" "${results[@]}"; do
        IFS='|' read -r name version counted outcome <<<"$line"
        printf '%-18s %-14s %-48s %s\n' "$name" "$version" "${counted/;/; }" "$outcome"
    done
}

[ $# -gt 0 ] || mapfile -t all < <(names)
[ $# -gt 0 ] || set -- "${all[@]}"
chosen=()
for name in "$@"; do chosen+=("$(row_named "$name")"); done

mkdir -p "$PLACE"
[ -n "${WHEEL:-}" ] || { step "wheel" scripts/wheel.sh; WHEEL=$(ls dist/*.whl); }
for row in "${chosen[@]}"; do
    read -ra words <<<"$row"
    run_row "${words[@]}"
done
table
for line in "${results[@]}"; do [[ $line == *"|passed"* ]] || fail "not every row passed"; done
say "all rows passed"
