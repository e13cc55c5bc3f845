"""What is said when TensorFlow is missing, too old or broken; and the names there are."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""

OLD = """
import tensorflow as tf
tf.__version__ = "2.12.1"
"""

WITHOUT_SYMBOL = """
import tensorflow
from horovod.common import framework_ops
def refuse():
    raise ImportError("`libtensorflow_framework.so.2` has no `TF_NewAsyncKernelBuilder`")
framework_ops.register_tensorflow = refuse
"""


def error_of(code: str) -> str:
    code += "try:\n    import horovod.tensorflow\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_missing_tensorflow_is_explained() -> None:
    assert "pip install tensorflow" in error_of(BLOCK)


def test_the_ops_need_a_tensorflow_that_is_loaded() -> None:
    code = "from horovod.common.framework_ops import register_tensorflow\n"
    code += "try:\n    register_tensorflow()\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "import tensorflow before horovod.tensorflow" in done.stdout


def test_an_old_tensorflow_is_refused_with_the_range_that_works() -> None:
    pytest.importorskip("tensorflow")
    text = error_of(OLD)
    assert "2.13 or newer" in text and "2.12.1" in text and "tested: 2.13 to" in text


def test_a_tensorflow_without_a_function_is_refused_with_the_range_that_works() -> None:
    tensorflow = pytest.importorskip("tensorflow")
    text = error_of(WITHOUT_SYMBOL)
    assert "TF_NewAsyncKernelBuilder" in text
    assert tensorflow.__version__ in text and "tested: 2.13 to" in text


def test_every_exported_name_exists() -> None:
    pytest.importorskip("tensorflow")
    import horovod.tensorflow as hvd

    assert all(hasattr(hvd, name) for name in hvd.__all__)


def test_elastic_names() -> None:
    pytest.importorskip("tensorflow")
    import horovod.tensorflow as hvd

    assert hvd.elastic.__all__ == ["TensorFlowKerasState", "TensorFlowState", "run"]
    assert all(hasattr(hvd.elastic, name) for name in hvd.elastic.__all__)


def test_one_rank_needs_no_launcher() -> None:
    pytest.importorskip("tensorflow")
    import horovod.tensorflow as hvd

    hvd.init()
    try:
        assert hvd.allreduce([1.0, 2.0]).numpy().tolist() == [1.0, 2.0]
        assert int(hvd.join()) == 0
    finally:
        hvd.shutdown()
