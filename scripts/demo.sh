#!/usr/bin/env bash
# Trains a small model on two processes and says what to type next.
source "$(dirname "$0")/environment.sh"

command='horovodrun -np 2 python examples/numpy/digits.py'
say "$command"
PATH=$BIN:$PATH $command
cat <<TEXT

That was two processes training one model. Next:
    source .venv/bin/activate
    horovodrun -np 4 python examples/numpy/digits.py              # four processes
    pip install torch                                             # large: it brings its GPU libraries
    horovodrun -np 2 python examples/pytorch/pytorch_mnist.py     # the same with PyTorch
    horovodrun --help
TEXT
