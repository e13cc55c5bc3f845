"""The type stubs describe the extension module that is really there."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import horovod
from horovod import _core

STUB = ast.parse((Path(horovod.__file__).parent / "_core.pyi").read_text())


def test_every_name_is_described_and_exists() -> None:
    described = {
        node.name for node in STUB.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    } | {node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign)}
    real = {name for name in vars(_core) if not name.startswith("__") or name == "__version__"}
    assert described == real


def test_parameters_have_the_described_names_and_order() -> None:
    for node in STUB.body:
        if isinstance(node, ast.FunctionDef):
            described = [argument.arg for argument in node.args.args]
            real = list(inspect.signature(getattr(_core, node.name)).parameters)
            assert described == real, node.name
