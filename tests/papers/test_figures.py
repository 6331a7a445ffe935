"""Figures of `mindyn papers --figures`: drawn curves are those of the equations, and files are complete SVG."""

from __future__ import annotations

import json
from importlib import resources
from xml.etree import ElementTree

import numpy as np
import pytest
from raising import raises
from typer.testing import CliRunner

from mindyn import compile_model, load_robot
from mindyn.cli.main import app
from mindyn.foundation.errors import Code, MindynError
from mindyn.papers.line_drawings import draw_lines

NAMES = {"sheu-walker": {"3", "4", "6"}, "yoshida": {"3-6-1", "3-6-2", "3-6-3", "3-6-4"}}
SVG = "{http://www.w3.org/2000/svg}"
PIXEL = 0.1
"""Coordinates are written with one decimal."""


def run(*words):
    return CliRunner().invoke(app, ["papers", *map(str, words)], standalone_mode=False, catch_exceptions=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("figures") / "new"
    run("sheu-walker", "yoshida", "--figures", "--out", out)
    return out


def read_curves(path):
    """Return the points (N, 2) of the curves by name, in pixels; a name follows its curve."""
    root = ElementTree.parse(path).getroot()
    curves, points = {}, None
    for element in root:
        if element.tag == f"{SVG}polyline":
            points = np.array([pair.split(",") for pair in element.get("points").split()], dtype=float)
        elif element.tag == f"{SVG}text" and points is not None:
            curves[element.text], points = points, None
    return curves


def assert_affine(pixels, values):
    """Drawn heights are a + b times the values, with b < 0 because pixels count downwards."""
    A = np.column_stack([np.ones(len(values)), values])
    (_, slope), *_ = fit = np.linalg.lstsq(A, pixels, rcond=None)
    assert slope < 0
    assert np.abs(A @ fit[0] - pixels).max() < PIXEL


def test_every_figure_is_a_file(folder):
    for paper, numbers in NAMES.items():
        assert {path.stem for path in folder.glob(f"{paper}-*.svg")} == {f"{paper}-figure-{n}" for n in numbers}
    for path in folder.glob("*.svg"):
        assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "")


def test_figure_4_shows_the_torque_of_the_puma(folder):
    data = json.loads((resources.files("mindyn.papers") / "data" / "sheu_walker.json").read_text())["ranges"]
    low, high = np.array(data["q_min"]), np.array(data["q_max"])
    curves = read_curves(folder / "sheu-walker-figure-4.svg")
    drawn, complete = curves["all parameters"], next(v for name, v in curves.items() if name.startswith("36,"))
    t, half, rate = np.linspace(0, 2 * np.pi, len(drawn))[:, None], (high - low) / 2, 4.0
    motion = ((low + high) / 2 + half * np.sin(t), half * rate * np.cos(t), -half * rate**2 * np.sin(t))
    assert_affine(drawn[:, 1], compile_model(load_robot("puma560_fgl")).inverse_dynamics(*motion)[:, 0])
    assert np.abs(drawn - complete).max() <= PIXEL  # all 36 components


def test_energy_missed_falls_with_the_components_kept(folder):
    curves = read_curves(folder / "sheu-walker-figure-3.svg")
    assert {"PUMA 560", "five-bar arm"} == set(curves)
    for points in curves.values():
        assert (np.diff(points[:, 1]) >= 0).all()  # pixels count downwards


def test_figure_3_6_1_shows_both_methods_for_the_parameters_of_the_thesis(folder):
    curves = read_curves(folder / "yoshida-figure-3-6-1.svg")
    assert set(curves) == {"J1z, LS", "J1z, IV", "J5z, LS", "J5z, IV"}
    assert (curves["J1z, LS"][:, 1] > curves["J1z, IV"][:, 1]).all()  # least squares is too small


def test_motions_of_the_models_are_drawn_with_the_measured_ones(folder):
    for k, name in enumerate(("3-6-2", "3-6-3", "3-6-4")):
        curves = read_curves(folder / f"yoshida-figure-{name}.svg")
        methods = ("measured", "steps", "LS", "IV")
        assert set(curves) == {f"joint {j}, {m}" for j in (2 * k + 1, 2 * k + 2) for m in methods}
        for j in (2 * k + 1, 2 * k + 2):
            away = {m: np.abs(curves[f"joint {j}, {m}"] - curves[f"joint {j}, measured"]).max() for m in methods}
            assert away["IV"] <= away["LS"]


def test_a_curve_with_gaps_and_a_constant_can_be_drawn(tmp_path):
    x = np.arange(4.0)
    drawing = draw_lines({"a & b": (x, np.array([1.0, np.nan, 3.0, 2.0])), "c": (x, np.ones(4))}, "x", "y")
    (tmp_path / "a.svg").write_text(drawing)
    assert [len(points) for points in read_curves(tmp_path / "a.svg").values()] == [3, 4]


def test_figures_need_a_folder_and_a_paper_that_has_some(tmp_path):
    with raises(MindynError, Code.MISSING_VALUE, "--figures"):
        run("yoshida", "--figures")
    with raises(MindynError, Code.UNSUPPORTED, "--figures"):
        run("lin", "--figures", "--out", tmp_path / "none")
    assert not (tmp_path / "none").exists()
