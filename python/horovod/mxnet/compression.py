"""Compression of gradients on their way between ranks."""

from __future__ import annotations

from typing import Any


class Compressor:
    """How to make a tensor smaller before it travels, and how to undo it afterwards."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Returns the tensor to send and what `decompress` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Restores a received tensor."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Returns the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the tensor itself."""
        return tensor


class FP16Compressor(Compressor):
    """Sends numbers with 16 bits: 11 of precision, up to 65504."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Casts to the shorter type unless the tensor holds integers."""
        if "float" not in str(tensor.dtype):
            return tensor, None
        return tensor.astype("float16", copy=False), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Casts back to the original type."""
        return tensor if ctx is None else tensor.astype(ctx, copy=False)


class Compression:
    """The compressors to choose from."""

    none = NoneCompressor
    fp16 = FP16Compressor
