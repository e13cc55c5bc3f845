"""The collectives on PyTorch tensors: a file for each operation, and one for its form on groups.

A file holds the public functions of its operation (blocking, `*_async`, in place), the autograd
function behind the blocking form, and the operator that takes its place in a compiled graph, with
its description for the compiler and its gradient. `horovod.torch.mpi_ops` exports the functions.
"""
