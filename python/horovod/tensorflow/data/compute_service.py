"""The data service of a job: its configuration, its servers, and data sets that use it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from horovod.tensorflow.data.registry import Address, ComputeClient

COMPUTE, TRAINING = "compute", "training"
HEARTBEAT_MILLISECONDS = 1000


@dataclass(frozen=True)
class TfDataServiceConfig:
    """How to find a data service, and where its dispatchers run."""

    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    addresses: list[Address]
    key: bytes
    timeout: int = 60

    def compute_client(self, verbose: int = 1) -> ComputeClient:
        """Asks the processes of the service."""
        return ComputeClient(self.addresses, self.key, self.timeout)

    def to_dict(self) -> dict[str, Any]:
        """The configuration with its key as text."""
        return {**asdict(self), "key": self.key.hex()}

    @staticmethod
    def from_dict(config: dict[str, Any]) -> TfDataServiceConfig:
        """Undoes `to_dict`."""
        addresses = [(host, port) for host, port in config["addresses"]]
        changes = {"key": bytes.fromhex(config["key"]), "addresses": addresses}
        return TfDataServiceConfig(**{**config, **changes})

    def write(self, filename: str) -> None:
        """Writes a file that only the user can read, whole or not at all."""
        path = Path(filename)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(self.to_dict(), file)
        os.replace(file.name, path)

    @staticmethod
    def read(filename: str, wait_for_file_creation: bool = False) -> TfDataServiceConfig:
        """Reads a file that `write` has written, or will have written soon."""
        path = Path(filename)
        while wait_for_file_creation and not path.exists():
            time.sleep(1)
        return TfDataServiceConfig.from_dict(json.loads(path.read_text()))


def own_host() -> str:
    """An address by which other hosts can reach this one, if there is any."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def start_dispatcher(config: TfDataServiceConfig, number: int) -> Any:
    """Starts a dispatcher in this process and makes it known."""
    service = tf.data.experimental.service
    server = service.DispatchServer(service.DispatcherConfig(port=0), start=True)
    port = server.target.rsplit(":", 1)[1]
    config.compute_client().register_dispatcher(number, f"grpc://{own_host()}:{port}")
    return server


@contextlib.contextmanager
def tf_data_service(config: TfDataServiceConfig, rank: int) -> Iterator[str]:
    """For a training process: the address of its dispatcher, which runs here if it is to.

    Several dispatchers serve one training process each, a single one serves all.
    """
    number = rank if config.dispatchers > 1 else 0
    server = None
    if config.dispatcher_side == TRAINING and (config.dispatchers > 1 or rank == 0):
        server = start_dispatcher(config, number)
    try:
        client = config.compute_client()
        address = client.wait_for_dispatcher_registration(number, config.timeout)
        client.wait_for_dispatcher_worker_registration(number, config.timeout)
        yield address
    finally:
        if server is not None:
            server._stop()


def send_to_data_service(
    dataset: tf.data.Dataset,
    config: TfDataServiceConfig,
    rank: int,
    size: int | None = None,
    processing_mode: str = "distributed_epoch",
    reuse_dataset: bool = False,
    round_robin: bool = False,
) -> tf.data.Dataset:
    """A data set that is prepared by the service.

    With `reuse_dataset` training processes share what is prepared: the first come, or, with
    `round_robin`, one after the other.
    """
    if config.dispatcher_side != COMPUTE:
        raise RuntimeError(
            "send_to_data_service needs a service with its dispatchers on the compute side; use "
            "`with tf_data_service(config, rank) as address` and tf.data.experimental.service"
        )
    with tf_data_service(config, rank) as address:
        return dataset.apply(
            tf.data.experimental.service.distribute(
                processing_mode=processing_mode,
                service=address,
                job_name="job" if reuse_dataset else None,
                consumer_index=rank if reuse_dataset and round_robin else None,
                num_consumers=size if reuse_dataset and round_robin else None,
            )
        )


tf.data.Dataset.send_to_data_service = send_to_data_service


def compute_worker_fn(config: TfDataServiceConfig) -> None:
    """Prepares data in this process, a rank of a job of its own, until the service is ended."""
    import horovod.tensorflow as hvd

    hvd.init()
    rank = hvd.rank()
    number = rank // config.workers_per_dispatcher
    is_first = rank % config.workers_per_dispatcher == 0
    dispatcher = None
    if config.dispatcher_side == COMPUTE and is_first:
        dispatcher = start_dispatcher(config, number)
    client = config.compute_client()
    address = client.wait_for_dispatcher_registration(number, config.timeout)
    service = tf.data.experimental.service
    worker = service.WorkerServer(
        service.WorkerConfig(
            dispatcher_address=address.split("://")[1],
            worker_address=f"{own_host()}:%port%",
            port=0,
            heartbeat_interval_ms=HEARTBEAT_MILLISECONDS,
            dispatcher_timeout_ms=config.timeout * 1000,
        )
    )
    client.register_worker_for_dispatcher(number, rank)
    client.wait_for_shutdown()
    worker._stop()
    if dispatcher is not None:
        dispatcher._stop()
