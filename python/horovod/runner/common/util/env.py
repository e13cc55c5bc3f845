"""What the environment says about a process's place in its job. For programs that import this from
upstream; in a program that calls `hvd.init()`, ask `hvd.rank()` and `hvd.size()`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]
IGNORE_REGEXES = {"BASH_FUNC_.*", "OLDPWD", ".*CUDA_VISIBLE_DEVICES", "_HOROVOD_SECRET_KEY"}
"""Variables that upstream does not pass on to other hosts."""
KUBEFLOW_MPI_EXEC = "/etc/mpi/kubexec.sh"

_VARIABLES = [
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
]


def get_env_rank_and_size() -> tuple[int, int]:
    """Returns rank and size as a launcher has set them; 0 and 1 without a launcher."""
    for rank, size in _VARIABLES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def is_exportable(v: str) -> bool:
    """Whether a variable may be passed on to other hosts."""
    return not any(re.match(pattern, v) for pattern in IGNORE_REGEXES)


def is_kubeflow_mpi(env: Mapping[str, str] | None = None) -> bool:
    """Whether Kubeflow's MPI operator has started this process."""
    variables = os.environ if env is None else env
    return variables.get("OMPI_MCA_plm_rsh_agent") == KUBEFLOW_MPI_EXEC
