"""Let XLA call our functions on device memory, without copies, from inside `jax.jit`.

XLA passes a call frame in C to a handler: pointers, shapes and types of arguments and results, and the stream to work
on (`xla/ffi/api/c_api.h`, whose structures are ctypes here). New versions of XLA add fields only at the ends of
structures, so that the fields that are read here keep their positions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from mindyn.foundation.errors import Code, InputError

ELEMENT_TYPES: Final = {11: "float32", 12: "float64"}
"""XLA's numbers of the element types that kernels compute in."""
METADATA: Final = 1
EXECUTE: Final = 3
INTERNAL: Final = 13
"""XLA's numbers of the extension that asks for versions, of the execution stage, and of an internal error."""


@dataclass(frozen=True, slots=True)
class BufferView:
    """An array that XLA holds: its address, shape and type name."""

    pointer: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


Work = Callable[[list[BufferView], list[BufferView], Callable[[], int]], None]
"""Function with three arguments: argument arrays, result arrays, and a function that returns the address of the stream.
"""


def _structure(name: str, *fields: tuple[str, Any]) -> type[ctypes.Structure]:
    """Create a ctypes structure that begins, like all structures of XLA, with its size and its extensions."""
    begin = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]
    return type(name, (ctypes.Structure,), {"_fields_": [*begin, *fields]})


_WORD, _POINTER, _INT = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
_Pointers = ctypes.POINTER(ctypes.c_void_p)
_Buffer = _structure("Buffer", ("dtype", _INT), ("data", _POINTER), ("rank", _WORD), ("dims", ctypes.POINTER(_WORD)))
_List = _structure("List", ("size", _WORD), ("types", _POINTER), ("items", _Pointers))
_Version = _structure("Version", ("major", _INT), ("minor", _INT))
_Frame = _structure(
    "Frame", ("api", _POINTER), ("ctx", _POINTER), ("stage", _INT), ("arguments", _List), ("results", _List)
)
_Api = _structure(
    "Api",
    *(("version", _Version), ("internal", _POINTER), ("error_create", _POINTER), ("error_message", _POINTER)),
    *(("error_destroy", _POINTER), ("register", _POINTER), ("stream_get", _POINTER)),
)
_ErrorArguments = _structure("ErrorArguments", ("message", ctypes.c_char_p), ("code", _INT))
_StreamArguments = _structure("StreamArguments", ("ctx", _POINTER), ("stream", _POINTER))


class _Metadata(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("version", _Version), ("traits", ctypes.c_uint32))


class _Extension(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("type", _INT), ("next", _POINTER), ("metadata", _POINTER))


_HANDLER_FUNCTION_TYPE: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_API_FUNCTION_TYPE: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def make_handler(work: Work) -> Any:
    """Return a C function that XLA can call; the caller keeps it alive."""

    def called(address: int) -> int | None:
        frame = _Frame.from_address(address)
        api = _Api.from_address(frame.api)
        if frame.extension_start and _answer_metadata_query(frame.extension_start, api):
            return None
        if frame.stage != EXECUTE:
            return None
        try:
            work(_view_buffers(frame.arguments), _view_buffers(frame.results), lambda: _stream(api, frame.ctx))
        except Exception as error:
            return _make_error(api, f"{type(error).__name__}: {error}")
        return None

    return _HANDLER_FUNCTION_TYPE(called)


def _answer_metadata_query(address: int, api: Any) -> bool:
    """If XLA asks for the API version, answer with the version that XLA itself has. Return whether XLA asked."""
    extension = _Extension.from_address(address)
    if extension.type != METADATA:
        return False
    metadata = _Metadata.from_address(extension.metadata)
    metadata.version.major, metadata.version.minor = api.version.major, api.version.minor
    metadata.traits = 0
    return True


def _view_buffers(listed: Any) -> list[BufferView]:
    views = []
    for k in range(listed.size):
        buffer = _Buffer.from_address(listed.items[k])
        if buffer.dtype not in ELEMENT_TYPES:
            raise InputError(
                f"an array of XLA's type {buffer.dtype} was given; kernels compute in float32 and float64",
                code=Code.WRONG_TYPE,
                subject=buffer.dtype,
            )
        shape = tuple(int(buffer.dims[axis]) for axis in range(buffer.rank))
        views.append(BufferView(buffer.data or 0, shape, ELEMENT_TYPES[buffer.dtype]))
    return views


def _stream(api: Any, ctx: int) -> int:
    """Return the address of the stream of this call."""
    given = _StreamArguments(ctypes.sizeof(_StreamArguments), None, ctx, None)
    if _API_FUNCTION_TYPE(api.stream_get)(ctypes.addressof(given)):
        raise InputError("XLA has no stream for the call", code=Code.INTERNAL, subject="stream")
    return given.stream or 0


def _make_error(api: Any, message: str) -> int:
    text = message.encode()
    given = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, text, INTERNAL)
    return int(_API_FUNCTION_TYPE(api.error_create)(ctypes.addressof(given)) or 0)


def make_host_work(run: Callable[..., Sequence[Any]]) -> Work:
    """Return a `Work` function that runs on NumPy views of the arrays."""

    def work(arguments: list[BufferView], results: list[BufferView], stream: Callable[[], int]) -> None:  # noqa: ARG001
        for place, result in zip(results, run(*map(_host_view, arguments)), strict=True):
            if place.size:
                _host_view(place)[...] = result

    return work


def _host_view(place: BufferView) -> Any:
    memory: Any = (ctypes.c_char * place.size).from_address(place.pointer) if place.size else b""
    return np.frombuffer(memory, place.dtype).reshape(place.shape)


def make_cuda_work(cupy: Any, run: Callable[[Sequence[Any], Sequence[Any]], object]) -> Work:
    """Return a `Work` function that runs on CuPy views of the arrays, in XLA's stream."""

    def work(arguments: list[BufferView], results: list[BufferView], stream: Callable[[], int]) -> None:
        views = [_view(cupy, place) for place in (*arguments, *results)]
        with views[-1].device, _wrap_stream(cupy, stream()):
            run(views[: len(arguments)], views[len(arguments) :])

    return work


class _XlaStream(NamedTuple):
    """Stream of XLA, in the form of the CUDA stream protocol."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


def _wrap_stream(cupy: Any, pointer: int) -> Any:
    """Return a CuPy stream for the stream of XLA. CuPy 14 deprecated `ExternalStream`, which older versions need."""
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_XlaStream(pointer))
    return cupy.cuda.ExternalStream(pointer)


def _view(cupy: Any, place: BufferView) -> Any:
    if not place.size:
        return cupy.empty(place.shape, place.dtype)
    memory = cupy.cuda.UnownedMemory(place.pointer, place.size, None)
    return cupy.ndarray(place.shape, place.dtype, cupy.cuda.MemoryPointer(memory, 0))
