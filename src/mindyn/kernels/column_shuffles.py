"""Move columns of row-major rows into vectors (one sample per lane), and back, by shuffles in registers.

A chunk of c columns (a power of two) of W rows fills c vectors, each with W/c pieces of rows of c numbers. Each step
then takes two vectors and separates their even from their odd members, first within groups of 128 bits (one cheap
shuffle on every CPU), then by whole groups. After log2(c) steps, each vector is one column. The initial order of rows
is computed by running the same steps on labels, so that the lanes end in the order of samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from mindyn.kernels.vector_code import CodeLines, Format


def chunks(count: int, form: Format) -> list[tuple[int, int]]:
    """Return (first column, number of columns) of chunks that cover `count` columns; each number is a power of two."""
    covered, first = [], 0
    while first < count:
        size = min(form.width, 1 << ((count - first).bit_length() - 1))
        covered.append((first, size))
        first += size
    return covered


def load_columns(body: CodeLines, rows: Sequence[str], offset: int, size: int) -> list[str]:
    """Load columns `offset` .. `offset + size` of the rows at these pointers, one vector for each column."""
    form = body.form
    if form.width == 1:
        return [body.let(f"load {form.scalar}, ptr {body.offset(rows[0], offset * form.bytes)}, align {form.bytes}")]
    order = _row_order(form, size)
    vectors = []
    for j in range(size):
        pieces = [_load_piece(body, rows[row], offset, size) for row in order[j]]
        vectors.append(_join(body, pieces, size))
    for step in range(size.bit_length() - 1):
        even, odd = _split_masks(form, step)
        vectors = [
            body.shuffle(vectors[2 * k], vectors[2 * k + 1], mask, form.width)
            for mask in (even, odd)
            for k in range(size // 2)
        ]
    return vectors


def store_columns(body: CodeLines, rows: Sequence[str], offset: int, columns: Sequence[str]) -> None:
    """Write these columns into the rows at these pointers, by the inverse steps of `load_columns` in reverse order."""
    form, size = body.form, len(columns)
    if form.width == 1:
        body.line(
            f"store {form.scalar} {columns[0]}, ptr {body.offset(rows[0], offset * form.bytes)}, align {form.bytes}"
        )
        return
    vectors = list(columns)
    for step in reversed(range(size.bit_length() - 1)):
        first, second = _merge_masks(form, step)
        half = size // 2
        vectors = [
            body.shuffle(vectors[k], vectors[k + half], mask, form.width)
            for k in range(half)
            for mask in (first, second)
        ]
    order = _row_order(form, size)
    for j, vector in enumerate(vectors):
        for piece, row in enumerate(order[j]):
            _store_piece(body, rows[row], offset, vector, piece, size)


def store_routine(form: Format) -> str:
    """Return `@store_chunk(rows, offset, columns ...)`: `store_columns` for as many columns as there are lanes.

    `rows` is the address of a table with the addresses of the rows.
    """
    body = CodeLines(form)
    lanes = range(form.width)
    places = [body.let(f"getelementptr ptr, ptr %rows, i64 {lane}") for lane in lanes]
    rows = [body.let(f"load ptr, ptr {place}, align 8") for place in places]
    moved = [body.let(f"getelementptr i8, ptr {row}, i64 %offset") for row in rows]
    store_columns(body, moved, 0, [f"%c{lane}" for lane in lanes])
    columns = ", ".join(f"{form.vector} %c{lane}" for lane in lanes)
    lines = [f"define internal void @store_chunk(ptr %rows, i64 %offset, {columns}) noinline #0 {{", "entry:"]
    return "\n".join([*lines, *body.lines, "  ret void", "}"])


def _load_piece(body: CodeLines, row: str, offset: int, size: int) -> str:
    kind = f"<{size} x {body.form.scalar}>"
    return body.let(f"load {kind}, ptr {body.offset(row, offset * body.form.bytes)}, align {body.form.bytes}")


def _store_piece(body: CodeLines, row: str, offset: int, vector: str, piece: int, size: int) -> None:
    form = body.form
    part = vector
    if size < form.width:
        part = body.shuffle(vector, "poison", range(piece * size, piece * size + size), form.width)
    body.line(
        f"store <{size} x {form.scalar}> {part}, ptr {body.offset(row, offset * body.form.bytes)}, align {form.bytes}"
    )


def _join(body: CodeLines, pieces: list[str], size: int) -> str:
    """Join the pieces to one vector, in order."""
    while len(pieces) > 1:
        both = range(2 * size)
        pieces = [body.shuffle(pieces[k], pieces[k + 1], both, size) for k in range(0, len(pieces), 2)]
        size *= 2
    return pieces[0]


def _split_masks(form: Format, step: int) -> tuple[list[int], list[int]]:
    """Return masks for the even and the odd members of two vectors.

    Small steps move numbers within groups of 128 bits; larger steps move whole groups.
    """
    width, group = form.width, form.numbers_per_128_bits
    if step < group.bit_length() - 1:
        even = [
            source * width + base + k
            for base in range(0, width, group)
            for source in (0, 1)
            for k in range(0, group, 2)
        ]
        return even, [m + 1 for m in even]
    even = [base + k for base in range(0, 2 * width, 2 * group) for k in range(group)]
    return even, [m + group for m in even]


def _merge_masks(form: Format, step: int) -> tuple[list[int], list[int]]:
    """Return masks that undo `_split_masks`: from (even, odd) back to the first and the second vector."""
    both = [m for mask in _split_masks(form, step) for m in mask]
    inverse = [both.index(k) for k in range(2 * form.width)]
    return inverse[: form.width], inverse[form.width :]


@cache
def _row_order(form: Format, size: int) -> tuple[tuple[int, ...], ...]:
    """Return the rows whose pieces form each initial vector, so that every column ends in sample order."""
    vectors = [[(j, lane // size) for lane in range(form.width)] for j in range(size)]
    for step in range(size.bit_length() - 1):
        vectors = [
            [(vectors[2 * k] + vectors[2 * k + 1])[m] for m in mask]
            for mask in _split_masks(form, step)
            for k in range(size // 2)
        ]
    sample = {label: lane for lane, label in enumerate(vectors[0])}
    return tuple(tuple(sample[j, piece] for piece in range(form.width // size)) for j in range(size))
