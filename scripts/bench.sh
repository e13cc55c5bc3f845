#!/usr/bin/env bash
# Our allreduce against torch.distributed's gloo backend, in one run on this machine.
source "$(dirname "$0")/environment.sh"

"$BIN/python" -c 'import torch' 2>/dev/null || { say "installing torch"; "$BIN/pip" install torch; }
"$BIN/python" scripts/bench.py "$@"
