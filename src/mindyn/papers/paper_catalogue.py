"""The papers whose tables and figures mindyn reproduces, by name: `PAPERS`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mindyn.papers.line_drawings import Figure
    from mindyn.papers.reproduction import Reproduction


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper: the reproduced parts, and the modules that reproduce its tables and draw its figures."""

    tables: str
    holds: str
    figures: str | None = None

    @property
    def citation(self) -> str:
        """Return the citation."""
        return str(import_module(f"mindyn.papers.{self.tables}").CITATION)

    def reproduce(self) -> Reproduction:
        """Reproduce the tables."""
        result: Reproduction = import_module(f"mindyn.papers.{self.tables}").reproduce()
        return result

    def draw_figures(self) -> tuple[Figure, ...]:
        """Draw the figures; none if mindyn draws no figure of this paper."""
        if self.figures is None:
            return ()
        drawings: tuple[Figure, ...] = import_module(f"mindyn.papers.{self.figures}").draw_figures()
        return drawings


PAPERS: Final[Mapping[str, Paper]] = {
    "sheu-walker": Paper("sheu_walker_paper", "tables 2-13, figures 3, 4, 6", "sheu_walker_figures"),
    "yoshida": Paper("yoshida_paper", "chapters 3 and 4, figures 3.6.1-3.6.4", "yoshida_figures"),
    "lin": Paper("lin_paper", "tables I-III, savings, Stanford arm identified"),
    "lin-fang": Paper("lin_fang_paper", "tables I-VIII, the cheapest formulation"),
    "angeles": Paper("angeles_paper", "table 1, examples 1 and 2"),
}
