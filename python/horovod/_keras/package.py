"""How the packages for Keras get their functions and classes from the definitions here.

A definition becomes a function or a class of the package: with the package's Keras, under its
module name, which tracebacks, `help` and pickles show. Type checkers see the definitions.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

KerasClass: Any = object
"""The base of definitions of callbacks. A class of Keras takes its place in a package."""


def package_function(method: Callable[..., Any], module: str, compression: Any) -> Any:
    """A function of a package that does what a bound method does.

    Where the method's default of `compression` is None, its signature shows what that means.
    """

    @functools.wraps(method)
    def function(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    described = inspect.signature(method)
    parameters = [
        each.replace(default=compression) if each.name == "compression" else each
        for each in described.parameters.values()
    ]
    del function.__wrapped__
    function.__signature__ = described.replace(parameters=parameters)  # type: ignore[attr-defined]
    function.__module__ = module
    function.__qualname__ = method.__name__
    return function


def callback_classes(definitions: ModuleType, keras: Any, module: str) -> dict[str, type]:
    """The callbacks that a module defines, derived from the callbacks of a Keras, by name."""
    classes = {}
    for name in definitions.__all__:
        definition = getattr(definitions, name)
        base = getattr(keras.callbacks, getattr(definition, "base_name", "Callback"))
        attributes = {"__doc__": definition.__doc__, "__module__": module, "keras": keras}
        classes[name] = type(name, (definition, base), attributes)
    return classes
