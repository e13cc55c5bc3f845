"""Compression of gradients on their way between ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


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


class _CastCompressor(Compressor):
    """Sends floating-point tensors in a shorter type."""

    dtype: tf.DType

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """Casts to the shorter type unless the tensor holds integers."""
        dtype = tf.as_dtype(tensor.dtype)
        if not dtype.is_floating:
            return tensor, None
        return tf.cast(tensor, cls.dtype), dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Casts back to the original type."""
        return tensor if ctx is None else tf.cast(tensor, ctx)


class FP16Compressor(_CastCompressor):
    """Sends numbers with 16 bits: 11 of precision, up to 65504."""

    dtype = tf.float16


class BF16Compressor(_CastCompressor):
    """Sends numbers with 16 bits: 8 of precision, in the range of float32."""

    dtype = tf.bfloat16


class Compression:
    """The compressors to choose from."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
