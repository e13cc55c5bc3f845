"""The extension module: engine, launcher and their errors, as seen from Python.

Tensors cross this border as addresses. The caller keeps the memory alive and untouched until
`wait` on the returned handle has returned or raised; the engine never looks at it afterwards.

What operations have in common is checked here, for every entry point alike. The engine knows a
tensor as `<operation>.<name>`, and as `<operation>.noname.<handle>` with `name=None`. `op` is the
number of a reduction, factors are what `float` accepts, process sets must be registered; ValueError
otherwise.
"""

from collections.abc import Callable, Sequence
from typing import Any

from horovod.common.process_sets import ProcessSet

__version__: str

DTYPES: dict[str, int]
"""Code of each element type, by its name: `float32`, `bfloat16`, ..."""

class Output:
    """A result that the engine allocated. The memory lives as long as this object."""

    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def received_splits(self) -> list[int]:
        """Rows received from each rank; empty except after an alltoall."""

def init(announced: tuple[int, int, str] | None = None, ranks: Sequence[int] | None = None) -> None:
    """Joins the job that a launcher started this process for; does nothing if already joined.

    With `announced` (rank, size and the text of `announce`) joins that job instead, with `ranks` a
    job of those of the launcher's ranks, in that order. Raises ValueError for a bad setting
    and HorovodInternalError if the ranks cannot be connected.
    """

def announce() -> str:
    """Starts the key-value store of a new job and returns where it is, with the job's key.

    This process is its rank 0. It passes the text to all others, and all call `init` with it.
    """

def init_timeout() -> float:
    """How many seconds `init` waits for other ranks."""

def pmix_helper() -> None:
    """Exchanges rank 0's announcement by PMIx, in a process that does nothing else."""

def leave_launcher() -> None:
    """Takes leave of the launcher that started this process, which is about to exit."""

def shutdown(failure: str | None = None) -> None:
    """Leaves the job, together with all other ranks.

    A rank that ends because of an uncaught exception passes its text: the others' operations then
    fail with it, and the launcher reports this rank as the cause.
    """

def mpi_enabled() -> bool:
    """Whether the settings chose MPI to move tensors or as the launcher; false before `init`."""

def mpi_threads_supported() -> bool:
    """Whether MPI moves tensors and may be called from several threads at once."""

def abort_mpi_if_failed() -> None:
    """Ends the job by `MPI_Abort` if the program has initialized MPI and the last session failed.

    For the end of the program, whose own `MPI_Finalize` would wait for the rank that failed.
    """

def is_initialized() -> bool: ...
def after_fork_in_child() -> None:
    """Forgets the parent's engine, whose thread does not exist in the child."""

def rank() -> int: ...
def local_rank() -> int: ...
def cross_rank() -> int: ...
def size() -> int: ...
def local_size() -> int: ...
def cross_size() -> int: ...
def local_ranks() -> list[int]:
    """Ranks on this host, by local rank."""

def cross_ranks() -> list[int]:
    """Ranks with this process's local rank, by cross rank."""

def counters() -> dict[str, int]:
    """What the engine has done so far; see `horovod.common.basics.counters`."""

def is_homogeneous() -> bool: ...
def start_timeline(file_path: str, mark_cycles: bool) -> None:
    """Starts to write the timeline, on rank 0; ValueError if HOROVOD_TIMELINE was not set."""

def stop_timeline() -> None:
    """Completes the timeline's file."""

def transport() -> str:
    """What moves the bytes of this job: `memory`, `shared memory` or `tcp`."""

def allreduce(
    name: str | None,
    input: int,
    output: int,
    dtype: int,
    shape: Sequence[int],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> int: ...

class InPlace:
    """The fast path: starts operations on tensors that describe themselves (DLPack's C exchange
    API), in one call."""

    def __new__(cls, classes: Sequence[type], is_disguised: Callable[[Any], bool]) -> InPlace:
        """For tensors whose class is one of these; the first has the functions that describe them.

        `is_disguised` says whether a tensor's memory does not hold what the tensor shows.
        """

    @property
    def usable(self) -> bool:
        """Whether tensors of the class describe themselves."""

    def allreduce(
        self,
        tensor: object,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        blocking: bool = False,
    ) -> int | None:
        """Returns a handle for `wait`, or None if the other form is needed: for Adasum, and for a
        tensor that is not dense or not on the CPU. With `blocking` the caller must wait at once.
        """

def allgather(
    name: str | None, input: int, dtype: int, shape: Sequence[int], process_set: ProcessSet
) -> int: ...
def broadcast(
    name: str | None,
    input: int,
    output: int,
    dtype: int,
    shape: Sequence[int],
    root: int,
    process_set: ProcessSet,
) -> int: ...
def alltoall(
    name: str | None,
    input: int,
    dtype: int,
    shape: Sequence[int],
    splits: Sequence[int],
    process_set: ProcessSet,
) -> int:
    """`splits` may be empty for equal parts."""

def reducescatter(
    name: str | None,
    input: int,
    dtype: int,
    shape: Sequence[int],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> int: ...
def barrier(process_set: ProcessSet) -> int: ...
def grouped_allreduce(
    name: str | None,
    inputs: Sequence[int],
    outputs: Sequence[int],
    dtypes: Sequence[int],
    shapes: Sequence[Sequence[int]],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> list[int]:
    """Starts all or none; returns one handle for each tensor.

    The engine knows the group as `grouped_allreduce.<name>`, and tensor i of n, counted from 1, as
    `<group>_<i>of<n>`. Without a name the group is `grouped_allreduce.noname.<number>`.
    """

def grouped_allgather(
    name: str | None,
    inputs: Sequence[int],
    dtypes: Sequence[int],
    shapes: Sequence[Sequence[int]],
    process_set: ProcessSet,
) -> list[int]: ...
def grouped_reducescatter(
    name: str | None,
    inputs: Sequence[int],
    dtypes: Sequence[int],
    shapes: Sequence[Sequence[int]],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> list[int]: ...
def join() -> int:
    """Has nothing more to give: waits, without the GIL, until every rank has joined, taking part
    in what the others still reduce; returns the rank that joined last."""

def add_process_set(ranks: Sequence[int]) -> int:
    """Waits until every rank of the job has asked for the same set and returns its number.

    Raises ValueError if the ranks do not agree, or the set exists or makes no sense.
    """

def remove_process_set(process_set: int) -> None:
    """Waits until every rank has asked for it. Pending operations of the set fail."""

def process_set_ids() -> list[int]: ...
def process_set_ranks(process_set: int) -> list[int]:
    """Global ranks, ascending; ValueError for an unknown set."""

def dynamic_process_sets() -> bool:
    """Whether HOROVOD_DYNAMIC_PROCESS_SETS was set when this process joined the job."""

def poll(handle: int) -> bool:
    """Whether the operation has ended; ValueError for an unknown handle."""

def wait(handle: int) -> Output | None:
    """Waits without the GIL, forgets the handle, and returns what the engine allocated.

    Raises HorovodInternalError if the operation failed and ValueError for an unknown handle.
    """

def run_commandline(arguments: Sequence[str]) -> int:
    """Does what `horovodrun` does and returns its exit code. `arguments` excludes the program."""

def store_put(key: str, value: bytes) -> None:
    """Stores a value in the job's key-value store, which the launcher runs."""

def store_get(key: str, timeout_seconds: float) -> bytes:
    """Waits for a value of the job's key-value store."""

def sign_object(scope: str, content: bytes) -> bytes:
    """The tag with which this rank sends a pickled object for the operation called `scope`."""

def check_object(scope: str, rank: int, content: bytes, tag: bytes) -> None:
    """Raises HorovodInternalError unless `rank` has sent this object for this use of `scope`."""

def object_done(scope: str) -> None:
    """Says that the operation called `scope` is complete on this rank: its next use is another."""

def jax_handler() -> int:
    """The address of the function that compiled programs of JAX call."""

def tensorflow_register() -> list[str]:
    """Registers the ops with the TensorFlow that this process has loaded; returns their names.

    Raises ImportError if TensorFlow is not loaded or lacks a function that is needed.
    """

def mxnet_load(path: str, naive: bool) -> int:
    """Looks up the functions of the MXNet library at `path`, which this process has loaded, and
    returns its version, such as 10901. `naive` is whether its engine is NaiveEngine, which loses
    the errors of operations: they are raised by the call then.

    Raises ImportError if it is not loaded or lacks a function that is needed.
    """

def mxnet_collective(
    kind: str,
    name: object,
    grouped: bool,
    inputs: Sequence[int],
    in_place: bool,
    op: int,
    prescale: float,
    postscale: float,
    root: int,
    splits: Sequence[int],
    process_set: object,
    priority: int,
) -> tuple[list[int], list[int]]:
    """Pushes an operation to MXNet's engine; `inputs` are handles of arrays that the caller keeps.

    An allreduce or a broadcast returns at once; its errors are raised by MXNet, where an array is
    waited for. Other operations, whose results have a length of their own, are waited for. Returns
    handles of new arrays, which the caller owns (none if the operation is in place), and the rows
    received from each rank.
    """
