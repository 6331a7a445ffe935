"""The seeds' operation counts, from the traced equations, exactly; and the counter itself."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from mindyn.cli.count_command import count
from mindyn.papers.counting import Counts, Tape
from mindyn.papers.operation_tables import angeles_rows, lin_rows, table_ii, table_vi_rows, table_viii_rows
from mindyn.papers.traced_robots import kane_chain, lin_chain

ROWS = {
    f"{row.table}, {row.name}": row
    for rows in (lin_rows, table_vi_rows, table_viii_rows, angeles_rows)
    for row in rows()
}
NOT_REPRODUCED = "Lin 1995, Table III, Stanford arm, simplified (13 MLC)"


def command(*arguments: str):
    app = typer.Typer()
    app.command()(count)
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("n", range(2, 13))
def test_lin_general_robot_is_reproduced(n):
    row = ROWS["Lin 1995, Table III, n revolute joints, general"]
    assert row.printed(n) == Counts(89 * n - 82, 77 * n - 71)
    assert row.counted(n) + Counts(1, 0) == row.printed(n)
    assert lin_chain(n, wrench=True).live() == Counts(86 * n - 99, 74 * n - 84)
    assert lin_chain(n, wrench=False).live() == Counts(86 * n - 105, 74 * n - 96)


@pytest.mark.parametrize("name", ROWS)
def test_printed_equals_counted_plus_explained_differences(name):
    row = ROWS[name]
    rests = {row.unexplained(n) for n in ([row.size] if row.size else range(4, 12))}
    assert rests == {Counts(-4, 3) if name == NOT_REPRODUCED else Counts(0, 0)}
    assert bool(row.note) == (name == NOT_REPRODUCED)


def test_inconsistencies_of_lin_and_fang_are_named():
    second = ROWS["Lin & Fang 1999, Table VI, formulation 2, type 2"]
    assert second.counted(6) == Counts(228, 157)
    assert [d.worth(6) for d in second.differences] == [Counts(3, 3)]
    fourth = ROWS["Lin & Fang 1999, Table VI, formulation 4, type 1"]
    assert fourth.differences[-1].worth(6) == Counts(-4, 0)
    assert "-104 M" in fourth.differences[-1].why


def test_angeles_slopes():
    def written(n):
        return kane_chain(n, dense={"motion before"}, gravity="any").counts(without=("R",))

    assert written(7) - written(6) == Counts(105, 87)
    row = ROWS["Angeles et al. 1988, Table 1, n revolute joints, general"]
    assert row.differences[0].worth(7) - row.differences[0].worth(6) == Counts(0, 3)


def test_every_entry_of_table_ii_is_reproduced_or_explained():
    lines = table_ii()
    assert len(lines) == 60
    assert all((row.printed(6) == row.counted(6)) == (not row.differences) for row in lines)
    assert all(row.unexplained(6) == Counts() for row in lines)
    assert sum(row.printed(6) != row.counted(6) for row in lines) == 13


def test_the_counter_folds_shares_and_drops():
    tape = Tape()
    a, b, x, y = tape.constant(), tape.constant(), tape.variable(), tape.variable()
    assert 0.0 * x == 0.0
    folded = (a * b + a) * (1.0 * x - 0.0)
    first, again = y * x - a, a - x * y
    tape.line("one", None)
    assert tape.counts() == Counts(3, 2)
    assert tape.count_needed([folded]) == Counts(1, 0)
    assert tape.count_needed([first, again]) == Counts(2, 2)
    assert tape.count_needed([first, again], shared=True) == Counts(1, 1)
    assert tape.by_line() == {"one": Counts(3, 2)}
    assert tape.counts(without=["one"]) == Counts()
    _ = 2.0 * x
    assert (tape.counts(twice="mul"), tape.counts()) == (Counts(4, 2), Counts(3, 3))


def test_the_command_prints_tables_and_json():
    shown = command("planar2")
    assert shown.exit_code == 0
    assert "Kane, centres of mass" in shown.stdout
    data = json.loads(command("scara", "--json").stdout)
    newton = next(row for row in data["counts"] if row["formulation"].startswith("lean recursion, base"))
    assert newton["multiplications"] > 0
