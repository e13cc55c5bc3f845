#!/usr/bin/env bash
# Our allreduce against the peers that are installed, in one run on this machine; scripts/bench/run.py has the options.
source "$(dirname "$0")/environment.sh"

"$BIN/python" -c 'import torch' 2>/dev/null || { say "installing torch"; "$BIN/pip" install torch; }
"$BIN/python" scripts/bench/run.py --out=docs/benchmarks "$@"
say "written to docs/benchmarks/allreduce.md, allreduce.svg and README.md"
