"""`mindyn papers`: reproduce tables and figures of five papers."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindyn.cli.arguments import JSON_OPTION, complete_from, require_companion, require_exclusive
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.printing import print_json, print_output, print_status, print_table
from mindyn.foundation.atomic_files import make_output_folder, write_file_atomically
from mindyn.foundation.errors import Code, InputError, list_names, unknown_name_error
from mindyn.papers.paper_catalogue import PAPERS

if TYPE_CHECKING:
    from mindyn.papers.reproduction import Reproduction

PAGE_FILE = "reproduced.md"
"""File in the folder of `--out`."""


def papers(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{', '.join(PAPERS)}. Without a name, list the papers.", autocompletion=complete_from(PAPERS)
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Reproduce all papers.")] = False,
    figures: Annotated[
        bool, typer.Option("--figures", help="Write the figures as SVG into the folder of --out.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for a Markdown page; created if it does not exist.")] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Reproduce tables of five papers: published value, our value and the difference; draw their figures."""
    from mindyn.papers.reproduction import format_text, to_data

    chosen = list(PAPERS) if every else names or []
    require_exclusive({"names of papers": names, "--all": every})
    require_companion("--out", out, "a paper or --all", chosen)
    if not chosen:
        _print_papers(as_json)
        return
    for name in chosen:
        if name not in PAPERS:
            raise unknown_name_error("paper", name, PAPERS, has="there are")
    if figures:
        require_companion("--figures", figures, "--out FOLDER", out)
        _require_figures(chosen)
    with nullcontext() if out is None else make_output_folder(out):
        reproductions = [_reproduce_paper(name) for name in chosen]
        if out is not None:
            _write_page(reproductions, out)
        if figures and out is not None:
            _write_figures(chosen, out)
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


def _require_figures(chosen: list[str]) -> None:
    if not any(PAPERS[name].figures for name in chosen):
        drawn = [name for name, paper in PAPERS.items() if paper.figures]
        raise InputError(
            f"no figures are drawn for: {list_names(chosen)}",
            hint=f"papers with figures: {', '.join(drawn)}; examples/05 and 06 draw those of angeles",
            code=Code.UNSUPPORTED,
            subject="--figures",
        )


def _write_figures(chosen: list[str], out: Path) -> None:
    for figure in (figure for name in chosen for figure in PAPERS[name].draw_figures()):
        path = write_file_atomically(out / f"{figure.name}.svg", figure.svg)
        print_status(f"wrote {path}: {figure.title}")


def _write_page(reproductions: list[Reproduction], out: Path) -> None:
    from mindyn.papers.reproduction import format_markdown

    write_file_atomically(out / PAGE_FILE, format_markdown(reproductions))
    print_status(f"wrote {out / PAGE_FILE}")
