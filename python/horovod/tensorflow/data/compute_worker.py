"""The processes of a data service: `horovodrun -np 4 python -m ...compute_worker service.json`."""

from __future__ import annotations

import argparse
import secrets

import horovod.tensorflow as hvd
from horovod.tensorflow.data.compute_service import (
    COMPUTE,
    TRAINING,
    TfDataServiceConfig,
    compute_worker_fn,
    own_host,
)
from horovod.tensorflow.data.registry import LOOPBACK, Registry, Server


def main(
    dispatchers: int = 1,
    dispatcher_side: str = COMPUTE,
    configfile: str = "service.json",
    timeout: int = 60,
) -> None:
    """Runs a worker; rank 0 also runs the registry and writes how to find it."""
    hvd.init()
    if dispatchers <= 0 or hvd.size() % dispatchers:
        raise ValueError(
            f"{hvd.size()} processes cannot be shared out equally among {dispatchers} dispatchers"
        )
    server = None
    config = None
    if hvd.rank() == 0:
        key = secrets.token_bytes(32)
        workers = hvd.size() // dispatchers
        hosts = dict.fromkeys([own_host(), LOOPBACK])
        server = Server(Registry(dispatchers, workers), key, hosts)
        config = TfDataServiceConfig(
            dispatchers, workers, dispatcher_side, server.addresses, key, timeout
        )
        config.write(configfile)
    compute_worker_fn(hvd.broadcast_object(config, name="TfDataServiceConfig"))
    hvd.barrier()
    if server is not None:
        server.close()


def run_commandline() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configfile", help="written by rank 0: how to find the service")
    parser.add_argument("--dispatchers", type=int, default=1)
    parser.add_argument("--dispatcher-side", choices=[COMPUTE, TRAINING], default=COMPUTE)
    parser.add_argument("--timeout", type=int, default=60, help="seconds to wait for each other")
    arguments = parser.parse_args()
    main(arguments.dispatchers, arguments.dispatcher_side, arguments.configfile, arguments.timeout)


if __name__ == "__main__":
    run_commandline()
