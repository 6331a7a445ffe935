"""The guide lists every argument of `log_from_arrays`, with its shape, and no other."""

import inspect
from pathlib import Path

import numpy as np
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "prepare-a-log.md"


def read_table():
    """Return the cells of each row of the table by argument."""
    text = GUIDE.read_text().split("\n## Arrays\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_the_guide_lists_all_arguments_and_which_are_required():
    parameters = inspect.signature(mindyn.log_from_arrays).parameters
    table = read_table()
    assert list(table) == list(parameters)
    required = [name for name, cells in table.items() if cells[-1].startswith("required")]
    assert required == [name for name, parameter in parameters.items() if parameter.default is parameter.empty]


def test_arguments_have_the_documented_shapes():
    N, n = 50, 2
    table = read_table()
    t = np.linspace(0, 1, N)
    sizes = {"(N,)": (N,), "(N, n)": (N, n)}
    arrays = {name: np.sin(np.ones(sizes[cells[0]]).T * t).T for name, cells in table.items() if cells[0] in sizes}
    arrays["time"] = t
    log = mindyn.log_from_arrays(["a", "b"], **arrays)
    assert len(log) == N
    for name in arrays.keys() - {"time"}:
        with raises(InputError, code=Code.WRONG_SHAPE):
            mindyn.log_from_arrays(["a", "b"], **{**arrays, name: np.zeros((N, n + 1))})
