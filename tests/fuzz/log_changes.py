"""Operators that change the bytes of a log: each takes the log, a generator and the logs of other formats."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
NUMBERS = (0, 1, 2, 127, 128, 255, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1)
WORDS = (
    *("1e309", "-1e309", "1e-400", "9" * 400, "0x10", "1_000", "+-1", "١٢", "½", "NaN", "Infinity", "1,5", "1.5.2"),
    *("", " ", "\t", "\0", "\u202e", "\ufeff", "ß" * 50, "\U0001f916", "=1+1", "null", "true", '"', "'", "{}", "[]"),
    *("2026-01-01T00:00:00Z", "24:60:60", "a" * 70_000, "%s%n", "../../etc/passwd", "<a>", "e", "-", "0" * 30_000),
)
CODECS = ("utf-16", "utf-16-le", "utf-32", "latin-1", "cp037", "utf-7", "utf-8-sig", "cp1252", "shift_jis")


def choose(things: Any, rng: Rng) -> Any:
    return things[int(rng.integers(len(things)))]


def place(data: bytes, rng: Rng) -> int:
    """Choose a place; heads and ends of files say the most."""
    near = int(rng.integers(0, min(len(data), 512) + 1))
    return choose((near, len(data) - near, int(rng.integers(0, len(data) + 1))), rng)


def splice(data: bytes, rng: Rng, others: list[bytes]) -> bytes:
    """Put the end of another log, of any format, behind the beginning of this one."""
    other = choose(others, rng)
    return data[: place(data, rng)] + other[place(other, rng) :]


def insert_other(data: bytes, rng: Rng, others: list[bytes]) -> bytes:
    other, at = choose(others, rng), place(data, rng)
    start = place(other, rng)
    return data[:at] + other[start : start + int(rng.integers(1, 2000))] + data[at:]


def set_length(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    """Write an extreme number over one to three fields of 1, 2, 4 or 8 bytes, in either byte order."""
    changed = bytearray(data)
    for _k in range(int(rng.integers(1, 4))):
        width, at = choose((1, 2, 4, 8), rng), place(data, rng)
        number = choose(NUMBERS, rng) % 2 ** (8 * width)
        changed[at : at + width] = number.to_bytes(width, choose(("little", "big"), rng))
    return bytes(changed)


def swap_lengths(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    """Exchange two fields of the same width."""
    width, a, b = choose((1, 2, 4, 8), rng), place(data, rng), place(data, rng)
    changed = bytearray(data)
    changed[a : a + width], changed[b : b + width] = data[b : b + width], data[a : a + width]
    return bytes(changed)


def scale_length(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    """Multiply a small number that stands in the file, or count it one up or down."""
    at = place(data, rng)
    number = int.from_bytes(data[at : at + 4], "little")
    number = choose((number + 1, number - 1, number * 2, number * 1000, number << 8), rng) % 2**32
    return data[:at] + number.to_bytes(4, "little") + data[at + 4 :]


def duplicate_part(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    """Repeat a part two to a thousand times."""
    a, b = sorted((place(data, rng), place(data, rng)))
    part = data[a:b]
    return data[:b] + part * min(int(choose((1, 2, 10, 1000), rng)), 2_000_000 // (len(part) + 1)) + data[b:]


def remove_part(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    a, b = sorted((place(data, rng), place(data, rng)))
    return data[:a] + data[b:]


def move_part(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    a, b, c = sorted((place(data, rng), place(data, rng), place(data, rng)))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def fill_part(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    a, length = place(data, rng), int(rng.integers(1, 300))
    return data[:a] + choose((b"\0", b"\xff", b"\x80", b"[", b"{", b'"', b","), rng) * length + data[a + length :]


def flip_bits(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    changed = bytearray(data)
    for _k in range(int(rng.integers(1, 200))):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def cut(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    return data[: place(data, rng)]


def damage_stream(data: bytes, rng: Rng, others: list[bytes]) -> bytes:
    """Cut off, flip or lengthen what is packed inside: entries of ZIP files, zlib streams; else cut the file."""
    try:
        entries = {}
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            entries = {entry.filename: old.read(entry) for entry in old.infolist()}
    except Exception:  # no ZIP file, or damaged before
        entries = {}
    if entries:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
            for name, content in entries.items():
                changed = choose(OPERATORS, rng)(content, rng, others) if rng.random() < 0.5 else content
                odd = choose((name, "t.npy", "q.npy", "../q.npy", "x" * 300), rng)
                new.writestr(odd if rng.random() < 0.2 else name, changed)
        return buffer.getvalue()
    at = data.find(choose((b"\x78\x9c", b"\x78\x5e", b"\x78\x01"), rng), int(rng.integers(len(data))))
    if at < 0:
        return cut(data, rng, others)
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data[at:], 2**20)
    except zlib.error:
        return flip_bits(data, rng, others)
    packed = data[at : len(data) - len(stream.unused_data)]
    content = choose((cut, flip_bits, set_length, duplicate_part), rng)(content, rng, others)
    choice = zlib.compress(content, int(rng.integers(1, 10)))
    choice = choose((choice, choice[: len(choice) // 2], choice[: len(packed)].ljust(len(packed), b"\0")), rng)
    return data[:at] + choice + data[at + len(packed) :]


def pack_again(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    """Pack the whole file, whatever its name says."""
    return choose((gzip.compress(data), zlib.compress(data), b"\xef\xbb\xbf" + data, data[::-1], data * 2), rng)


def change_encoding(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    return data.decode("utf-8", "replace").encode(choose(CODECS, rng), "replace")


def change_word(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    """Put odd words in place of numbers and names."""
    words = list(re.finditer(rb"[\w.+-]+", data))
    if not words:
        return data
    for word in sorted((choose(words, rng) for _k in range(int(rng.integers(1, 4)))), key=lambda item: -item.start()):
        data = data[: word.start()] + choose(WORDS, rng).encode() + data[word.end() :]
    return data


def change_lines(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    """Repeat, mix, join or end lines otherwise."""
    lines = data.split(b"\n")
    k = int(rng.integers(len(lines)))
    match rng.integers(0, 6):
        case 0:
            lines[k:k] = [lines[0]] * int(choose((1, 3, 300), rng))
        case 1:
            lines = [lines[j] for j in rng.permutation(len(lines))]
        case 2:
            return choose((b"\r", b"\r\n", b"\0", b"\n\n", b"\x0b", b"\xe2\x80\xa8"), rng).join(lines)
        case 3:
            lines[k] += lines[k - 1]
        case 4:
            cells = lines[k].split(b",")
            lines[k] = b",".join(cells * min(int(choose((2, 100, 3000), rng)), 1 + 4_000_000 // (len(lines[k]) + 1)))
        case _:
            lines[k] = b'"' + lines[k]
    return b"\n".join(lines)


def change_json(data: bytes, rng: Rng, _: list[bytes]) -> bytes:
    """Repeat keys, nest values, change types in lines of JSON."""
    lines = data.split(b"\n")
    for _k in range(int(rng.integers(1, 6))):
        k = int(rng.integers(len(lines)))
        deep = int(choose((3, 63, 64, 65, 500), rng))
        key = lines[k].partition(b":")[0].lstrip(b"{") or b'"t"'
        match rng.integers(0, 6):
            case 0:
                lines[k] = lines[k][:-1] + b"," + key + b":" + choose((b"1", b"null", b'"x"', b"[]", b"{}"), rng) + b"}"
            case 1:
                lines[k] = b'{"t":' + b"[" * deep + b"1" + b"]" * deep + b"}"
            case 2:
                lines[k] = b'{"a":' * deep + b"1" + b"}" * deep
            case 3:
                lines[k] = b"{" + b",".join(b'"k%d":%d' % (j, j) for j in range(deep * 10)) + b"}"
            case 4:
                word = choose((b'"', b"[1,", b"{}", b"true", b"1e999", b'"\\u0000"', b'"\\ud800"'), rng)
                lines[k] = re.sub(rb"-?\d[\d.e-]*", lambda _m, w=word: w, lines[k], count=2)
            case _:
                lines[k] = lines[k].replace(b'"', b'\\"', int(rng.integers(1, 4)))
    return b"\n".join(lines)


Operator = Callable[[bytes, Rng, list[bytes]], bytes]
OPERATORS: tuple[Operator, ...] = (
    *(splice, insert_other, set_length, swap_lengths, scale_length, duplicate_part, remove_part, move_part, fill_part),
    *(flip_bits, cut, damage_stream, pack_again, change_encoding, change_word),
)
TEXT_OPERATORS: tuple[Operator, ...] = (change_lines, change_word, change_encoding, change_json)
