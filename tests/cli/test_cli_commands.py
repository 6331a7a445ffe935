"""Properties of all commands (fast help, JSON on stdout, completion), and `doctor`."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cli.program import mindyn_program

import mindyn
from mindyn.cli import check_command, doctor_command, simulate_command
from mindyn.cli.arguments import suggest_robots
from mindyn.cli.exit_codes import EXIT_CODE_MEANINGS, VERDICTS, ExitCode, list_exit_codes
from mindyn.cli.main import COMMANDS, load_function
from mindyn.foundation.hints import install_command
from mindyn.kernels.numerics import cache
from mindyn.regression.settings import EquationSettings
from mindyn.robots import Limits

ROOT = Path(__file__).parents[2]
HEAVY = ("casadi", "llvmlite", "polars", "scipy", "cvxpy", "numpy", "pinocchio", "mujoco")
WITH_JSON = {"robots": (), "base": ("planar2",), "count": ("planar2",), "doctor": ()}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_the_first_line_of_its_docstring(command):
    assert COMMANDS[command] == inspect.getdoc(load_function(command)).splitlines()[0]


def test_every_command_file_is_listed():
    names = {path.stem.removesuffix("_command") for path in (ROOT / "src/mindyn/cli").glob("*_command.py")}
    commands = {name for name in names if callable(getattr(import_module(f"mindyn.cli.{name}_command"), name, None))}
    assert commands == {name.replace("-", "_") for name in COMMANDS}


def heavy_packages(words, code="from mindyn.cli.main import run; run()"):
    """What a program prints, and which heavy packages it has loaded at its end."""
    show = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {code}"
    done = subprocess.run([sys.executable, "-c", show, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "mindyn" in loaded
    return done.stdout, loaded & set(HEAVY)


def test_help_and_import_load_no_heavy_package():
    assert heavy_packages((), "import mindyn")[1] == set()
    text, loaded = heavy_packages(("--help",))
    assert loaded == set()
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("words", [("robots",), ("base", "planar2"), ("count", "planar2")])
def test_first_commands_load_what_the_platforms_page_lists(words):
    page = (ROOT / "docs" / "platforms.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| `mindyn") and f"`mindyn {words[0]}`" in line)
    assert heavy_packages(words)[1] == set(row.split("|")[2].replace(",", " ").split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_lists_its_options(command):
    ended = mindyn_program(command, "--help")
    assert ended.code == 0
    assert "--json" in ended.out
    assert "[]" not in ended.out  # what is left of [[...]] where it is taken for markup


def test_documentation_and_help_list_the_exit_codes():
    rows = [line for line in (ROOT / "docs/commands.md").read_text().splitlines() if line.startswith("| ")]
    for code, meaning in EXIT_CODE_MEANINGS.items():
        assert f"| {code.value} | {meaning} |" in rows
    verdict = "; ".join(f"{command}: {meaning}" for command, meaning in VERDICTS.items())
    assert f"| {ExitCode.NO.value} | {verdict} |" in rows
    assert {*EXIT_CODE_MEANINGS, ExitCode.NO} == set(ExitCode)
    assert set(VERDICTS) <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_the_exit_codes_of_the_command(command):
    shown = " ".join(mindyn_program(command, "--help").out.split())
    codes = list_exit_codes(command)
    assert all(f"{code.value} {meaning}" in shown for code, meaning in codes.items())
    assert (ExitCode.NO in codes) == (command in VERDICTS)
    assert not any(meaning in shown for other, meaning in VERDICTS.items() if meaning != VERDICTS.get(command))


def test_help_of_excite_groups_its_options():
    shown = mindyn_program("excite", "--help", columns=80).out
    robot = shown.partition("\nRobot:\n")[2].partition("\n\n")[0]
    options = ("--lock", "--root", "--tip", "--gravity", "--mount", "--assembly", "--base", "--snap")
    assert [line.split()[0] for line in robot.splitlines() if line.startswith("  --")] == list(options)
    assert all(f"\n{group}:\n" in shown for group in ("Options", "Safety", "Search", "Output"))
    assert len(shown.splitlines()) < 80


def test_undecided_consistency_exits_with_no(monkeypatch):
    from mindyn.identification.feasibility.check_feasible import Feasibility
    from mindyn.identification.feasibility.checks.answer import Answer

    def exit_code_of(*holds: bool | None) -> int:
        names = ("positive_definite", "consistent", "plausible")
        feasibility = Feasibility(*(Answer(name, answer, "so.") for name, answer in zip(names, holds, strict=True)))
        monkeypatch.setattr(
            check_command, "load_run_estimate", lambda _: SimpleNamespace(robot=mindyn.load_robot("planar2"))
        )
        monkeypatch.setattr("mindyn.identification.feasibility.check_feasible.check_feasible", lambda *_: feasibility)
        return mindyn_program("check", "run").code

    assert exit_code_of(True, True, True) == exit_code_of(None, True, None) == ExitCode.DONE
    assert (
        exit_code_of(True, None, None)
        == exit_code_of(False, True, True)
        == exit_code_of(True, True, False)
        == ExitCode.NO
    )


@pytest.mark.parametrize("command", WITH_JSON)
def test_json_output_is_only_json(command):
    ended = mindyn_program(command, *WITH_JSON[command], "--json")
    assert ended.code == 0
    assert json.loads(ended.out)


def test_json_of_simulate_describes_the_log(tmp_path):
    ended = mindyn_program("simulate", "planar2", "--seconds", 0.5, "--out", tmp_path / "run.csv", "--json")
    data = json.loads(ended.out)
    log = mindyn.read_log(data["log"], mindyn.load_robot("planar2"))
    assert data["samples"] == len(log)
    assert data["joints"] == list(log.joint_names)
    assert "samples of 2 joints" in ended.err


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """Return a folder with two logs of a two-link arm, and a run on the first."""
    folder = tmp_path_factory.mktemp("run")
    for seed in (1, 2):
        log = folder / f"{seed}.csv"
        mindyn_program("simulate", "planar2", "--seconds", 4, "--torque-noise", 0.1, "--noise-at", "motor",
                       "--seed", seed, "--out", log)  # fmt: skip
    ended = mindyn_program("identify", "planar2", folder / "1.csv", "--out", folder / "run", "--no-report", "--json")
    assert json.loads(ended.out)["validation"] is None
    return folder


def test_json_of_report_has_validation_and_feasibility(finished_run):
    out = finished_run / "report.html"
    ended = mindyn_program("report", finished_run / "run", "--validate", finished_run / "2.csv", "--out", out, "--json")
    data = json.loads(ended.out)
    assert data["report"] == str(out)
    assert out.is_file()
    estimate, log = mindyn.load_estimate(finished_run / "run/estimate.json"), finished_run / "2.csv"
    assert data["validation"] == mindyn.validate(estimate, mindyn.read_log(log, estimate.robot)).to_dict()
    assert data["feasibility"] == mindyn.check_feasible(estimate).to_dict()
    unjudged = mindyn_program("report", finished_run / "run", "--out", out, "--json")
    assert json.loads(unjudged.out)["validation"] is None


@pytest.mark.parametrize(("to", "name"), [("toml", "arm.toml"), ("ros2", "arm_dynamics")])
def test_json_of_export_lists_the_written_files(finished_run, to, name):
    ended = mindyn_program(
        "export", finished_run / "run", "--to", to, "--out", finished_run / name, "--feasible", "--json"
    )
    data = json.loads(ended.out)
    assert data["robot"] == "planar2"
    assert data["projected"]
    assert all(Path(path).is_file() for path in data["files"])
    assert any(Path(path).name == ("arm.toml" if to == "toml" else "package.xml") for path in data["files"])


@pytest.mark.parametrize("name", ["arm_code", "arm_code.c"])
def test_export_lists_code_and_header(finished_run, name):
    out = finished_run / name
    ended = mindyn_program("export", finished_run / "run", "--to", "c", "--out", out, "--feasible", "--json")
    files = [str(finished_run / "arm_code.c"), str(finished_run / "arm_code.h")]
    assert json.loads(ended.out)["files"] == files
    assert f"wrote {', '.join(files)}" in ended.err


def test_export_notes_are_the_same_in_text_and_json(finished_run):
    out = finished_run / "noted.urdf"
    ended = mindyn_program("export", finished_run / "run", "--to", "urdf", "--out", out, "--feasible", "--json")
    notes = json.loads(ended.out)["notes"]
    assert notes == [line.removeprefix("note: ") for line in ended.err.splitlines() if line.startswith("note: ")] != []


def test_export_lists_omitted_parts_and_never_overwrites_its_source(finished_run):
    out = finished_run / "arm.urdf"
    ended = mindyn_program("export", finished_run / "run", "--to", "urdf", "--out", out, "--feasible", "--json")
    assert "rotor inertia at the joints" in ended.err
    assert any("rotor inertia" in note for note in json.loads(ended.out)["notes"])
    assert all("set it there as armature, or write MJCF or C" in text for text in (ended.err, out.read_text()))
    before = out.read_text()
    again = mindyn_program("export", finished_run / "run", "--to", "urdf", "--out", out, "--source", out, "--feasible")
    assert (again.code, out.read_text()) == (1, before)
    assert "hint: pass another name with --out" in again.err


def test_export_replays_a_log_in_mujoco_and_edits_mjcf(finished_run):
    pytest.importorskip("mujoco")
    out, run = finished_run / "edited.xml", ("export", finished_run / "run", "--to", "mjcf", "--feasible", "--out")
    assert mindyn_program(*run, finished_run / "first.xml").code == 0
    given = (*run, out, "--source", finished_run / "first.xml", "--check", finished_run / "2.csv")
    errors = json.loads(mindyn_program(*given, "--json").out)["check"]
    assert errors["MuJoCo"]["total"] < errors["mindyn"]["total"] + 0.05
    assert "MuJoCo" in mindyn_program(*given).out.splitlines()[0]
    missing = mindyn_program(*run, finished_run / "unchecked.xml", "--check", finished_run / "missing.csv")
    assert (missing.code, (finished_run / "unchecked.xml").exists()) == (1, False)


def test_exported_code_has_the_friction_transition_of_the_fit(finished_run):
    robot = mindyn.load_robot("planar2")
    log, smooth = (
        mindyn.read_log(finished_run / "1.csv", robot),
        EquationSettings(friction=mindyn.Friction("tanh", 0.05)),
    )
    speed = np.gradient(log.q, log.time, axis=0)
    rubbing = replace(log, tau=log.tau + 5.0 * np.tanh(speed / 0.05))
    estimate = mindyn.identify(robot, rubbing, mindyn.LeastSquares(), smooth)
    estimate.save(finished_run / "smooth.json")
    code = finished_run / "arm.c"
    given = ("export", finished_run / "smooth.json", "--to", "c", "--out", code, "--feasible", "--prefix", "arm_")
    assert mindyn_program(*given).code == 0
    assert "void arm_inverse_dynamics(" in code.read_text()
    assert "tanh(" in code.read_text()
    wrong_format = mindyn_program("export", finished_run / "run", "--to", "toml", "--out", "a.toml", "--prefix", "arm_")
    assert wrong_format.code == 1
    assert "--prefix needs --to c, cpp or python" in wrong_format.err
    spoilt = mindyn_program(
        "export", finished_run / "run", "--to", "c", "--out", finished_run / "no.c", "--prefix", "9 a"
    )
    assert spoilt.code == 1
    assert "hint: such as --prefix arm_" in spoilt.err
    assert not (finished_run / "no.c").exists()


def test_simulate_options_equal_the_sensors_of_the_library(tmp_path):
    """Check that each setting of `Sensors` but the sides is an option or in a file, with the same log as in Python."""
    settings = {
        "rate_hz": 100.0,
        "counts_per_revolution": 500.0,
        "position_noise": 1e-3,
        "torque_noise": 0.02,
        "torque_resolution": 0.05,
        "position_delay_s": 0.03,
        "torque_delay_s": 0.02,
        "noise_side": "motor",
        "seed": 3,
    }
    assert {"position_side", "torque_side", *settings} == {setting.name for setting in fields(mindyn.Sensors)}
    short = {"counts_per_revolution": "counts", "noise_side": "noise_at"}
    in_file = ("torque_resolution", "position_delay_s", "torque_delay_s")
    (tmp_path / "sensors.toml").write_text("\n".join(f"{name} = {settings[name]}" for name in in_file))
    named = {short.get(name, name): value for name, value in settings.items() if name not in in_file}
    given = ["--sensors", tmp_path / "sensors.toml"]
    given += [word for name, value in named.items() for word in (f"--{name.replace('_', '-')}", value)]
    given += ["--without-drives", "--out", tmp_path / "run.parquet"]
    assert mindyn_program("simulate", "planar2", "--seconds", 1, *given).code == 0
    robot = mindyn.load_robot("planar2")
    log = mindyn.read_log(tmp_path / "run.parquet", robot)
    reference = simulate_command.make_sine_reference(robot, 3)
    controller = mindyn.ComputedTorque(robot, reference, 100.0, 20.0)
    start = {"q0": reference(0.0)[0], "qd0": reference(0.0)[1]}
    run = mindyn.simulate(robot, controller, seconds=1.0, sensors=mindyn.Sensors(**settings), **start)
    np.testing.assert_array_equal(log.q, run.measured.position)
    np.testing.assert_array_equal(log.tau, run.measured.torque)


def test_simulate_accepts_a_urdf_with_friction_on_some_joints(tmp_path):
    robot = mindyn.load_robot("planar2")
    some = replace(robot, drives=(mindyn.Drive("joint1", viscous=0.1),))
    mindyn.write_urdf(some, tmp_path / "arm.urdf", force=True)
    given = ("simulate", tmp_path / "arm.urdf", "--seconds", 0.2, "--out", tmp_path / "run.csv")
    assert mindyn_program(*given).code == 0
    assert "omit counts_per_revolution" in mindyn_program(*given, "--counts", 500).err


@pytest.mark.parametrize("ends", [{"lower": 2.0}, {"upper": -3.0}, {"lower": 0.5, "upper": 0.7}, {}])
def test_simulated_motions_stay_within_the_position_limits(ends):
    robot = mindyn.load_robot("planar2")
    joints = tuple(replace(joint, limits=Limits(**ends)) for joint in robot.joints)
    motion = simulate_command.make_sine_reference(replace(robot, joints=joints), 0)
    q = np.array([motion(t)[0] for t in np.linspace(0, 10, 500)])
    assert q.min() >= ends.get("lower", -np.inf)
    assert q.max() <= ends.get("upper", np.inf)
    assert np.ptp(q, axis=0).min() > 0.05


def test_counts_of_a_parallelogram_equal_those_of_its_kernels():
    ended = mindyn_program("count", "palletiser", "--json")
    robot = mindyn.load_robot("palletiser")
    kernels = mindyn.compile_model(robot, base=mindyn.base_parameters(robot)).operation_counts
    counted = {row["equation"]: row for row in json.loads(ended.out)["counts"] if row["formulation"][0] != "s"}
    for title in ("inverse dynamics", "inertia matrix", "forward dynamics", "regressor"):
        counts = kernels[title.replace(" ", "_")]
        assert (counted[title]["multiplications"], counted[title]["additions"]) == (
            counts.multiplications,
            counts.additions,
        )
    assert "in the primary joints" in ended.err
    assert "the other formulations are only for open chains" in ended.err


def complete(line: str, folder: Path) -> list[str]:
    """Return the completions of bash after `line`."""
    asks = {"_MINDYN_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    code = "import sys; sys.argv = ['mindyn']; from mindyn.cli.main import app; app(prog_name='mindyn')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asks, cwd=folder, capture_output=True, text=True, timeout=120
    )
    return done.stdout.split()


def test_a_shell_completes_commands_robots_and_options(tmp_path):
    (tmp_path / "arm.urdf").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "arms").mkdir()
    assert complete("mindyn do", tmp_path) == ["doctor"]
    assert complete("mindyn robots pum", tmp_path) == ["puma560", "puma560_fgl", "puma560_yoshida"]
    assert complete("mindyn robots ar", tmp_path) == ["arm.urdf", "arms/"]
    assert complete("mindyn base puma560 --form m", tmp_path) == ["mayeda"]
    assert complete("mindyn export run --to m", tmp_path) == ["mjcf"]
    assert complete("mindyn identify arm log --method in", tmp_path) == ["instruments"]


def test_robot_files_complete_in_subfolders(tmp_path, monkeypatch):
    (tmp_path / "arms").mkdir()
    for name in ("one.urdf", "two.toml", "three.xml", "mesh.stl", ".hidden.toml"):
        (tmp_path / "arms" / name).touch()
    monkeypatch.chdir(tmp_path)
    assert list(suggest_robots("arms/")) == ["arms/one.urdf", "arms/three.xml", "arms/two.toml"]
    assert list(suggest_robots("arms/t")) == ["arms/three.xml", "arms/two.toml"]
    assert list(suggest_robots(f"{tmp_path}/arms/o")) == [f"{tmp_path}/arms/one.urdf"]
    assert set(suggest_robots("")) == {*mindyn.bundled_robots(), "arms/"}
    assert list(suggest_robots("nowhere/")) == []


def findings(ended) -> dict[str, dict]:
    return {check["name"]: check for check in json.loads(ended.out)["findings"]}


def test_doctor_reports_a_working_core():
    ended = mindyn_program("doctor", "--json")
    assert ended.code == 0
    checks = findings(ended)
    assert checks["mindyn"]["version"] == mindyn.__version__
    assert 0 <= checks["kernel"]["deviation"] < doctor_command.LARGEST_DEVIATION
    assert checks["processor"]["float32"] == 2 * checks["processor"]["float64"]
    assert checks["cache"]["folder"] == str(cache.cache_directory())
    assert {f"extra {name}" for name in doctor_command.EXTRAS} <= set(checks)
    text = mindyn_program("doctor").out
    assert all(name in text for name in checks)


def test_doctor_prints_the_install_command_of_a_missing_extra(monkeypatch):
    monkeypatch.setattr(doctor_command.util, "find_spec", lambda _: None)
    for name in doctor_command.EXTRAS:
        check = doctor_command.check_extra(name)
        assert check.state == "missing"
        assert check.remedy == install_command(name)


def test_doctor_checks_the_extras_of_the_project():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in doctor_command.EXTRAS:
        assert any(line.startswith(doctor_command.EXTRAS[name].package) for line in stated[name])


@pytest.mark.parametrize("how", ["wrong numbers", "no compiler"])
def test_doctor_fails_if_kernels_do_not_work(monkeypatch, how):
    from mindyn.kernels.model import Model

    def raise_error(_, q, *__, **___):
        if how == "no compiler":
            raise OSError("LLVM is not there")
        return np.ones_like(q)

    monkeypatch.setattr(Model, "inverse_dynamics", raise_error)
    ended = mindyn_program("doctor", "--json")
    assert ended.code == ExitCode.NO
    assert findings(ended)["kernel"]["state"] == "failed"
    assert "hint: " in ended.err


def test_doctor_recompiles_without_touching_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINDYN_CACHE_DIR", str(tmp_path))
    assert doctor_command.check_kernel().state == "ok"
    assert doctor_command.check_kernel().state == "ok"
    assert list(tmp_path.iterdir()) == []
    assert os.environ["MINDYN_CACHE_DIR"] == str(tmp_path)


@pytest.mark.parametrize("device", [True, False])
def test_doctor_names_the_gpu(monkeypatch, device):
    def properties(_):
        if not device:
            raise RuntimeError("cudaErrorNoDevice")
        return {"name": b"A100"}

    runtime = SimpleNamespace(getDeviceProperties=properties)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    check = doctor_command.check_gpu()
    assert (check.state, check.message) == (
        ("ok", "A100") if device else ("missing", "CuPy finds no device: cudaErrorNoDevice")
    )
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert doctor_command.check_gpu().remedy == install_command("gpu")


def test_doctor_reports_a_cache_that_is_not_writable(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINDYN_CACHE_DIR", str(tmp_path / "file"))
    check = doctor_command.check_cache()
    assert (check.state, check.remedy) == ("missing", "set MINDYN_CACHE_DIR to a folder that only you can write")
    assert "it is not a folder" in check.message


def test_cache_usage_counts_only_objects(tmp_path):
    sizes = [(tmp_path / name).write_bytes(bytes(size)) for name, size in (("a.o", 5), ("b.o", 3), ("note.txt", 1))]
    assert cache.cache_usage(tmp_path) == (2, sum(sizes[:2]))
