"""`Layout`: how a kernel accesses its arrays."""

from __future__ import annotations

from dataclasses import dataclass

from mindyn.kernels.vectors import Format


@dataclass(frozen=True, slots=True)
class Layout:
    """Number format and width of a kernel, and which arrays are special.

    `shared` lists the inputs that are one sample for the whole batch, `compact` the outputs that store only their
    nonzeros. With `check_finite` the kernel watches its inputs and outputs for NaN, infinities and inputs beyond
    `form.input_limit` as it loads and stores them.
    """

    form: Format
    shared: tuple[int, ...] = ()
    compact: tuple[int, ...] = ()
    check_finite: bool = True
