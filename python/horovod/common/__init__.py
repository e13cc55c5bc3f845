"""What every framework package shares; with `horovod.runner`, the only Python that uses `_core`.

Nothing is imported here: the extension module loads `horovod.common.exceptions` while it is itself
being loaded.
"""
