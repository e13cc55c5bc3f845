#!/usr/bin/env bash
# Builds one wheel for every Python from 3.9 on into dist/.
#
# On Linux it runs with glibc 2.17 and newer (manylinux2014): zig is the C compiler and the linker, and knows the symbols of
# every glibc. It comes as a Python package (100 MB) and needs no root.
#
#     TARGET=aarch64-unknown-linux-gnu scripts/wheel.sh    # for another machine, after `rustup target add`
source "$(dirname "$0")/environment.sh"

packages=('maturin>=1.16,<2' zopflipy)
options=(--release --strip --compression-level 9 ${TARGET:+--target "$TARGET"})
if [ "$(uname -s)" = Linux ]; then
    packages+=('ziglang>=0.13,<1')
    options+=(--zig --compatibility manylinux2014)
fi

need cargo "get it with rustup"
make_venv
"$BIN/pip" install "${packages[@]}"
rm -rf dist
# maturin finds zig by way of the first Python on the PATH.
PATH=$BIN:$PATH "$BIN/maturin" build --quiet --out dist "${options[@]}"
"$BIN/python" scripts/recompress_wheel.py dist/*.whl
ls dist
