"""Compare every function of several robots on a GPU with the CPU, in both precisions, and its errors.

`python -m benchmarks.gpu.functions FOLDER`, with the files that `prepare.py` wrote; needs only NumPy and
CuPy. tests/kernels/test_on_gpu.py does the same with mindyn installed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cupy
import numpy as np

from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.device import DeviceFunction

DOUBLE, SINGLE = 1e-12, 1e-5
"""Largest error relative to the largest number, times the condition number of M if it is inverted."""
OPEN = {np.float64: 1e-9, np.float32: 1e-4}
"""Largest residual of a closure relative to the size of the loop."""


def relative_error(result, expected) -> float:
    return float(np.abs(result.get() - expected).max() / np.abs(expected).max())


def check_function(path: Path) -> tuple[float, float]:
    """Return the errors of one function in float64 and float32."""
    about, data = json.loads(path.read_text()), np.load(path.with_suffix(".npz"))
    source = path.with_suffix(".cu").read_text()
    function = DeviceFunction(cupy, lambda _: source, about["name"], about["inputs"], about["outputs"])
    inputs, condition = [data[f"in{k}"] for k in range(len(about["inputs"]))], float(data["condition"])
    errors = []
    for dtype, bound in ((np.float64, DOUBLE), (np.float32, SINGLE)):
        given = [cupy.asarray(array.reshape(3, 111, *array.shape[1:]), dtype=dtype) for array in inputs]
        results = function(*given)
        out, *closure = results if isinstance(results, tuple) else [results]
        assert out.dtype == dtype
        assert all(float(abs(item[..., 0]).max()) < OPEN[dtype] for item in closure), f"{path.stem}: a loop is open"
        errors.append(relative_error(out, data["result"].reshape(out.shape)))
        assert errors[-1] < bound * condition, f"{path.stem} {np.dtype(dtype)}: {errors[-1]:.1e}"
        expected = [cupy.empty_like(item) for item in (out, *closure)]
        assert function(*given, out=expected) is expected
        assert (expected[0] == out).all()
        empty = function(*(item[:0] for item in given))
        assert (empty[0] if closure else empty).shape == (0, *out.shape[1:])
    require_rejection(function, given)
    return errors[0], errors[1]


def require_rejection(function, given) -> None:
    """Require an error with a code of its cause for every wrong call."""
    cases = [
        ("missing array", given[:-1], None, Code.WRONG_SHAPE),
        ("wrong shape", [given[0][..., 1:], *given[1:]], None, Code.WRONG_SHAPE),
        ("integers", [item.astype(cupy.int32) for item in given], None, Code.WRONG_TYPE),
        ("wrong out", given, [cupy.empty((4, 1)) for _ in function.outputs], Code.WRONG_SHAPE),
    ]
    if len(given) > 1:
        cases.append(("batches", [given[0], given[1][:2], *given[2:]], None, Code.WRONG_SHAPE))
    for case, arrays, out, code in cases:
        found: Code | None = None
        try:
            function(*arrays, out=out)
        except InputError as error:
            found = error.code
        assert found == code, f"{case}: {found} in place of {code}"


def main(folder: Path) -> None:
    paths = sorted((folder / "robots").glob("*.json"))
    errors = np.array([check_function(path) for path in paths])
    worst = [paths[k].stem for k in errors.argmax(axis=0)]
    print(f"{len(paths)} functions on {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}: agree with the CPU;")
    for number, kind in enumerate(("float64", "float32")):
        print(f"largest error in {kind} {errors[:, number].max():.1e} ({worst[number]})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
