"""Write docs/leaderboard.md and docs/leaderboard-curves.html from the records: python -m leaderboard.page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leaderboard.run import AGREEMENT, RECORDS, describe_licence
from leaderboard.sets import read_manifests
from mindyn.foundation.pages.document import Column, Section, figure, p, render_document, table, tag, to_html
from mindyn.foundation.pages.plots import axis, interval_series, pane, plot, series

DOCS = Path(__file__).parents[1] / "docs"
Record = Mapping[str, Any]
AGREEMENT_TEXT = (
    "Two recordings of one robot should give the same parameters. Each recording is fitted alone by mindyn (weighted "
    "least squares); a parameter agrees if the two values differ by less than their joint 95 % interval, so 95 % "
    "should. Parameters that one recording does not determine are not compared. Methods without intervals "
    "cannot be tested."
)
RULES = (
    "A method gets the training rows, selects every setting there, and runs with one command and fixed seeds. It "
    "runs in a process and folder of its own that contain no held-out torque; a test searches that folder for "
    "held-out values.",
    "Every scored row counts as logged: neither filtered nor decimated, with standstill. The error is |measured - "
    "predicted| / |measured| over all joints and rows. A method that fails, or returns a value that is not finite, has "
    "no score.",
    "Coverage is the fraction of held-out torques inside the 95 % bands that a method states.",
    "All of these sets were used while mindyn was developed, so their errors are optimistic. The column for new "
    "sets stays empty until the maintainers add sets that were not used.",
)
SUBMIT = """## Submit a set

Recordings that nobody used while mindyn was developed give the only unbiased errors. Copy
`leaderboard/set_template.toml` to `leaderboard/sets/NAME.toml`, fill it in, and score the set with

```console
MINDYN_REAL_DATA=FOLDER python -m leaderboard.run --set NAME
```

`FOLDER/NAME` holds the files while they are not published. Fix the rows before you fit anything, run the command once,
and open a pull request with the manifest and the printed table.

## Submit a method

A method is one Python file with a `name` and a function `fit(robot, logs)` that returns a function from a log to its
torque (N, n). It may use everything in the training logs; the log to predict has zeros as torque. The returned object
may have `bands(log)`, which returns lower and upper torque (95 %), and `is_consistent`.

```python
import numpy as np

name = "mean torque"


def fit(robot, logs):
    mean = np.concatenate([log.tau for log in logs]).mean(axis=0)
    return lambda log: np.broadcast_to(mean, log.q.shape)
```

`leaderboard/methods/ridge.py` is a complete example in 40 lines: ridge regression on Pinocchio's regressor. Run a file
with

```console
python -m leaderboard.run --method my_method.py
```

and open a pull request with the file and the records that `--record` writes. The sets are downloaded and verified by
their SHA-256; if `MINDYN_REAL_DATA` names a folder that has them, they are read from there.
"""


def read_records() -> list[Record]:
    """Return all records, by set and method."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*--*.json"))]


def _sort_methods(records: Sequence[Record]) -> dict[str, dict[str, Record]]:
    """Return the records of each method by set, the method with the smallest sum of errors first."""
    methods: dict[str, dict[str, Record]] = {}
    for record in records:
        methods.setdefault(record["method"], {})[record["set"]] = record
    totals = {method: [record["total"] for record in by_set.values()] for method, by_set in methods.items()}
    key = {m: (sum(t is None for t in known), -len(known), sum(t or 0.0 for t in known)) for m, known in totals.items()}
    return {method: methods[method] for method in sorted(methods, key=key.__getitem__)}


def _list_sets(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(record["set"] for record in records))


def format_rows(records: Sequence[Record]) -> list[list[str]]:
    """Return a heading and one line for each method, the best first."""
    sets = _list_sets(records)
    lines = [["method", *map(_title, sets), "coverage", "consistent", "processor time", "new sets"]]
    for method, by_set in _sort_methods(records).items():
        inside = [record["coverage"] for record in by_set.values() if record["coverage"] is not None]
        consistent = [record["is_consistent"] for record in by_set.values() if record["is_consistent"] is not None]
        fits = {(name.split(",")[0], record["seconds"]) for name, record in by_set.items()}  # splits share a fit
        lines.append(
            [
                method,
                *(_cell(by_set.get(name)) for name in sets),
                f"{100 * min(inside):.0f} to {100 * max(inside):.0f} %" if inside else "-",
                f"{sum(consistent)} of {len(consistent)}" if consistent else "-",
                f"{sum(seconds for _, seconds in fits):.0f} s",
                "",
            ]
        )
    return lines


def format_ranges(records: Sequence[Record]) -> list[list[str]]:
    """Return a heading and one line for each method with the range of its error in parts of the scored rows."""
    sets = _list_sets(records)
    lines = [["method", *map(_title, sets)]]
    for method, by_set in _sort_methods(records).items():
        parts = [by_set[name]["parts"] if name in by_set else () for name in sets]
        lines.append([method, *(f"{100 * min(p):.1f} to {100 * max(p):.1f} %" if p else "-" for p in parts)])
    return lines


def read_agreements() -> dict[str, Any]:
    """Return how fits to repeated recordings agree, by set."""
    return dict(json.loads(AGREEMENT.read_text(encoding="utf-8"))["agreements"])


def format_agreements(agreements: Mapping[str, Any]) -> list[list[str]]:
    """Return a heading and one line for each set with repeated recordings."""
    lines = [["set", "recordings", "parameters that agree", "of"]]
    for name, entry in agreements.items():
        lines.append([_title(name), *(str(entry[key]) for key in ("recordings", "within", "compared"))])
    return lines


def _title(name: str) -> str:
    """Return the title of a set and its split."""
    key, _, split = name.partition(", ")
    title = str(read_manifests([key])[key]["title"])
    return f"{title}, {split}" if split else title


def _cell(record: Record | None) -> str:
    if record is None:
        return "not run"
    if record["total"] is None:
        return "failed"
    return f"{100 * record['total']:.2f} %"


def list_failures(records: Sequence[Record]) -> list[str]:
    """Return why methods have no score."""
    return [f"{record['method']}, {record['set']}: {record['reason']}" for record in records if record["total"] is None]


def write_page() -> None:
    """Write both pages."""
    records = read_records()
    rows = format_rows(records)
    (DOCS / "leaderboard.md").write_text(_markdown(records, rows), encoding="utf-8")
    (DOCS / "leaderboard-curves.html").write_text(_html(records, rows), encoding="utf-8")


def _markdown(records: Sequence[Record], rows: Sequence[Sequence[str]]) -> str:
    sets = [
        f"- **{manifest['title']}** (`{name}`): {manifest['robot']}. [Source]({manifest['repository']}/tree/"
        f"{manifest['commit']}), licence {describe_licence(manifest)}."
        for name, manifest in read_manifests().items()
    ]
    dates = sorted({record["date"] for record in records})
    parts = [
        "# Leaderboard: identification methods on recorded logs",
        "Torque error on held-out rows of measured robots, for methods that select all of their settings on training "
        "rows. Anyone can run it again: `make leaderboard` (our default and a plain pipeline on Pinocchio's "
        "regressor; under 15 minutes on two cores), or `make leaderboard METHODS=all` (every method; `METHODS=ours` "
        "runs mindyn's own again, and `METHODS=peers` the others).",
        _to_markdown(rows),
        f"Measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}; every number comes from a file of "
        "`leaderboard/records`, with machine and versions. [The same with torque curves](leaderboard-curves.html).",
        "## How much the errors vary\n\nSmallest and largest error in four consecutive parts of the scored rows.\n\n"
        + _to_markdown(format_ranges(records)),
        f"## Agreement between repeated recordings\n\n{AGREEMENT_TEXT}\n\n"
        + _to_markdown(format_agreements(read_agreements())),
        "## Rules\n\n" + "\n".join(f"- {rule}" for rule in RULES),
        "## Methods without a score\n\n" + ("\n".join(f"- {text}" for text in list_failures(records)) or "None."),
        "## Sets\n\n"
        + "\n".join(sets)
        + "\n\nNo recording is part of the repository. The addresses of the sources have "
        "not been reached from the machine that wrote this page: the recipes were tested with a local server, and "
        "their hashes are those of the files that were scored. Recipe only: the licence, or its absence, does not "
        "allow us to publish numbers derived from the set beyond the scores.",
        SUBMIT.rstrip(),
    ]
    return "\n\n".join(parts) + "\n"


def _to_markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _html(records: Sequence[Record], rows: Sequence[Sequence[str]]) -> str:
    failures = tag("ul", {}, [tag("li", {}, text) for text in list_failures(records)])
    agreements = _to_table(format_agreements(read_agreements()), "Agreement between repeated recordings, by set")
    sections = [
        Section(
            "scores", "Held-out torque error", to_html([_to_table(rows, "Torque error by method and set"), failures])
        ),
        _ranges_section(records),
        Section("agreement", "Agreement between repeated recordings", to_html([p(AGREEMENT_TEXT), agreements])),
        Section("rules", "Rules", to_html([p(rule) for rule in RULES])),
    ]
    best: dict[str, Record] = {}
    for record in records:
        if "curves" in record and record["method"] == "identify":
            best[record["set"]] = record
    for name, record in best.items():
        sections.append(_curves_section(name, record))
    return render_document("Leaderboard", f"{len(rows) - 1} methods on recorded logs", sections)


def _to_table(rows: Sequence[Sequence[str]], caption: str) -> Any:
    columns = [Column(title.replace("KUKA ", ""), number=k > 0) for k, title in enumerate(rows[0])]
    return table(columns, [list(row) for row in rows[1:]], caption)


def _ranges_section(records: Sequence[Record]) -> Section:
    """Draw the error of every method on every set with the range over parts of the scored rows."""
    plots, figures = {}, []
    for name in _list_sets(records):
        known = {m: by_set[name] for m, by_set in _sort_methods(records).items() if name in by_set}
        scored = {m: record for m, record in known.items() if record["total"] is not None}
        percent = [(100 * r["total"], 100 * min(r["parts"]), 100 * max(r["parts"])) for r in scored.values()]
        places = [(total, row, low, high) for row, (total, low, high) in enumerate(percent)]
        names = [method.removeprefix("mindyn ").replace("load friction", "load") for method in scored]
        curve = interval_series("error", "predicted", list(scored), places, percent)
        x = axis("torque error", "%", extent=(0.0, 1.05 * max(high for _, _, high in percent)))
        key = f"range-{name}".replace(", ", "-")
        plots[key] = plot(x, [pane(axis("method", names=names), [curve], height=22 * len(scored))])
        figures.append(figure(key, f"Errors on {_title(name)}", _title(name)))
    lead = p("Dots: error over all scored rows. Bars: smallest and largest error in four consecutive parts of them.")
    return Section("ranges", "How much the errors vary", to_html([lead, tag("div", {"class": "pair"}, figures)]), plots)


def _curves_section(name: str, record: Record) -> Section:
    curves, plots, figures = record["curves"], {}, []
    for k, joint in enumerate(curves["joints"]):
        key = f"{name}-{k}".replace(", ", "-")
        lines = [
            series("measured", "measured", curves["time"], curves["measured"][k]),
            series("predicted", "predicted", curves["time"], curves["predicted"][k]),
        ]
        plots[key] = plot(axis("time", "s"), [pane(axis("torque", "N m"), lines, height=150, zero=True)], group=name)
        figures.append(figure(key, f"Torque of {joint}", f"{joint}: {100 * record['joints'][k]:.1f} % error"))
    lead = p("Measured torque of held-out rows, and the torque that identify predicts.")
    return Section(name.replace(", ", "-"), f"Torque of {_title(name)}", to_html([lead, *figures]), plots)


if __name__ == "__main__":
    write_page()
