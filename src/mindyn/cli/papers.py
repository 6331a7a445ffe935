"""`mindyn papers`: reproduce the tables of five papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from mindyn.cli.arguments import JSON_OPTION, complete_from, require_companion, require_exclusive
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.printing import print_json, print_output, print_status, print_table
from mindyn.foundation.errors import unknown_name_error
from mindyn.foundation.files import make_output_folder, write_file_atomically
from mindyn.papers import angeles_paper, lin_fang_paper, lin_paper, sheu_walker_paper, yoshida_paper
from mindyn.papers.reproduction import Reproduction, format_markdown, format_text, to_data

PAGE_FILE = "reproduced.md"
"""File in the folder of `--out`."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper: its citation, the reproduced parts, and the function that reproduces them."""

    citation: str
    holds: str
    reproduce: Callable[[], Reproduction]


PAPERS: Final[Mapping[str, Paper]] = {
    "sheu-walker": Paper(sheu_walker_paper.CITATION, "tables 2-13", sheu_walker_paper.reproduce),
    "yoshida": Paper(yoshida_paper.CITATION, "chapters 3 and 4", yoshida_paper.reproduce),
    "lin": Paper(lin_paper.CITATION, "tables I-III, savings, Stanford arm identified", lin_paper.reproduce),
    "lin-fang": Paper(lin_fang_paper.CITATION, "tables I-VIII, the cheapest formulation", lin_fang_paper.reproduce),
    "angeles": Paper(angeles_paper.CITATION, "table 1, examples 1 and 2", angeles_paper.reproduce),
}


def papers(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{', '.join(PAPERS)}. Without a name, list the papers.", autocompletion=complete_from(PAPERS)
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Reproduce all papers.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for a Markdown page; created if it does not exist.")] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Reproduce tables of five papers: published value, our value and the difference."""
    chosen = list(PAPERS) if every else names or []
    require_exclusive({"names of papers": names, "--all": every})
    require_companion("--out", out, "a paper or --all", chosen)
    if not chosen:
        _print_papers(as_json)
        return
    for name in chosen:
        if name not in PAPERS:
            raise unknown_name_error("paper", name, PAPERS, has="there are")
    with nullcontext() if out is None else make_output_folder(out):
        reproductions = [_reproduce_paper(name) for name in chosen]
        if out is not None:
            _write_page(reproductions, out)
    if as_json:
        print_json([to_data(reproduction) for reproduction in reproductions], indent=2)
    else:
        print_output("\n\n\n".join(map(format_text, reproductions)), "    ")
    outside = [row for reproduction in reproductions for row in reproduction.outside]
    if outside:
        print_status(f"outside tolerance: {'; '.join(outside)}")
        raise typer.Exit(ExitCode.NO)


def _reproduce_paper(name: str) -> Reproduction:
    print_status(f"{name} ...")
    return PAPERS[name].reproduce()


def _print_papers(as_json: bool) -> None:
    if as_json:
        listed = [{"paper": k, "citation": p.citation, "holds": p.holds} for k, p in PAPERS.items()]
        print_json(listed, indent=2)
        return
    print_table(
        [("paper", "reproduced parts", "citation"), *((name, p.holds, p.citation) for name, p in PAPERS.items())]
    )


def _write_page(reproductions: list[Reproduction], out: Path) -> None:
    write_file_atomically(out / PAGE_FILE, format_markdown(reproductions))
    print_status(f"wrote {out / PAGE_FILE}")
