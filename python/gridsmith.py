"""Gridsmith from Python: the SM of every thread block, when it starts and ends, and what it waits for.

    >>> import gridsmith
    >>> gpu = gridsmith.Gpu("h200")
    >>> run = gridsmith.Run()
    >>> run.launch("gemm", blocks=264, threads=256, registers=168, shared_bytes=200 << 10)
    >>> run.launch("copy", blocks=16, threads=512, registers=32)
    >>> prediction = gpu.predict(run)
    >>> prediction["copy"].sms[:4]
    >>> print(prediction["gemm"].why)

This is one file on top of the shared library ``libgridsmith``, through ctypes: nothing is compiled. It needs Python 3.9 or later. With
numpy installed, lists of SMs and times are numpy arrays, otherwise ``array.array``. A notebook shows a prediction as a page.

Where the library is: the variable ``GRIDSMITH_LIBRARY``; or beside this file; or in the build folder of a source tree; or where
the system finds it. Objects may be used by one thread at a time; any number of threads may use one ``Gpu`` for predictions.
"""

from __future__ import annotations

import array
import ctypes
import html
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

try:
    import numpy as _numpy
except ImportError:
    _numpy = None

__version__ = "0.1.0"
__all__ = ["Gpu", "Run", "Prediction", "Launch", "Occupancy", "Check", "Bound", "Dispatcher", "Error", "gpus", "read", "bound",
           "import_trace", "record", "explain", "Explanation", "frame"]

NO_TIME = -(1 << 63)  # a time that is not known
WAIT = -1  # the SM of a block that has not started
_NO_CARVEOUT = -1
_NO_LIMIT = (1 << 31) - 1


class Error(Exception):
    """An error. ``file``, ``line`` and ``column`` are the place in the input, or None."""

    def __init__(self, message: str, code: int = 0, file: Optional[str] = None, line: Optional[int] = None,
                 column: Optional[int] = None, excerpt: str = "") -> None:
        place = ":".join(str(part) for part in (file, line, column) if part)
        super().__init__(f"{place}: {message}" if place else message)
        self.message, self.code, self.file, self.line, self.column, self.excerpt = message, code, file, line, column, excerpt


# ---- the shared library ----


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("line", ctypes.c_long), ("column", ctypes.c_long), ("file", ctypes.c_char * 200),
                ("message", ctypes.c_char * 400), ("excerpt", ctypes.c_char * 120), ("caret", ctypes.c_int)]


def _fitting(value: Any, kind: Any, name: str = "a number") -> Any:
    """The value, which must be a number of this kind: ctypes would cut it off."""
    bits = 8 * ctypes.sizeof(kind) - 1
    if hasattr(value, "__index__") and not -(1 << bits) <= value < 1 << bits:
        raise Error(f"{name} is out of range: {value}", 1)
    return value


_INTEGERS = (ctypes.c_int, ctypes.c_int32, ctypes.c_int64)


def _checked(function: Any) -> Any:
    """The function, with numbers that must fit."""
    kinds = [(i, kind) for i, kind in enumerate(function.argtypes) if kind in _INTEGERS]

    def call(*values: Any) -> Any:
        for i, kind in kinds:
            _fitting(values[i], kind)
        return function(*values)
    return call if kinds else function


class _Numbers(ctypes.Structure):
    """A structure of numbers that must fit."""

    def __init__(self, *values: Any) -> None:
        for (name, kind), value in zip(self._fields_, values):
            if kind in _INTEGERS:
                _fitting(value, kind, name)
        super().__init__(*values)


class _Shape(_Numbers):
    _fields_ = [("threads", ctypes.c_int32), ("registers", ctypes.c_int32), ("shared_bytes", ctypes.c_int64),
                ("local_bytes", ctypes.c_int64), ("carveout_percent", ctypes.c_int32)]


class _Occupancy(ctypes.Structure):
    _fields_ = [("blocks", ctypes.c_int32), ("by_blocks", ctypes.c_int32), ("by_warps", ctypes.c_int32),
                ("by_registers", ctypes.c_int32), ("by_shared", ctypes.c_int32), ("limits", ctypes.c_uint),
                ("warps_per_block", ctypes.c_int32), ("warps_per_sm", ctypes.c_int32), ("shared_block_bytes", ctypes.c_int64),
                ("shared_config_bytes", ctypes.c_int64)]


class _LaunchSpec(_Numbers):
    _fields_ = [("kernel", ctypes.c_char_p), ("blocks", ctypes.c_int64), ("shape", _Shape), ("cluster", ctypes.c_int32),
                ("priority", ctypes.c_int32), ("stream", ctypes.c_char_p), ("duration_ns", ctypes.c_int64),
                ("spread_ns", ctypes.c_int64), ("is_cooperative", ctypes.c_bool)]


class _PredictOptions(_Numbers):
    _fields_ = [("explain", ctypes.c_bool), ("progress", ctypes.c_void_p), ("user", ctypes.c_void_p), ("follow", ctypes.c_bool),
                ("turn", ctypes.c_int)]


class _TogetherOptions(_Numbers):
    _fields_ = [("every_order", ctypes.c_bool), ("no_fixes", ctypes.c_bool), ("budget", ctypes.c_int64)]


class _BoundOptions(_Numbers):
    _fields_ = [("search", ctypes.c_bool), ("memory_bytes", ctypes.c_int64)]


class _Bound(ctypes.Structure):
    _fields_ = [("formula_cycles", ctypes.c_int64), ("exact_fair_cycles", ctypes.c_int64), ("exact_cycles", ctypes.c_int64),
                ("proven_cycles", ctypes.c_int64)]


_POINTER, _TEXT, _SIZE, _INT64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64
_ERROR, _SHAPE = ctypes.POINTER(_Error), ctypes.POINTER(_Shape)
_INT32S, _INT64S = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(_INT64)

# The functions of the library that are used here: their results and arguments.
_FUNCTIONS = {
    "gs_gpu_open": (_POINTER, _TEXT, _ERROR),
    "gs_gpu_free": (None, _POINTER),
    "gs_gpu_builtin": (_TEXT, _SIZE),
    "gs_gpu_name": (_TEXT, _POINTER),
    "gs_gpu_sms": (ctypes.c_int, _POINTER),
    "gs_gpu_set": (ctypes.c_int, _POINTER, _TEXT, _TEXT, _ERROR),
    "gs_gpu_use": (ctypes.c_int, _POINTER, _TEXT, _ERROR),
    "gs_occupancy_of": (None, _POINTER, _SHAPE, ctypes.POINTER(_Occupancy), _ERROR),
    "gs_dispatcher_new": (_POINTER, _POINTER, _ERROR),
    "gs_dispatcher_free": (None, _POINTER),
    "gs_dispatcher_kernel": (ctypes.c_int, _POINTER, _SHAPE, _ERROR),
    "gs_dispatcher_next": (ctypes.c_int, _POINTER, ctypes.c_int),
    "gs_dispatcher_room": (ctypes.c_int, _POINTER, ctypes.c_int, ctypes.c_int),
    "gs_dispatcher_place": (ctypes.c_int, _POINTER, ctypes.c_int, ctypes.c_int),
    "gs_dispatcher_release": (None, _POINTER, ctypes.c_int),
    "gs_dispatcher_launch": (ctypes.c_int, _POINTER, ctypes.POINTER(_LaunchSpec), _ERROR),
    "gs_dispatcher_exit": (None, _POINTER, ctypes.c_int),
    "gs_dispatcher_turn": (ctypes.c_int, _POINTER, ctypes.c_int, _ERROR),
    "gs_dispatcher_wait_until": (None, _POINTER, _INT64),
    "gs_dispatcher_why": (_POINTER, _POINTER, ctypes.c_int, _ERROR),
    "gs_dispatcher_copy": (ctypes.c_int, _POINTER, _POINTER, _ERROR),
    "gs_dispatcher_resident": (ctypes.c_int, _POINTER, ctypes.c_int),
    "gs_dispatcher_resident_all": (ctypes.c_int, _POINTER),
    "gs_runs_open": (_POINTER, _TEXT, _ERROR),
    "gs_runs_memory": (_POINTER, _TEXT, _TEXT, _SIZE, _ERROR),
    "gs_runs_close": (None, _POINTER),
    "gs_runs_next": (_POINTER, _POINTER, _ERROR),
    "gs_run_new": (_POINTER, _ERROR),
    "gs_run_free": (None, _POINTER),
    "gs_run_launch": (ctypes.c_int, _POINTER, ctypes.POINTER(_LaunchSpec), _ERROR),
    "gs_run_exit": (ctypes.c_int, _POINTER, _TEXT, _ERROR),
    "gs_run_gpu": (_TEXT, _POINTER),
    "gs_run_launches": (_SIZE, _POINTER),
    "gs_run_kernel": (_TEXT, _POINTER, _SIZE),
    "gs_run_blocks": (_INT64, _POINTER, _SIZE),
    "gs_run_copy_blocks": (None, _POINTER, _SIZE, _INT32S, _INT64S, _INT64S),
    "gs_run_why": (_TEXT, _POINTER, _SIZE),
    "gs_predict": (_POINTER, _POINTER, _POINTER, ctypes.POINTER(_PredictOptions), _ERROR),
    "gs_show": (_POINTER, _POINTER, _POINTER, _TEXT, ctypes.POINTER(_SIZE), _ERROR),
    "gs_string_free": (None, _POINTER),
    "gs_together": (ctypes.c_int, _POINTER, _POINTER, ctypes.POINTER(_TogetherOptions), ctypes.POINTER(_POINTER), _ERROR),
    "gs_program_open": (_POINTER, _TEXT, _ERROR),
    "gs_program_paper": (_POINTER, _INT64, _ERROR),
    "gs_program_free": (None, _POINTER),
    "gs_bound_of": (ctypes.c_int, _POINTER, _INT64, ctypes.POINTER(_BoundOptions), ctypes.POINTER(_Bound), _ERROR),
}


def _places() -> Iterator[str]:
    """Possible places of the library, the likeliest first."""
    here = pathlib.Path(__file__).resolve().parent
    named = os.environ.get("GRIDSMITH_LIBRARY")
    if named:
        yield named
        return
    yield str(here / "libgridsmith.so.0")
    yield str(here.parent / "build" / "release" / "libgridsmith.so.0")
    for prefix in here.parents:  # installed by CMake: PREFIX/lib/python3/dist-packages
        yield str(prefix / "libgridsmith.so.0")
    yield "libgridsmith.so.0"


def _load() -> ctypes.CDLL:
    tried = []
    for place in _places():
        if os.sep in place and not os.path.exists(place):
            continue
        try:
            library = ctypes.CDLL(place)
            break
        except OSError as reason:
            tried.append(str(reason))
    else:
        raise ImportError("libgridsmith.so.0 was not found: build it (sh scripts/try.sh), or set GRIDSMITH_LIBRARY to its path"
                          + "".join(f"; {reason}" for reason in tried))
    for name, (returned, *taken) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{library._name} is too old for this module: it has no {name}") from None
        function.restype, function.argtypes = returned, taken
        setattr(library, name, _checked(function))
    return library


_library = _load()


def _raise(error: _Error) -> None:
    raise Error(error.message.decode(errors="replace"), error.code, error.file.decode(errors="replace") or None,
                error.line or None, error.column or None, error.excerpt.decode(errors="replace"))


def _bytes(text: Union[str, "os.PathLike[str]"]) -> bytes:
    raw = os.fsencode(text)
    if b"\0" in raw:
        raise Error("a name contains a NUL byte", 1)
    return raw


def _take_text(address: Optional[int], size: Optional[int] = None) -> str:
    """The text at an address, which is freed."""
    raw = ctypes.string_at(address, -1 if size is None else size)
    _library.gs_string_free(address)
    return raw.decode(errors="replace")


# ---- runs ----


def _nanoseconds(name: str, microseconds: float) -> int:
    if 0 < microseconds < 0.001:
        raise Error(f"{name} must be 0, or at least 0.001: {microseconds}", 1)
    return round(microseconds * 1000)


def _launch_spec(kernel: str, *, blocks: int, threads: int, registers: int, shared_bytes: int = 0, local_bytes: int = 0,
                 cluster: int = 1, priority: int = 0, carveout_percent: Optional[int] = None, stream: Optional[str] = None,
                 cooperative: bool = False, duration_ns: int = 0, spread_ns: int = 0) -> _LaunchSpec:
    carveout = _NO_CARVEOUT if carveout_percent is None else carveout_percent
    return _LaunchSpec(_bytes(kernel), blocks, _Shape(threads, registers, shared_bytes, local_bytes, carveout), cluster,
                       priority, None if stream is None else _bytes(str(stream)), duration_ns, spread_ns, cooperative)


RunLike = Union["Run", Mapping[str, Any], Sequence[Mapping[str, Any]], str, "os.PathLike[str]"]


class Run:
    """Launches and exits in order.

    ``Run()`` is empty: add to it with `launch` and `exit`. ``Run.of`` takes a dict (gridsmith.run/1, as in docs/formats.md), a
    list of events, or the path of a file with one run. `read` goes through a file with many.
    """

    def __init__(self) -> None:
        error = _Error()
        self._address = _library.gs_run_new(error)
        if not self._address:
            _raise(error)

    def __del__(self) -> None:
        if getattr(self, "_address", None):
            _library.gs_run_free(self._address)

    @classmethod
    def _at(cls, address: int) -> "Run":
        run = cls.__new__(cls)
        run._address = address
        return run

    @classmethod
    def of(cls, source: RunLike) -> "Run":
        """A run from a Run, a dict, a list of events, or the path of a file."""
        if isinstance(source, Run):
            return source
        if isinstance(source, (str, os.PathLike)):
            runs = list(read(source))
            if len(runs) != 1:
                raise Error(f"{os.fspath(source)} holds {len(runs)} runs, not one: use gridsmith.read", 1)
            return runs[0]
        document = dict(source) if isinstance(source, Mapping) else {"events": list(source)}
        document.setdefault("schema", "gridsmith.run/1")
        try:
            text = json.dumps(document, allow_nan=False)
        except (TypeError, ValueError) as reason:
            raise Error(f"the run cannot be written as JSON: {reason}", 2) from None
        return cls.parse(text)

    @classmethod
    def parse(cls, text: str, name: str = "run") -> "Run":
        """A run from JSON. ``name`` stands for the file in errors."""
        runs = list(_read(lambda error, raw=text.encode(): _library.gs_runs_memory(_bytes(name), raw, len(raw), error)))
        if len(runs) != 1:
            raise Error(f"the text holds {len(runs)} runs, not one", 1)
        return runs[0]

    def launch(self, kernel: str, *, blocks: int, threads: int, registers: int, shared_bytes: int = 0, local_bytes: int = 0,
               cluster: int = 1, priority: int = 0, carveout_percent: Optional[int] = None, stream: Optional[str] = None,
               duration_us: float = 0, spread_us: float = 0, cooperative: bool = False) -> "Run":
        """Appends a launch. Without a duration, its blocks stay until `exit`. Returns the run."""
        error = _Error()
        spec = _launch_spec(kernel, blocks=blocks, threads=threads, registers=registers, shared_bytes=shared_bytes,
                            local_bytes=local_bytes, cluster=cluster, priority=priority, carveout_percent=carveout_percent,
                            stream=stream, cooperative=cooperative, duration_ns=_nanoseconds("duration_us", duration_us),
                            spread_ns=_nanoseconds("spread_us", spread_us))
        if _library.gs_run_launch(self._address, spec, error):
            _raise(error)
        return self

    def exit(self, kernel: str) -> "Run":
        """Appends the end of a kernel that has no duration. Returns the run."""
        error = _Error()
        if _library.gs_run_exit(self._address, _bytes(kernel), error):
            _raise(error)
        return self

    @property
    def gpu(self) -> Optional[str]:
        """The name of the GPU of the run, or None."""
        name = _library.gs_run_gpu(self._address)
        return name.decode() if name else None

    @property
    def kernels(self) -> List[str]:
        """The names of the kernels, in the order of their launches."""
        return [_library.gs_run_kernel(self._address, i).decode(errors="replace") for i in range(len(self))]

    def __len__(self) -> int:
        return _library.gs_run_launches(self._address)

    def __repr__(self) -> str:
        return f"<gridsmith.{type(self).__name__} of {len(self)} launches>"


def _read(open_runs: Any) -> Iterator[Run]:
    error = _Error()
    runs = open_runs(error)
    if not runs:
        _raise(error)
    try:
        while True:
            address = _library.gs_runs_next(runs, error)
            if not address:
                break
            yield Run._at(address)
    finally:
        _library.gs_runs_close(runs)
    if error.code:
        _raise(error)


def read(path: Union[str, "os.PathLike[str]"]) -> Iterator[Run]:
    """The runs of a file, one after the other: scenarios, recordings, predictions; plain or gzip."""
    return _read(lambda error: _library.gs_runs_open(_bytes(path), error))


def import_trace(path: Union[str, "os.PathLike[str]"], *options: str, program: str = "gridsmith") -> List[Run]:
    """The runs of a trace of PyTorch's profiler or of Nsight Systems, as ``gridsmith import`` reads them.

    ``options`` are those of ``gridsmith import``, such as ``"--device", "1"``.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "run.jsonl")
        _ask_program(program, "import", "-o", made, *options, "--", os.fspath(path))
        return list(read(made))


def record(words: Sequence[str], path: Union[str, "os.PathLike[str]"], *options: str, program: str = "gridsmith") -> None:
    """Runs a CUDA program, given as the words of its command line, and records it into a file, as ``gridsmith trace`` does."""
    _ask_program(program, "trace", "-o", os.fspath(path), *options, "--", *words)


def explain(path: Union[str, "os.PathLike[str]"], what_if: Union[str, Sequence[str]] = (), *, range: Optional[str] = None,
            step_us: Optional[int] = None, pairs: Union[str, "os.PathLike[str]", None] = None,
            program: str = "gridsmith") -> "Explanation":
    """What limits a recorded program, and what would help, as ``gridsmith explain`` says it.

    ``path`` is a recording, or a trace of PyTorch's profiler or of Nsight Systems. ``what_if``: changes such as
    ``"graph,streams=2"``; then there is no advice. ``range`` is ``"all"``, ``"steps=2-5"``, ``"ms=10-20"`` or
    ``"nvtx=forward"``; ``step_us`` is how long a step takes when it is not recorded; ``pairs`` is a plan (gridsmith.plan/1) with pairs of
    kernels that were measured.
    """
    options = [word for change in ([what_if] if isinstance(what_if, str) else what_if) for word in ("--what-if", change)]
    options += ["--range", range] if range is not None else []
    options += ["--step-us", str(step_us)] if step_us is not None else []
    options += ["--pairs", os.fspath(pairs)] if pairs is not None else []
    return Explanation(json.loads(_ask_program(program, "explain", "--json", *options, os.fspath(path))))


def _ask_program(program: str, *words: str) -> str:
    """What the program prints. It is found in PATH, beside the shared library, or where GRIDSMITH_PROGRAM says."""
    found = shutil.which(os.environ.get("GRIDSMITH_PROGRAM", program)) or _built_program()
    if not found:
        raise Error("the program gridsmith was not found: put it into PATH, or set GRIDSMITH_PROGRAM to its path", 1)
    done = subprocess.run([found, *words], capture_output=True, text=True)
    if done.returncode:
        raise Error(done.stderr.strip().replace("gridsmith: ", "", 1), done.returncode)
    return done.stdout


def main() -> None:
    """The command ``gridsmith`` of the package: the program beside the shared library takes the place of this process."""
    found = _built_program()
    if not found:
        sys.exit("gridsmith: the package has no program")
    os.execv(found, [found, *sys.argv[1:]])


def _built_program() -> Optional[str]:
    built = pathlib.Path(_library._name).resolve().parent / "gridsmith"
    return str(built) if built.is_file() else None


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A data frame of pandas or polars, if one of them is installed; otherwise a list of dicts."""
    for name in ("pandas", "polars"):
        try:
            return __import__(name).DataFrame(list(rows))
        except ImportError:
            continue
    return [dict(row) for row in rows]


@dataclass(frozen=True)
class Explanation:
    """What limits a program. ``document`` is gridsmith.explain/1."""

    document: Dict[str, Any]

    @property
    def busy(self) -> float:
        """The share of the time in which kernels run."""
        return self.document["account"]["busy_us"] / self.document["account"]["span_us"]

    @property
    def idle(self) -> Dict[str, float]:
        """The shares of the rest: copies, host, gaps, other."""
        account = self.document["account"]
        return {reason: us / account["span_us"] for reason, us in account["idle_us"].items()}

    @property
    def step_us(self) -> float:
        return self.document["step_us"]

    @property
    def kernels(self) -> Any:
        """A row for each kernel, the longest total first (see `frame`)."""
        return frame(self.document["kernels"])

    @property
    def ranges(self) -> Any:
        """A row for each name of ranges of the program (NVTX), the longest time of kernels first."""
        return frame(self.document["ranges"])

    @property
    def advice(self) -> Any:
        """A row for each change that would help, the largest gain first."""
        return frame(self.document["advice"])

    @property
    def what_if(self) -> Any:
        """A row for each change that was asked for."""
        return frame(self.document["what_if"])

    def __repr__(self) -> str:
        return (f"<gridsmith.Explanation: {self.document['part']['steps']} steps of {self.step_us:.1f} us, "
                f"busy {100 * self.busy:.1f}%>")


# ---- answers ----


class Launch:
    """The prediction of one launch."""

    def __init__(self, prediction: "Prediction", number: int) -> None:
        self._prediction, self.number = prediction, number
        self.kernel: str = _library.gs_run_kernel(prediction._address, number).decode(errors="replace")
        self.blocks: int = _library.gs_run_blocks(prediction._address, number)
        self._lists: Optional[tuple] = None

    def _list(self, which: int) -> Any:
        if self._lists is None:
            lists = (_new_list("i", self.blocks), _new_list("q", self.blocks), _new_list("q", self.blocks))
            _library.gs_run_copy_blocks(self._prediction._address, self.number, _address_of(lists[0], _INT32S),
                                        _address_of(lists[1], _INT64S), _address_of(lists[2], _INT64S))
            self._lists = lists
        return self._lists[which]

    @property
    def sms(self) -> Any:
        """The SM of each block; -1: it waits."""
        return self._list(0)

    @property
    def start_ns(self) -> Any:
        """When each block starts; NO_TIME: not known."""
        return self._list(1)

    @property
    def end_ns(self) -> Any:
        """When each block ends; NO_TIME: not known."""
        return self._list(2)

    @property
    def waiting(self) -> int:
        """How many blocks never start."""
        return int((self.sms == WAIT).sum()) if _numpy is not None else self.sms.count(WAIT)

    @property
    def why(self) -> Optional[str]:
        """Why blocks waited when the kernel was launched; None: no block waited."""
        text = _library.gs_run_why(self._prediction._address, self.number)
        return text.decode(errors="replace") if text else None

    def __repr__(self) -> str:
        return f"<gridsmith.Launch {self.kernel}: {self.blocks} blocks, {self.waiting} wait>"


def _new_list(kind: str, count: int) -> Any:
    if _numpy is not None:
        return _numpy.zeros(count, dtype=_numpy.int32 if kind == "i" else _numpy.int64)
    return array.array(kind, bytes(count * (4 if kind == "i" else 8)))


def _address_of(values: Any, kind: Any) -> Any:
    address = values.ctypes.data if _numpy is not None else values.buffer_info()[0]
    return ctypes.cast(address, kind)


class Prediction(Run):
    """Where each block of a run goes. Index it by the number of a launch or by a kernel's name, or iterate over it."""

    _gpu: "Gpu"
    _run: Run

    @property
    def launches(self) -> List[Launch]:
        return [Launch(self, i) for i in range(len(self))]

    def __iter__(self) -> Iterator[Launch]:
        return iter(self.launches)

    def __getitem__(self, key: Union[int, str]) -> Launch:
        if isinstance(key, str):
            names = self.kernels
            if key not in names:
                raise KeyError(key)
            return Launch(self, names.index(key))
        if not -len(self) <= key < len(self):
            raise IndexError(key)
        return Launch(self, key % len(self))

    def frame(self) -> Any:
        """A row for each launch (see `gridsmith.frame`)."""
        return frame([{"kernel": launch.kernel, "blocks": launch.blocks, "waiting": launch.waiting, "why": launch.why}
                      for launch in self])

    def show(self, form: str = "table") -> str:
        """The prediction as text: "table", "json", "csv", "svg", "trace" or "html"."""
        return self._gpu.show(self._run, form)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes a file. Its suffix selects the format: .html, .svg, .csv, .json, .trace.json or .txt (a table)."""
        name = os.fspath(path)
        ending = "trace" if name.endswith(".trace.json") else name.rpartition(".")[2]
        form = "table" if ending == "txt" else ending
        text = self.show(form)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def __str__(self) -> str:
        return self.show()

    def _repr_html_(self) -> str:
        page = html.escape(self.show("html"), quote=True)
        return f'<iframe style="width:100%;height:600px;border:0" srcdoc="{page}"></iframe>'


@dataclass(frozen=True)
class Occupancy:
    """How many blocks of a kernel fit on an SM, and which resources are the limit."""

    blocks: int
    by_block_slots: int
    by_warps: int
    by_registers: int
    by_shared_memory: Optional[int]
    limits: Sequence[str]
    warps_per_block: int
    warps_per_sm: int
    shared_block_bytes: int
    shared_config_bytes: int

    @property
    def percent(self) -> float:
        """Warps in use, of the warps that an SM can have."""
        return 100.0 * self.fraction

    @property
    def fraction(self) -> float:
        """The same as a fraction of 1."""
        return self.blocks * self.warps_per_block / self.warps_per_sm


@dataclass(frozen=True)
class Check:
    """Whether kernels are resident together. ``works`` is None if that is not known; ``details`` is gridsmith.check/2."""

    works: Optional[bool]
    details: Dict[str, Any]

    def __bool__(self) -> bool:
        return bool(self.works)

    @property
    def fixes(self) -> List[str]:
        """The changes that would help, the simplest first."""
        return [" and ".join(change["words"] for change in fix["changes"]) for fix in self.details.get("fixes", [])]

    @property
    def why(self) -> Optional[str]:
        """The cause of the conflict, or None."""
        conflict = self.details.get("conflict")
        return conflict["why"] if conflict else None


@dataclass(frozen=True)
class Bound:
    """The latest end of warps that start together, in cycles; None: not known."""

    formula_cycles: Optional[int]
    exact_fair_cycles: Optional[int]
    exact_cycles: Optional[int]
    proven_cycles: Optional[int]


def bound(warps: int, *, program: Union[str, "os.PathLike[str]", None] = None, repeat: int = 1, search: bool = True,
          memory_bytes: int = 0) -> Bound:
    """The bounds of a program (gridsmith.program/1, a file), or of that of the finishing-time paper with ``repeat``
    repetitions."""
    error, found = _Error(), _Bound()
    opened = _library.gs_program_paper(repeat, error) if program is None else _library.gs_program_open(_bytes(program), error)
    if not opened:
        _raise(error)
    code = _library.gs_bound_of(opened, warps, _BoundOptions(search, memory_bytes), found, error)
    _library.gs_program_free(opened)
    if code:
        _raise(error)
    return Bound(*(None if getattr(found, name) < 0 else getattr(found, name) for name, _ in _Bound._fields_))


# ---- GPUs ----


def gpus() -> List[str]:
    """The names of the built-in GPU descriptions."""
    names: List[str] = []
    while True:
        name = _library.gs_gpu_builtin(len(names))
        if not name:
            return names
        names.append(name.decode())


class Gpu:
    """A GPU: a built-in name such as "h200", or the path of a description (gridsmith.gpu/1).

    ``policy`` and ``mechanisms`` change how it schedules: ``Gpu("h200", warp_placement="free")``.
    """

    def __init__(self, name: Union[str, "os.PathLike[str]"], *, policy: Optional[str] = None, **mechanisms: str) -> None:
        error = _Error()
        self._address = _library.gs_gpu_open(_bytes(name), error)
        if not self._address:
            _raise(error)
        if policy is not None and _library.gs_gpu_use(self._address, _bytes(policy), error):
            _raise(error)
        for mechanism, value in mechanisms.items():
            if _library.gs_gpu_set(self._address, _bytes(mechanism), _bytes(value), error):
                _raise(error)

    def __del__(self) -> None:
        if getattr(self, "_address", None):
            _library.gs_gpu_free(self._address)

    @property
    def name(self) -> str:
        return _library.gs_gpu_name(self._address).decode()

    @property
    def sms(self) -> int:
        return _library.gs_gpu_sms(self._address)

    def __repr__(self) -> str:
        return f"<gridsmith.Gpu {self.name}, {self.sms} SMs>"

    def occupancy(self, *, threads: int, registers: int, shared_bytes: int = 0, local_bytes: int = 0,
                  carveout_percent: Optional[int] = None) -> Occupancy:
        """How many blocks of a kernel an SM takes. A kernel that can never run is an Error."""
        error, found = _Error(), _Occupancy()
        carveout = _NO_CARVEOUT if carveout_percent is None else carveout_percent
        _library.gs_occupancy_of(self._address, _Shape(threads, registers, shared_bytes, local_bytes, carveout), found, error)
        if not found.blocks:
            _raise(error)
        names = ("block slots", "warps", "registers", "shared memory")
        limits = tuple(name for bit, name in enumerate(names) if found.limits >> bit & 1)
        by_shared = None if found.by_shared == _NO_LIMIT else found.by_shared
        return Occupancy(found.blocks, found.by_blocks, found.by_warps, found.by_registers, by_shared, limits,
                         found.warps_per_block, found.warps_per_sm, found.shared_block_bytes, found.shared_config_bytes)

    def predict(self, run: RunLike, *, explain: bool = True, follow: bool = False) -> Prediction:
        """Plays a run: the SM of each block, when it starts and ends, and why kernels wait."""
        error, source = _Error(), Run.of(run)
        address = _library.gs_predict(self._address, source._address, _PredictOptions(explain, None, None, follow, 0), error)
        if not address:
            _raise(error)
        prediction = Prediction._at(address)
        assert isinstance(prediction, Prediction)
        prediction._gpu, prediction._run = self, source
        return prediction

    def check(self, run: RunLike, *, every_order: bool = False, fixes: bool = True, budget: int = 0) -> Check:
        """Whether all blocks of these kernels will be resident together, and if not, what would help."""
        error, text, source = _Error(), ctypes.c_void_p(), Run.of(run)
        answer = _library.gs_together(self._address, source._address, _TogetherOptions(every_order, not fixes, budget), text,
                                      error)
        if answer == 3:
            _raise(error)
        return Check({0: False, 1: True}.get(answer), json.loads(_take_text(text.value)))

    def show(self, run: RunLike, form: str) -> str:
        """The output of ``gridsmith predict --FORM`` for the run."""
        error, size, source = _Error(), ctypes.c_size_t(), Run.of(run)
        address = _library.gs_show(self._address, source._address, _bytes(form), size, error)
        if not address:
            _raise(error)
        return _take_text(address, size.value)

    def timeline(self, run: RunLike) -> Dict[str, Any]:
        """A recorded program, played: when each launch and copy starts and ends, and what it waits for.

        The document is gridsmith.timeline/1; its lines are the list ``"operations"``.
        """
        document, *lines = map(json.loads, self.show(run, "timeline").splitlines())
        return {**document, "operations": lines}

    def compare(self, run: RunLike) -> Dict[str, Any]:
        """A recorded program beside its measurement (gridsmith.compare/2)."""
        return json.loads(self.show(run, "comparison"))

    def dispatcher(self, turn: int = 0) -> "Dispatcher":
        """The state of this GPU, empty: for simulators. `turn`: as of ``gridsmith predict --turn``."""
        return Dispatcher(self, turn)


class Dispatcher:
    """The state of one GPU, for simulators: launch, ask for the SM of the next block, place the block, release it.

    The blocks of a launch go to the SMs that a prediction gives, in the same order.
    """

    def __init__(self, gpu: Gpu, turn: int = 0) -> None:
        error = _Error()
        self._gpu = gpu  # it must live as long
        self._address = _library.gs_dispatcher_new(gpu._address, error)
        if not self._address:
            _raise(error)
        if turn and _library.gs_dispatcher_turn(self._address, turn, error):
            _raise(error)

    def __del__(self) -> None:
        if getattr(self, "_address", None):
            _library.gs_dispatcher_free(self._address)

    def launch(self, kernel: str = "kernel", **spec: Any) -> int:
        """Launches a kernel and returns the number of the launch. Takes what `Run.launch` takes, without durations."""
        error = _Error()
        number = _library.gs_dispatcher_launch(self._address, _launch_spec(kernel, **spec), error)
        if number < 0:
            _raise(error)
        return number

    def exit(self, launch: int) -> None:
        """Ends a launch with all its blocks."""
        _library.gs_dispatcher_exit(self._address, launch)

    def why(self, launch: int) -> Optional[str]:
        """Why blocks of the launch wait, or None."""
        error = _Error()
        address = _library.gs_dispatcher_why(self._address, launch, error)
        if not address and error.code:
            _raise(error)
        return _take_text(address) if address else None

    def wait_until(self, now_ns: int) -> None:
        """It is this late: decides which launch of those that become ready in streams is served first."""
        _library.gs_dispatcher_wait_until(self._address, now_ns)

    def copy(self) -> "Dispatcher":
        """A copy. Numbers of launches and blocks are valid for both."""
        error, other = _Error(), Dispatcher(self._gpu)
        if _library.gs_dispatcher_copy(other._address, self._address, error):
            _raise(error)
        return other

    def kernel(self, *, threads: int, registers: int, shared_bytes: int = 0) -> int:
        """Registers a kernel whose blocks stand in no queue, and returns its number: for schedulers of your own."""
        error = _Error()
        number = _library.gs_dispatcher_kernel(self._address, _Shape(threads, registers, shared_bytes, 0, _NO_CARVEOUT), error)
        if number < 0:
            _raise(error)
        return number

    def next(self, kernel: int) -> Optional[int]:
        """The SM of the kernel's next block, or None: it waits. Changes nothing."""
        sm = _library.gs_dispatcher_next(self._address, kernel)
        return None if sm == WAIT else sm

    def room(self, kernel: int, sm: int) -> int:
        """How many more blocks of the kernel the SM can take."""
        return _library.gs_dispatcher_room(self._address, kernel, sm)

    def place(self, kernel: int, sm: Optional[int] = None) -> int:
        """Places a block on an SM, by default on the one of `next`. Returns its handle."""
        chosen = self.next(kernel) if sm is None else sm
        block = -1 if chosen is None else _library.gs_dispatcher_place(self._address, kernel, chosen)
        if block < 0:
            raise Error("no headroom for the block", 1)
        return block

    def release(self, block: int) -> None:
        """Ends a block."""
        _library.gs_dispatcher_release(self._address, block)

    def resident(self, sm: Optional[int] = None) -> int:
        """The number of blocks on an SM, or on the whole GPU."""
        if sm is None:
            return _library.gs_dispatcher_resident_all(self._address)
        return _library.gs_dispatcher_resident(self._address, sm)
