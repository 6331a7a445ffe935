"""The five papers by the names of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mindyn.papers import angeles_paper, lin_fang_paper, lin_paper, sheu_walker_paper, yoshida_paper
from mindyn.papers.reproduction import Reproduction


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper: its citation, what of it is reproduced, and how."""

    citation: str
    holds: str
    reproduce: Callable[[], Reproduction]


PAPERS: Final[Mapping[str, Paper]] = {
    "sheu-walker": Paper(
        sheu_walker_paper.CITATION, "tables 2-13, figures 3, 4, 6, section 6", sheu_walker_paper.reproduced
    ),
    "yoshida": Paper(yoshida_paper.CITATION, "chapters 3 and 4, figures 3.6.1-4", yoshida_paper.reproduced),
    "lin": Paper(lin_paper.CITATION, "tables I-III, savings, Stanford arm identified", lin_paper.reproduced),
    "lin-fang": Paper(lin_fang_paper.CITATION, "tables I-VIII, the cheapest formulation", lin_fang_paper.reproduced),
    "angeles": Paper(angeles_paper.CITATION, "table 1, examples 1 and 2, figures 4-8", angeles_paper.reproduced),
}
