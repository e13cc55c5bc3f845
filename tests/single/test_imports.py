"""What importing costs, and what is said when something is missing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(statement: str) -> set[str]:
    code = f"import json, sys\nbefore = set(sys.modules)\n{statement}\n"
    return set(json.loads(run_python(code + "print(json.dumps([*set(sys.modules) - before]))")))


def test_importing_horovod_loads_nothing_else() -> None:
    modules = modules_after("import horovod")
    assert not modules & {"numpy", "torch", "cloudpickle", "subprocess", "horovod._core"}


def test_the_launcher_loads_no_framework() -> None:
    modules = modules_after("import horovod.runner.launch")
    assert not modules & {"numpy", "torch", "cloudpickle", "subprocess"}


def test_one_framework_does_not_load_another() -> None:
    assert "torch" not in modules_after("import horovod.numpy")


@pytest.mark.parametrize(
    ("module", "package"), [("numpy", "horovod.numpy"), ("torch", "horovod.torch")]
)
def test_a_missing_framework_is_explained(module: str, package: str) -> None:
    code = BLOCK.format(module=module) + (
        f"try:\n    import {package}\nexcept ImportError as error:\n    print(error)"
    )
    assert f"pip install {module}" in run_python(code)


@pytest.mark.parametrize("package", ["ray", "spark", "spark.torch", "ray.elastic"])
def test_packages_that_are_not_there_yet_say_so(package: str) -> None:
    code = f"try:\n    import horovod.{package}\nexcept ImportError as error:\n    print(error)"
    (sentence,) = run_python(code).splitlines()
    name = package.split(".")[0]
    assert sentence.startswith(f"this version of Horovod has no horovod.{name} yet; ")


def test_packages_that_are_not_there_yet_are_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    from horovod.common import build

    monkeypatch.setattr(build, "_can_find", lambda module: True)
    build.extension_available.cache_clear()
    assert not build.extension_available("ray")
    assert build.extension_available("torch")
    build.extension_available.cache_clear()


def test_a_broken_framework_is_not_called_missing() -> None:
    code = BLOCK.format(module="numpy").replace("name=name", "name='libdependency'")
    code += "try:\n    import horovod.numpy\nexcept ImportError as error:\n    print(error)"
    assert "pip install" not in run_python(code)


def test_version_and_run_are_found_when_asked_for() -> None:
    import horovod

    assert horovod.__version__
    assert callable(horovod.run)
    assert {"run", "__version__"} <= set(dir(horovod))
    with pytest.raises(AttributeError, match="nonsense"):
        horovod.nonsense  # noqa: B018


def test_every_exported_name_exists() -> None:
    import importlib

    for name in ("horovod", "horovod.numpy", "horovod.torch", "horovod.data"):
        module = importlib.import_module(name)
        assert all(hasattr(module, exported) for exported in module.__all__)


def test_elastic_names() -> None:
    hvd = pytest.importorskip("horovod.torch")
    assert hvd.elastic.__all__ == ["ElasticSampler", "TorchState", "run"]
    assert all(hasattr(hvd.elastic, name) for name in hvd.elastic.__all__)
