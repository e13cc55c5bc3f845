"""tf.data service as part of a job: processes that prepare data for those that train.

Start the preparing ones with `horovodrun -np 2 python -m horovod.tensorflow.data.compute_worker
service.json`; training processes read the file with `TfDataServiceConfig.read`.
"""
