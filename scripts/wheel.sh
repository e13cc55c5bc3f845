#!/usr/bin/env bash
# Builds one wheel for every Python from 3.9 on into dist/.
source "$(dirname "$0")/environment.sh"

need cargo "get it with rustup"
make_venv
"$BIN/pip" install 'maturin>=1.9,<2'
rm -rf dist
"$BIN/maturin" build --quiet --release --strip --out dist
ls dist
