"""Shorter types for arrays on their way."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

Array = Any


class Compressor:
    """Turns an array into one that travels, and back."""

    @staticmethod
    def compress(array: Array) -> tuple[Array, Any]:
        """The array that travels, and what is needed to turn it back."""
        raise NotImplementedError

    @staticmethod
    def decompress(array: Array, ctx: Any) -> Array:
        """The result in the original type."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends arrays as they are."""

    @staticmethod
    def compress(array: Array) -> tuple[Array, Any]:
        """Returns the array itself."""
        return array, None

    @staticmethod
    def decompress(array: Array, ctx: Any) -> Array:
        """Returns the array itself."""
        return array


class FP16Compressor(Compressor):
    """Sends numbers with 16 bits: 11 of precision, up to 65504."""

    @staticmethod
    def compress(array: Array) -> tuple[Array, Any]:
        """Casts to float16 unless the array holds integers."""
        if not jnp.issubdtype(array.dtype, jnp.floating):
            return array, None
        return array.astype(jnp.float16), array.dtype

    @staticmethod
    def decompress(array: Array, ctx: Any) -> Array:
        """Casts back to the original type."""
        return array if ctx is None else array.astype(ctx)


class Compression:
    """The compressors to choose from."""

    none = NoneCompressor
    fp16 = FP16Compressor
