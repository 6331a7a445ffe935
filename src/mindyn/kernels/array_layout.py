"""`Layout`: memory layout of a kernel's inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass

from mindyn.kernels.program import Program
from mindyn.kernels.vector_code import Format

STAGE_BYTES = 2**14
"""Size of a stage with more than one block: half of the first-level cache."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Number format and width of a kernel, and which arrays are special.

    `shared` lists the inputs that are one sample for the whole batch, `compact` the outputs that store only their
    nonzeros. With `check_finite`, the kernel checks its inputs and outputs for NaN, infinities, and inputs beyond
    `form.input_limit` as it loads and stores them. `streamed` lists the outputs that are written to memory directly,
    without the caches.
    """

    form: Format
    shared: tuple[int, ...] = ()
    compact: tuple[int, ...] = ()
    check_finite: bool = True
    streamed: tuple[int, ...] = ()

    def stage_blocks(self, program: Program, array: int) -> int:
        """Return the number of blocks in the stage of a streamed output: large enough that copies need not wait for
        recent stores.
        """
        block = self.sample_size(program, array) * self.form.bytes * self.form.width
        return max(k for k in (1, 2, 4, 8) if k == 1 or k * block <= STAGE_BYTES)

    def sample_size(self, program: Program, array: int) -> int:
        """Return how many numbers one sample of input or output `array` has."""
        output = array - len(program.inputs)
        return len(program.outputs[output].nonzeros) if output in self.compact else program.arguments[array].size
