"""Write docs/leaderboard.md and docs/leaderboard-curves.html from the records: python -m leaderboard.page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leaderboard.run import RECORDS, describe_licence
from leaderboard.sets import read_manifests
from mindyn.pages.document import Column, Section, figure, p, render_document, table, tag, to_html
from mindyn.pages.plots import axis, pane, plot, series

DOCS = Path(__file__).parents[1] / "docs"
Record = Mapping[str, Any]
RULES = (
    "A method gets the training rows, selects every setting there, and runs with one command and fixed seeds. It "
    "runs in a process and folder of its own that contain no held-out torque; a test searches that folder for "
    "held-out values.",
    "Every scored row counts as logged: neither filtered nor decimated, with standstill. The error is |measured - "
    "predicted| / |measured| over all joints and rows; the range in brackets is that of four consecutive parts of the "
    "scored rows. A method that fails, or returns a value that is not finite, has no score.",
    "Coverage is the fraction of held-out torques inside the 95 % bands that a method states.",
    "All of these sets were used while mindyn was developed, so they flatter it. The column for new sets stays empty "
    "until the maintainers add sets that were kept apart.",
)
SUBMIT = """## Submit a method

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
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*.json"))]


def format_rows(records: Sequence[Record]) -> list[list[str]]:
    """Return a heading and one line for each method, the best first."""
    sets = list(dict.fromkeys(record["set"] for record in records))
    methods = list(dict.fromkeys(record["method"] for record in records))
    by_key = {(record["method"], record["set"]): record for record in records}
    known = {method: [by_key[method, name]["total"] for name in sets if (method, name) in by_key] for method in methods}
    methods.sort(key=lambda m: (sum(t is None for t in known[m]), sum(t for t in known[m] if t is not None)))
    heading = ["method", *map(_title, sets), "coverage", "consistent", "processor time", "new sets"]
    lines = [[method, *(_cell(by_key.get((method, name))) for name in sets)] for method in methods]
    for line, method in zip(lines, methods, strict=True):
        own = [record for record in records if record["method"] == method]
        inside = [record["coverage"] for record in own if record["coverage"] is not None]
        consistent = [record["is_consistent"] for record in own if record["is_consistent"] is not None]
        line += [
            f"{100 * min(inside):.0f} to {100 * max(inside):.0f} %" if inside else "-",
            f"{sum(consistent)} of {len(consistent)}" if consistent else "-",
            f"{sum(record['seconds'] for record in own):.0f} s",
            "",
        ]
    return [heading, *lines]


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
    return f"{100 * record['total']:.2f} % ({100 * min(record['parts']):.1f} to {100 * max(record['parts']):.1f})"


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
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
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
        "regressor), or `make leaderboard METHODS=all`.",
        "\n".join(lines),
        f"Measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}; every number comes from a file of "
        "`leaderboard/records`, with machine and versions. [The same with torque curves](leaderboard-curves.html).",
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


def _html(records: Sequence[Record], rows: Sequence[Sequence[str]]) -> str:
    columns = [Column(title, number=k > 0) for k, title in enumerate(rows[0])]
    scores = table(columns, [list(row) for row in rows[1:]], "Torque error on held-out rows, by method and set")
    failures = tag("ul", {}, [tag("li", {}, text) for text in list_failures(records)])
    sections = [
        Section("scores", "Held-out torque error", to_html([scores, failures])),
        Section("rules", "Rules", to_html([p(rule) for rule in RULES])),
    ]
    best: dict[str, Record] = {}
    for record in records:
        if "curves" in record and record["method"] == "identify":
            best[record["set"]] = record
    for name, record in best.items():
        sections.append(_curves_section(name, record))
    return render_document("Leaderboard", f"{len(rows) - 1} methods on recorded logs", sections)


def _curves_section(name: str, record: Record) -> Section:
    curves, plots, figures = record["curves"], {}, []
    for k, joint in enumerate(curves["joints"]):
        key = f"{name}-{k}".replace(", ", "-")
        lines = [
            series("measured", "measured", curves["time"], curves["measured"][k]),
            series("predicted", "predicted", curves["time"], curves["predicted"][k]),
        ]
        plots[key] = plot(axis("time", "s"), [pane(axis("torque", "N m"), lines, height=120, zero=True)], group=name)
        figures.append(figure(key, f"Torque of {joint}", f"{joint}: {100 * record['joints'][k]:.1f} % error"))
    lead = p("Measured torque of held-out rows, and the torque that identify predicts.")
    return Section(name.replace(", ", "-"), f"Torque of {_title(name)}", to_html([lead, *figures]), plots)


if __name__ == "__main__":
    write_page()
