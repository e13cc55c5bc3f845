#!/usr/bin/env bash
# Builds the project and installs it, with the named extra packages, into .venv.
source "$(dirname "$0")/environment.sh"

need cargo "get it with rustup"
make_venv
say "building horovod and installing it into .venv (the first build takes a minute or two)"
"$BIN/pip" install --upgrade pip
"$BIN/pip" install "$@"
"$BIN/pip" install --force-reinstall --no-deps .
"$BIN/pip" install 'cloudpickle>=2'
