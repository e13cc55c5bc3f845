# Sourced by the other scripts: where things are, and how they speak.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=$PWD/.venv
BIN=$VENV/bin
PYTHON=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_QUIET=1
# Build output belongs to this tree, whatever the user's settings say.
export CARGO_TARGET_DIR=$PWD/target

if [ -t 1 ]; then BOLD=$(printf '\033[1m') RED=$(printf '\033[31m') PLAIN=$(printf '\033[0m'); else BOLD='' RED='' PLAIN=''; fi

say() { printf '%s==> %s%s\n' "$BOLD" "$*" "$PLAIN"; }
fail() { printf '%serror: %s%s\n' "$RED" "$*" "$PLAIN" >&2; exit 1; }

# Status 3: not a failure, this machine does not have what it takes. Tests pass the reason on and skip.
cannot() { printf '%s\n' "$*" >&2; exit 3; }

# Runs a step with its name and time.
step() {
    local name=$1 start=$SECONDS
    shift
    say "$name"
    "$@" || fail "$name failed: $*"
    printf '    %s: %d s\n' "$name" $((SECONDS - start))
}

need() { command -v "$1" >/dev/null || fail "$1 is not installed; $2"; }

# Installs Debian packages that are not there yet; elsewhere it says what is missing.
debian() {
    local missing=()
    for package in "$@"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "please install: ${missing[*]}"
    fi
    say "installing ${missing[*]}"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# Mounts memory over a scratch folder where there is plenty: no package manager waits for the disk there, and nothing
# is left to delete. Elsewhere the folder stays what it is.
in_memory() {
    local gigabytes=$2
    [ "$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)" -lt $((2 * gigabytes)) ] && return
    mount -t tmpfs -o "size=${gigabytes}g,mode=755" tmpfs "$1"
}

make_venv() {
    need "$PYTHON" "install Python 3.9 or newer"
    [ -x "$BIN/pip" ] && return
    if ! "$PYTHON" -m venv "$VENV"; then
        # Debian ships this part of Python in a package of its own.
        debian python3-venv
        "$PYTHON" -m venv --clear "$VENV"
    fi
}

# Tests run in parallel where cargo-nextest is installed; plain cargo does as well.
rust_tests() {
    if command -v cargo-nextest >/dev/null; then cargo nextest run "$@"; else cargo test "$@"; fi
}
