"""Small changes to good files: of their bytes, of their text, of the values that they hold, of a command's words."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np
from readers import SPECIAL

WORDS = (b"0", b"-1", b"1e308", b"nan", b"inf", b"[", b"{", b'"', b"\n", b",", b"\0", b"\xff\xff\xff\xff", b"9" * 11)
ODD_NUMBERS = (0.0, -0.0, -1.0, 1e308, -1e308, 5e-324, 1e16, float("nan"), float("inf"), float("-inf"))
ODD_VALUES: tuple[Any, ...] = (None, True, [], {}, "", [[]], {"x": 1}, 0, -1, 1e308, 10**30, "nan", [1, "2", None])
ODD_TYPES = ("f4", "i8", "u1", "?", "c16", "U8", "S3", "M8[ns]", ">f8", "O")


def change_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """One to five bytes, words or slices changed, left out or repeated; sometimes the end cut off."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(0, len(changed) + 1))
        match rng.integers(0, 5):
            case 0:
                changed[at : at + 1] = bytes([rng.integers(0, 256)])
            case 1:
                changed[at:at] = WORDS[rng.integers(len(WORDS))]
            case 2:
                del changed[at : at + int(rng.integers(1, 64))]
            case 3:
                changed[at:at] = changed[at : at + int(rng.integers(1, 64))]
            case 4:
                changed[at : at + 8] = rng.bytes(8)
    return bytes(changed[: rng.integers(1, len(changed) + 1)] if rng.random() < 0.1 else changed)


def change_arrays(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One or two arrays with odd values, another type, another shape or another name."""
    changed = dict(arrays)
    for _ in range(rng.integers(1, 3)):
        name = _one(list(changed), rng)
        values = np.array(changed[name])
        match rng.integers(0, 8):
            case 0 | 1 | 2 if values.size and values.dtype.kind == "f":
                values.flat[rng.integers(values.size, size=rng.integers(1, 4))] = _one(ODD_NUMBERS, rng)
            case 3 if values.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    values = values * _one((0.0, 1e-300, 1e300, 1e3, -1.0), rng)
            case 4:
                with np.errstate(all="ignore"):
                    values = values.astype(_one(ODD_TYPES, rng), casting="unsafe")
            case 5:
                values = _one((values.T, values[:0], values[:1], values[..., None], values.ravel(), values[::-1]), rng)
            case 6:
                values = values[: rng.integers(0, len(values) + 1)] if values.ndim else values
            case _:
                changed[_one(("", "t", "q", "tau", "v", "q{i}", "x" * 300, "a.b", "Zeit"), rng)] = values
                continue
        changed[name] = values
    return changed


def change_json(text: bytes, rng: np.random.Generator) -> bytes:
    """One to three values anywhere in a document replaced, left out, scaled or repeated."""
    document = json.loads(text)
    for _ in range(rng.integers(1, 4)):
        holder: Any = document
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                break
            key = _one(keys, rng)
            value = holder[key]
            if isinstance(value, dict | list) and value and rng.random() < 0.85:
                holder = value
                continue
            match rng.integers(0, 4):
                case 0:
                    holder[key] = deepcopy(_one(ODD_VALUES, rng))
                case 1:
                    del holder[key]
                case 2 if isinstance(value, float):
                    holder[key] = value * 10 ** rng.uniform(-3, 3) * _one((-1, 1), rng)
                case 2 if isinstance(value, str):
                    holder[key] = _one(SPECIAL, rng)
                case _ if isinstance(holder, list):
                    holder.append(value)
            break
    return json.dumps(document).encode("utf-8", "surrogatepass")


def change_words(words: list[str], options: list[str], rng: np.random.Generator) -> list[str]:
    """A command's words with one to three replaced, left out, added or doubled."""
    changed = list(words)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(1, len(changed) + 1))
        match rng.integers(0, 4):
            case 0:
                changed[at : at + 1] = [_one(SPECIAL, rng)]
            case 1:
                del changed[at : at + 1]
            case 2:
                changed[at:at] = [_one(options, rng)]
            case _:
                changed[at:at] = [_one(options, rng), _one((*SPECIAL, *changed), rng)]
    return [word.replace("\0", "") for word in changed]


def _one(things: Any, rng: np.random.Generator) -> Any:
    return things[rng.integers(len(things))]
