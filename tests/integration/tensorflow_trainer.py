"""Trains nothing: reads what a data service prepares, and prints what it got as JSON.

Arguments: the service's file, how data sets are shared (`own`, `first` or `turns`), the mode.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.tensorflow.data.compute_service import TfDataServiceConfig, tf_data_service

configfile, sharing, mode = sys.argv[1:]


def prepared(config: TfDataServiceConfig) -> Any:
    data = tf.data.Dataset.range(1024)
    data = data.repeat().batch(128) if sharing == "turns" else data.batch(128)
    if config.dispatcher_side == "compute":
        return data.send_to_data_service(
            config,
            hvd.rank(),
            size=hvd.size(),
            processing_mode=mode,
            reuse_dataset=sharing != "own",
            round_robin=sharing == "turns",
        )
    service = tf.data.experimental.service.distribute(mode, dispatcher)
    return data.apply(service)


def read(data: Any) -> list[int]:
    values: list[int] = []
    for batch in data.take(4) if sharing == "turns" else data:
        assert len(batch) <= 128
        values += [int(value) for value in batch]
    return values


hvd.init()
config = TfDataServiceConfig.read(configfile, wait_for_file_creation=True)
if config.dispatcher_side == "training":
    with tf_data_service(config, hvd.rank()) as dispatcher:
        values = read(prepared(config))
        hvd.barrier()
else:
    values = read(prepared(config))
everyones = hvd.allgather_object(values)
if hvd.rank() == 0:
    config.compute_client().shutdown()
    print("READ", json.dumps(everyones), flush=True)
