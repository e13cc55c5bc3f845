#!/usr/bin/env bash
# Builds the documentation site into site/, from the Markdown of the tree; a broken link is an error. `scripts/docs.sh serve`
# shows it at http://localhost:8000 and rebuilds it when a page changes.
source "$(dirname "$0")/environment.sh"

VENV=$PWD/.venv-docs
BIN=$VENV/bin
make_venv
[ -x "$BIN/mkdocs" ] || { say "installing mkdocs-material"; "$BIN/pip" install mkdocs-material; }
# The theme announces its successor at every build.
export NO_MKDOCS_2_WARNING=1

if [ "${1:-build}" = serve ]; then exec "$BIN/mkdocs" serve; fi
"$BIN/mkdocs" build --quiet --strict --clean
say "written to site/index.html"
