"""What the tests need to know about each framework, and the values they compute with.

Values are small integers, so that sums and products are exact in every type, and depend only on
the rank, so that every rank can compute what the others have sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

import horovod.numpy
from horovod.common import basics

INTEGERS = ["uint8", "int8", "uint16", "int16", "int32", "int64"]
FLOATS = ["float16", "float32", "float64"]
SHAPES = [(17,), (17, 3), (5, 4, 3)]


class Framework:
    """Turns NumPy arrays into a framework's tensors and back."""

    name = "numpy"
    hvd: ModuleType = horovod.numpy
    dtypes = (*INTEGERS, *FLOATS, "bool")
    scalable = ("uint8", "int8", "int32", "int64", *FLOATS)

    def tensor(self, array: np.ndarray, dtype: str = "float32") -> Any:
        return np.array(array, dtype=dtype)

    def array(self, tensor: Any) -> np.ndarray:
        """The values in a type that NumPy can compare, whatever the tensor's type is."""
        assert isinstance(tensor, np.ndarray)
        return tensor

    def unsupported(self) -> tuple[Any, str]:
        """A tensor of a type that the engine does not know, and the name of the type."""
        return np.ones(3, dtype="uint32"), "uint32"

    def dtype_name(self, tensor: Any) -> str:
        return tensor.dtype.name


FRAMEWORKS = [Framework()]

try:
    import torch
except ModuleNotFoundError:
    pass
else:
    import horovod.torch

    class TorchFramework(Framework):
        name = "torch"
        hvd = horovod.torch
        # Old versions have no unsigned types but the shortest.
        dtypes = tuple(name for name in (*Framework.dtypes, "bfloat16") if hasattr(torch, name))
        scalable = (*Framework.scalable, "bfloat16")

        def tensor(self, array: np.ndarray, dtype: str = "float32") -> torch.Tensor:
            if dtype == "bfloat16":
                return torch.from_numpy(array.astype("float32")).to(torch.bfloat16)
            return torch.from_numpy(np.array(array, dtype=dtype))

        def array(self, tensor: torch.Tensor) -> np.ndarray:
            assert isinstance(tensor, torch.Tensor)
            tensor = tensor.detach()
            return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

        def unsupported(self) -> tuple[torch.Tensor, str]:
            # PyTorch 2.0 has no torch.float8_e5m2.
            name = "float8_e5m2" if hasattr(torch, "float8_e5m2") else "qint8"
            return torch.empty(3, dtype=getattr(torch, name)), name

        def dtype_name(self, tensor: torch.Tensor) -> str:
            return str(tensor.dtype).removeprefix("torch.")

    FRAMEWORKS.append(TorchFramework())


def values(rank: int, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """What a rank contributes: numbers from 0 to 3, or from -3 to 3 where the type has a sign."""
    low = 0 if dtype in ("uint8", "uint16", "bool") else -3
    numbers = np.random.default_rng([rank, *shape]).integers(low, 4, shape)
    return numbers > 1 if dtype == "bool" else numbers


def everyones(
    shape: tuple[int, ...], dtype: str = "float32", ranks: Iterable[int] | None = None
) -> np.ndarray:
    """What all ranks, or the given ones, contribute, by rank."""
    ranks = range(basics.size()) if ranks is None else ranks
    return np.stack([values(rank, shape, dtype) for rank in ranks])


def mine(framework: Framework, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """What this rank contributes."""
    return framework.tensor(values(basics.rank(), shape, dtype), dtype)


def share(rows: int, rank: int, size: int | None = None) -> slice:
    """The rows that a rank gets from a reducescatter among all ranks, or `size` of them."""
    shortest, longer = divmod(rows, basics.size() if size is None else size)
    start = rank * shortest + min(rank, longer)
    return slice(start, start + shortest + (rank < longer))


def even_and_odd(hvd: Any) -> tuple[Any, Any]:
    """Two disjoint process sets with all ranks, registered; needs at least two ranks."""
    return tuple(hvd.add_process_set(range(first, hvd.size(), 2)) for first in (0, 1))


def assert_equal(
    framework: Framework, tensor: Any, expected: np.ndarray, dtype: str | None = None
) -> None:
    array = framework.array(tensor)
    assert array.shape == expected.shape
    assert dtype is None or framework.dtype_name(tensor) == dtype
    np.testing.assert_array_equal(array.astype("float64"), expected.astype("float64"))


def assert_close(framework: Framework, tensor: Any, expected: np.ndarray, dtype: str) -> None:
    """Equal up to the precision of a type, for results that are not whole numbers."""
    precision = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-14}
    array = framework.array(tensor)
    assert array.shape == expected.shape
    tolerance = precision.get(dtype, 0)
    np.testing.assert_allclose(
        array.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=tolerance
    )
