"""Optimizers of Keras that apply the gradients of all ranks.

The class of such an optimizer has the name and the module of the one it derives from, so a saved
model names that one and is loaded by programs that know nothing of Horovod.
"""

from __future__ import annotations

import warnings
from typing import Any

from horovod._keras import compilation
from horovod._keras.settings import Settings
from horovod._keras.versions import bridge, kind_of
from horovod.common.gradient_options import groups_argument
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import Average


class Distributed:
    """What every distributed optimizer has in common."""

    _hvd_settings: Settings
    _hvd_plain: type
    _hvd_bridge: Any
    _hvd_steps: Any = None

    def _hvd(self) -> Any:
        """The steps of this optimizer, made when they are first needed."""
        if self._hvd_steps is None:
            name = self._hvd_settings.name or f"Distributed{self._hvd_plain.__name__}"
            self._hvd_steps = self._hvd_bridge.Steps(name, self._hvd_settings)
        return self._hvd_steps

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays this rank's own, divided by the number of ranks."""
        self._hvd().register_local(var)


class CallableList(list):
    """A list that programs may also call, as `variables` was a method once."""

    def __call__(self) -> CallableList:
        """Returns the list itself."""
        return self


class Keras3(Distributed):
    """Reduces in `apply`, to which every way of applying gradients leads, before clipping."""

    _hvd_reduced = False

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Reduces gradients and applies them."""
        base: Any = super()
        given = trainable_variables is not None
        variables = list(trainable_variables if given else self._trainable_variables)  # type: ignore[attr-defined]
        gradients = list(grads)
        if self._hvd_reduced or not gradients or len(gradients) != len(variables):
            base.apply(grads, trainable_variables)
            return
        self._hvd().apply(self, gradients, variables, base.apply)

    def stateless_apply(
        self, optimizer_variables: Any, grads: Any, trainable_variables: Any
    ) -> Any:
        """Reduces gradients and applies them, as JAX has it: to values, which are returned.

        A loss scale does not come by `apply` then, and looks at gradients first.
        """
        base: Any = super()
        reduced = self._hvd().reduce(list(grads), list(self._trainable_variables))  # type: ignore[attr-defined]
        self._hvd_reduced = True
        try:
            return base.stateless_apply(optimizer_variables, reduced, trainable_variables)
        finally:
            self._hvd_reduced = False

    @property
    def variables(self) -> CallableList:
        """The state of the optimizer."""
        return CallableList(super().variables)  # type: ignore[misc]


class _Keras2(Distributed):
    """Reduces where gradients are computed; what applies them is left as it is."""

    _hvd_computed = False

    @property
    def _agg_helper(self) -> Any:
        """What adds up gradients over backward passes; None without. Programs know it by this."""
        return self._hvd().helper

    def _hvd_reduce(self, pairs: Any) -> list[tuple[Any, Any]]:
        self._hvd_computed = True
        pairs = list(pairs)
        variables = [variable for _, variable in pairs]
        return list(zip(self._hvd().reduce([each for each, _ in pairs], variables), variables))

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Applies gradients that were computed by this optimizer or a distributed tape."""
        base: Any = super()
        pairs = list(grads_and_vars)
        if not self._hvd_computed:
            self._hvd_computed = True
            warnings.warn(
                "apply_gradients of a distributed optimizer of Keras 2 does not reduce gradients: "
                "have them computed by minimize or compute_gradients of the optimizer, or by "
                "hvd.DistributedGradientTape",
                stacklevel=2,
            )
        helper = self._hvd().helper
        if helper is None:
            return base.apply_gradients(pairs, *args, **kwargs)
        return helper.apply_gradients(
            lambda: base.apply_gradients(pairs, *args, **kwargs), self, pairs, *args, **kwargs
        )


class Keras2(_Keras2):
    """For optimizers of Keras 2.11 and later."""

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The gradients of all ranks."""
        return self._hvd_reduce(super().compute_gradients(*args, **kwargs))  # type: ignore[misc]

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        """The same under the name that it has in `keras.optimizers.legacy`."""
        if grad_loss is not None:
            raise ValueError(
                "grad_loss is only possible with optimizers of keras.optimizers.legacy"
            )
        return self.compute_gradients(loss, var_list, tape)


class Legacy(_Keras2):
    """For `keras.optimizers.legacy`."""

    def _compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        return self._hvd_reduce(super()._compute_gradients(*args, **kwargs))  # type: ignore[misc]

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """The gradients of all ranks, in a graph."""
        params = list(params) if isinstance(params, (list, tuple)) else [params]
        gradients = super().get_gradients(loss, params)  # type: ignore[misc]
        return [gradient for gradient, _ in self._hvd_reduce(zip(gradients, params))]


_KINDS: dict[str, type[Distributed]] = {"keras3": Keras3, "keras2": Keras2, "legacy": Legacy}


def distributed_class(keras: Any, base: Any, settings: Settings) -> Any:
    """A class derived from that of an optimizer, which keeps its name."""
    plain = base._hvd_plain if issubclass(base, Distributed) else base
    mixin = _KINDS[kind_of(plain)]
    if mixin is not Keras3:
        from horovod._keras import tensorflow_bridge as tensors
    else:
        tensors = bridge(keras)
    content = {
        "__module__": _public_module(keras, plain),
        "__doc__": plain.__doc__,
        "_hvd_settings": settings,
        "_hvd_plain": plain,
        "_hvd_bridge": tensors,
    }
    new = type(plain.__name__, (mixin, plain), content)
    _share_registered_name(keras, plain, new)
    return new


def _public_module(keras: Any, plain: type) -> str:
    """Where a program finds the class: where Keras shows it, if it is one of Keras."""
    shown = getattr(keras.optimizers, plain.__name__, None)
    if shown in plain.__mro__ and plain.__module__.startswith(shown.__module__.split(".")[0]):
        return "keras.optimizers"
    return plain.__module__


def _share_registered_name(keras: Any, plain: type, new: type) -> None:
    """Has an optimizer saved under the name that its class was registered with."""
    registered = keras.utils.get_registered_name(plain)
    package, separator, name = registered.rpartition(">")
    if separator:
        keras.utils.register_keras_serializable(package, name)(new)
        # Loading gives the class that was registered.
        keras.utils.get_custom_objects()[registered] = plain


def is_built(optimizer: Any) -> bool:
    """Whether an optimizer has state that a new one would not have."""
    if hasattr(optimizer, "built"):
        return bool(optimizer.built)
    if hasattr(optimizer, "_built"):
        return bool(optimizer._built)
    return bool(getattr(optimizer, "_weights", None))


def distribute(keras: Any, optimizer: Any, settings: Settings, in_place: bool = False) -> Any:
    """A distributed optimizer with the configuration of a plain one. An optimizer that has state
    becomes distributed itself, so as to keep it.
    """
    if settings.backward_passes_per_step > 1 and getattr(
        optimizer, "gradient_accumulation_steps", None
    ):
        raise ValueError(
            "backward_passes_per_step of hvd.DistributedOptimizer and "
            "gradient_accumulation_steps of the optimizer do the same; use one of them"
        )
    new = distributed_class(keras, type(optimizer), settings)
    if in_place or is_built(optimizer):
        optimizer.__class__ = new
        result = optimizer
    else:
        result = new.from_config(optimizer.get_config())
    result._hvd_steps = None
    result._hvd()
    compilation.watch(compilation.keras_of(result, keras))
    return result


def undistributed(optimizer: Any) -> Any:
    """Makes an optimizer plain again."""
    optimizer.__class__ = optimizer._hvd_plain
    return optimizer


def create_distributed_optimizer(
    keras: Any,
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = None,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    scale_local_gradients: bool = True,
) -> Any:
    """Checks the options and wraps an optimizer."""
    settings = Settings(
        compression=bridge(keras).Compression.none if compression is None else compression,
        name=name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        groups=groups_argument(num_groups, groups),
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
    )
    return distribute(keras, optimizer, settings)


def register_local_layers(keras: Any, optimizer: Any, local_layers: Any) -> Any:
    """The gradients of these layers stay this rank's own."""
    if local_layers is None:
        return optimizer
    layers = list(local_layers) if isinstance(local_layers, (list, tuple)) else [local_layers]
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(f"local_layers are Keras layers, not {layer!r}")
        for weight in layer.trainable_weights:
            optimizer.register_local_var(weight)
    return optimizer
