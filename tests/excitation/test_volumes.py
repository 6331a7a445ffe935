"""Volumes of links: covers contain meshes, reported distances are never larger than coal's, no motion hits anything."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars
import pytest
from cli.program import mindyn_program
from closeness import SAME_ALGEBRA, assert_close, assert_negligible
from excitation.arm_files import BOX, SHORT, urdf
from excitation.full_speed import design_motion
from excitation.independent_check import heights_of
from raising import raises
from robots import random_robot

import mindyn
from mindyn.foundation.errors import Code, UnsafeMotionError
from mindyn.foundation.findings import Kind
from mindyn.logs.formats.text_table import TextTable
from mindyn.motions.excitation.body_pairs import find_encounters, gaps_of
from mindyn.motions.excitation.collision_shapes import Bodies
from mindyn.motions.excitation.limits import with_limits
from mindyn.motions.excitation.motion_check import check_path
from mindyn.motions.excitation.motion_design import check_design
from mindyn.motions.excitation.motion_safety import PROBES, SafetySettings, random_positions, what_to_check
from mindyn.motions.excitation.solving import places_to_stand
from mindyn.motions.excitation.volumes import Capsule, Volume, cover, volumes_of
from mindyn.motions.step_plans.safe_tests import plan_safe_tests
from mindyn.motions.step_plans.step_motions import ConstantSpeed
from mindyn.robots.link_solids import Solid, VolumeSource, mesh_solid
from mindyn.robots.mesh_files import Triangles


def random_mesh(rng: np.random.Generator) -> Triangles:
    """A bent tube of random triangles: not convex, its corners anywhere."""
    along = np.linspace(0, 3, 40)
    spine = np.stack([np.cos(along), np.sin(along), 0.2 * along], axis=1)
    corners = np.concatenate([spine + 0.1 * rng.normal(size=spine.shape) for _ in range(3)])
    faces = rng.integers(0, 40, (200, 1)) + rng.integers(0, 3, (200, 3)) + 40 * rng.integers(0, 3, (200, 3))
    return Triangles(corners, np.minimum(faces, len(corners) - 1))


def inside(capsule: Capsule, points: np.ndarray) -> np.ndarray:
    axis = capsule.b - capsule.a
    s = np.clip((points - capsule.a) @ axis / max(axis @ axis, 1e-12), 0, 1)
    return np.linalg.norm(points - capsule.a - s[:, None] * axis, axis=1) <= capsule.radius + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_every_triangle_lies_in_one_capsule_and_every_piece_in_the_hulls(seed):
    mesh = random_mesh(np.random.default_rng(seed))
    ball = Solid(np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 1.0]]), 0.2)
    capsules, pieces = cover([mesh_solid(mesh), ball], "link")
    corners = np.stack([inside(capsule, mesh.corners) for capsule in capsules])
    assert corners[:, mesh.faces].all(axis=2).any(axis=0).all()
    ends = np.array([[-0.2, 0, 1.0], [0.7, 0, 1.0], [0.2, 0.2, 1.0]])
    assert any(inside(capsule, ends).all() for capsule in capsules)
    faces = sum(len(piece.surface.faces) for piece in pieces if piece.surface is not None)
    assert faces == len(mesh.faces)


def test_sources_come_in_order_and_fixed_children_keep_their_geometry(tmp_path):
    file = tmp_path / "arm.urdf"
    hand = BOX.format(tag="collision", shape='<box size="0.1 0.1 0.4"/>')
    seen = BOX.format(tag="visual", shape='<sphere radius="0.1"/>')
    lost = BOX.format(tag="collision", shape='<mesh filename="package://none/lost.stl"/>')
    cases = {
        VolumeSource.COLLISION: urdf(forearm=hand, flange=hand),
        VolumeSource.VISUAL: urdf(forearm=lost + seen, flange=hand),
        VolumeSource.ELLIPSOID: urdf(forearm=lost, flange=hand),
    }
    for source, text in cases.items():
        known = not source.is_guess
        file.write_text(text)
        body = volumes_of(mindyn.load_robot(file))
        forearm = [volume for volume in body.volumes if volume.link == "forearm"]
        assert forearm[-1].source is source
        assert known or forearm[0].source is VolumeSource.COLLISION
        highest = max((solid.points + solid.radius)[:, 2].max() for item in forearm for solid in item.solids)
        assert highest > 0.65 - 1e-9, "the box on the flange reaches to 0.3 + 0.15 + 0.2 m"
        assert (Kind.MISSING_MESH in {finding.kind for finding in body.findings}) == ("lost" in text)


def test_a_payload_gets_a_volume(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text(urdf(forearm=BOX.format(tag="collision", shape='<box size="0.1 0.1 0.3"/>')))
    robot = mindyn.load_robot(file).with_payload(2.0, [0, 0, 0.1], 0.03 * np.eye(3), at="flange")
    known, payload = (volume for volume in volumes_of(robot).volumes if volume.link == "forearm")
    assert known.source is VolumeSource.COLLISION
    assert payload.source is VolumeSource.ELLIPSOID
    assert any(inside(cover, np.array([[0.0, 0.0, 0.45]]))[0] for cover in payload.covers)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("exact", [True, False])
def test_reported_distances_are_never_larger_than_those_of_a_finer_path(seed, exact, monkeypatch):
    """Also between samples: the reference looks at a hundred times as many positions."""
    if not exact:
        monkeypatch.setattr("mindyn.motions.excitation.collision_shapes.import_coal", lambda: None)
    robot, rng = random_robot(seed, joints=4), np.random.default_rng(seed)
    volumes = volumes_of(robot, radius=dict.fromkeys(robot.link_names, 0.02)).volumes
    probes = rng.uniform(-1, 1, (200, 4))
    encounters = find_encounters(robot, volumes, [], [], probes, 0.01)
    ends = rng.uniform(-1, 1, (3, 4))
    check = check_path(encounters, [(ends, None)], 0)
    share = np.linspace(0, 1, 400)[:, None]
    fine = np.concatenate([a + share * (b - a) for a, b in pairwise(ends)])
    monkeypatch.undo()
    reference = find_encounters(robot, volumes, [], [], probes, 0.01)
    poses = reference.bodies.poses(fine)
    assert check.distances
    measured: dict[str, float] = {}
    for item in reference.checked:
        label = " - ".join(item.names)
        nearest = reference.bodies.distances(item.bodies, poses, parts=item.parts).min()
        measured[label] = min(nearest, measured.get(label, np.inf))
    for reported in check.distances:
        true = measured.pop(reported.label)
        assert reported.distance_m <= true
        assert reported.distance_m >= true - 0.01 or true < 0
    assert not measured


def tutorial_arm() -> str:
    text = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
    begin = text.index('write_text("""') + len('write_text("""')
    return text[begin : text.index('""")', begin)]


def samples(file: str) -> np.ndarray:
    lines = [line for line in Path(file).read_text().splitlines() if not line.startswith("#")]
    return np.loadtxt(lines, delimiter=",", skiprows=1)


def test_the_tutorial_arm_stays_above_the_floor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("arm.urdf").write_text(tutorial_arm())
    ended = mindyn_program("excite", "arm.urdf", "--seconds", 20, "--starts", 1, "--out", "motion", "--json")
    assert ended.code == 0, ended.err
    content = json.loads(ended.out)
    assert content["check"]["headline"].startswith("Checked 3 of 3 links against floor, each other")
    robot = mindyn.load_robot("arm.urdf")
    q = samples("motion/motion.csv")[:, 1:4]
    ends = [
        Capsule("forearm", end, end, 0.01) for end in (np.zeros(3), robot.links[2].phi[1:4] / robot.links[2].phi[0])
    ]
    assert heights_of(robot, ends, q).min() > 0.05
    names = {path.name for path in Path("motion").iterdir()}
    assert {"rehearsal.csv", "limits.toml"} <= names
    slow = samples("motion/rehearsal.csv")
    assert slow[-1, 0] > 20 * content["check"]["speed"] / 0.25 * 0.99
    again = mindyn_program("excite", "arm.urdf", "--seconds", 6, "--starts", 1, "--limits", "motion/limits.toml")
    assert again.code == 0, again.err


def test_a_moving_link_without_a_volume_ends_with_exit_code_3_and_no_file(tmp_path):
    file = tmp_path / "arm.urdf"
    text = (
        urdf()
        .replace('<link name="flange"></link>', "")
        .replace(urdf()[urdf().index('<joint name="mount"') : urdf().index("</robot>")], "")
    )
    begin = text.index('<link name="forearm">')
    file.write_text(text[:begin] + '<link name="forearm"/>' + text[text.index("</link>", begin) + len("</link>") :])
    limits = tmp_path / "limits.toml"
    limits.write_text("effort = inf\nnoise = 1.0\n")
    options = ("--seconds", 6, "--starts", 1, "--limits", limits, "--deadline-s", 1, "--out", tmp_path / "motion")
    ended = mindyn_program("excite", file, *options)
    assert ended.code == 3
    assert "--radius forearm=0.08" in ended.err
    assert not (tmp_path / "motion").exists()
    plan = mindyn_program("step-by-step", "plan", file, tmp_path / "plan")
    assert plan.code in (1, 3)
    assert not (tmp_path / "plan" / "plan.json").exists()


def test_walls_and_obstacles_that_cannot_be_avoided_are_errors():
    robot = mindyn.load_robot("ur10")
    with raises(mindyn.MindynError, Code.UNSAFE_MOTION, "gap of forearm_link - wrist_3_link"):
        design_motion(robot, floor=3.0, starts=1, deadline_s=0.0)


def test_planned_tests_and_the_ways_between_them_keep_clear_of_floor_and_crate(tmp_path):
    """Also of a home, and within the speeds of the limits file."""
    home, low, high = np.array([0.0, -1.57, 0.5, 0.0, 0.5, 0.0]), np.array([0.9, -0.3, 0.0]), np.array([1.2, 0.3, 0.5])
    crate = f"[[obstacles]]\nlower = {low.tolist()}\nupper = {high.tolist()}\n"
    limits = tmp_path / "cell.toml"
    limits.write_text(f"velocity = 0.8\nlower = -2.0\nupper = 2.0\nhome = {home.tolist()}\n{crate}")
    options = ("--limits", limits, "--tracking-error", 0.02)
    ended = mindyn_program("step-by-step", "plan", "ur10", tmp_path / "plan", *options)
    assert ended.code == 0, ended.err
    text = " ".join(ended.out.split())
    assert "Checked 6 of 6 links against floor, each other, 1 obstacle" in text
    assert "straight paths between the motions checked, also from and to home; warning: guessed volume" in text
    comments = [line for line in next((tmp_path / "plan").glob("*.csv")).read_text().splitlines() if line[0] == "#"]
    assert comments[0].startswith("# Checked 6 of 6 links")
    robot = mindyn.load_robot("ur10")
    origins = [Capsule(name, np.zeros(3), np.zeros(3), 0.01) for name in robot.link_names]
    plan = json.loads((tmp_path / "plan" / "plan.json").read_text())
    names = [motion["name"] for test in plan["tests"] for motion in test["motions"]]
    paths = [read_table(tmp_path / "plan" / f"{name}.motion.csv") for name in names]
    moved = [path[:, 1:7] for name, path in zip(names, paths, strict=True) if name.startswith("accelerated")]
    assert max(np.abs(np.diff(q, axis=0)).max() for q in moved) <= 0.8 * 0.005
    stops = [home[None], *(path[:, 1:7] for path in paths), home[None]]
    ways = [a[-1] + np.linspace(0, 1, 30)[:, None] * (b[0] - a[-1]) for a, b in pairwise(stops)]
    model = mindyn.compile_model(robot)
    for q in (*(path[:: max(1, len(path) // 50), 1:7] for path in paths), *ways):
        assert np.abs(q).max() <= 2.0
        assert heights_of(robot, origins, q).min() > 0
        places = np.stack([model.forward_kinematics(q, name)[:, :3, 3] for name in robot.link_names])
        assert not ((places > low) & (places < high)).all(axis=-1).any()
    limits.write_text(f"home = {[0.0, 1.2, 0.5, 0.0, 0.5, 0.0]}\n")
    below = mindyn_program("step-by-step", "plan", "ur10", tmp_path / "other", "--limits", limits)
    assert below.code == 3
    assert not (tmp_path / "other").exists()


def test_planned_tests_keep_the_tip_speed_and_report_guessed_limits(tmp_path):
    file = tmp_path / "arm.urdf"
    text = urdf(forearm=BOX.format(tag="collision", shape='<box size="0.05 0.05 0.3"/>'))
    file.write_text(text.replace(' velocity="2"', ""))
    robot = mindyn.load_robot(file)
    model = mindyn.compile_model(robot)
    fastest = []
    for speed in (0.3, 0.9):
        ended = mindyn_program("step-by-step", "plan", file, tmp_path / str(speed), "--tip-speed", speed, "-v")
        assert ended.code == 0, ended.err
        assert "warning: guessed limit" in " ".join(ended.out.split())
        assert "guessed velocity: waist = 3.0, shoulder = 3.0, elbow = 3.0" in " ".join(ended.err.split())
        rates = [0.0]
        for path in (tmp_path / str(speed)).glob("accelerated*.motion.csv"):
            table = read_table(path)
            tips = model.forward_kinematics(table[:, 1:4], "flange")[:, :3, 3]
            rates.append(np.linalg.norm(np.diff(tips, axis=0), axis=1).max() / np.diff(table[:, 0]).min())
        assert max(rates) <= speed
        fastest.append(max(rates))
    assert fastest[1] > 1.2 * fastest[0] > 0.2


def test_the_run_up_to_a_constant_speed_is_checked_too(monkeypatch):
    checked = []

    def check(result, paths, unknown):
        checked[:] = [np.concatenate([q[0], q[-1]]) for q, _ in paths]
        return check_path(result, paths, unknown)

    monkeypatch.setattr("mindyn.motions.step_plans.safe_tests.check_path", check)
    robot = with_limits(mindyn.load_robot("planar2"), {"lower": -2.0, "upper": 2.0, "velocity": 2.0})
    plan, _ = plan_safe_tests(robot, SafetySettings(self_collision=False, floor=None, tip_speed=5.0))
    motions = [motion.trajectory(100.0) for motion in plan.motions.values() if isinstance(motion, ConstantSpeed)]
    assert motions
    for _, q, qd, _ in motions:
        for way in ((q[0] - 0.1 * qd[0], q[0]), (q[-1], q[-1] + 0.1 * qd[-1])):
            assert np.linalg.norm(np.array(checked) - np.concatenate(way), axis=1).min() < 1e-9


def read_table(file: Path) -> np.ndarray:
    rows = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    return np.loadtxt(rows, delimiter=",", skiprows=1, ndmin=2)


def test_hulls_with_very_many_edges_in_one_corner_are_measured_from_below():
    """A cone of 600 edges: coal takes 255 of one corner."""
    robot = random_robot(0, joints=2)
    angle = np.linspace(0, 2 * np.pi, 600, endpoint=False)
    rim = np.stack([0.1 * np.cos(angle), 0.1 * np.sin(angle), np.zeros(600)], axis=1)
    names = robot.link_names
    cone = Solid(np.vstack([rim, [0.0, 0.0, 0.2]]))
    ball = Capsule(names[1], [0.05, 0, 0], [0.05, 0, 0], 0.02)
    volumes = [
        Volume(names[0], cover([cone], names[0])[0], (cone,), VolumeSource.COLLISION),
        Volume(names[1], (ball,), (ball.solid,), VolumeSource.COLLISION),
    ]
    bodies = Bodies(robot, volumes)
    pose = np.array([[[0.0, 0, 0], *np.eye(3)], [[0.4, 0.3, 0.3], *np.eye(3)]])
    slope = np.array([0.2, 0.1]) / np.hypot(0.2, 0.1)
    away = np.array([np.hypot(0.45, 0.3), 0.3])
    exact = slope @ (away - np.array([0.1, 0.0])) - 0.02
    assert exact - 3e-3 < bodies.distances((0, 1), pose[None])[0] <= exact + 1e-5


@pytest.mark.parametrize(
    "points",
    [
        [[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0]],
        [[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0.1, 0.1, 0]],
        [[0, 0, 0], [0.05, 0, 0], [0.1, 0, 0]],
        [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
    ],
    ids=["triangle", "plate", "rod", "point"],
)
def test_flat_solids_are_measured(points):
    """Their distance to a ball 0.3 m above the origin is known."""
    robot = random_robot(0, joints=2)
    names, flat = robot.link_names, Solid(np.array(points, dtype=float))
    ball = Capsule(names[1], [0, 0, 0], [0, 0, 0], 0.02)
    volumes = [
        Volume(names[0], cover([flat], names[0])[0], (flat,), VolumeSource.COLLISION),
        Volume(names[1], (ball,), (ball.solid,), VolumeSource.COLLISION),
    ]
    pose = np.array([[[0.0, 0, 0], *np.eye(3)], [[0, 0, 0.3], *np.eye(3)]])
    assert Bodies(robot, volumes).distances((0, 1), pose[None])[0] == pytest.approx(0.28, abs=1e-5)


def test_a_robot_of_many_limbs_finds_a_place_to_stand():
    """Each of its limbs is free of the next at one position in five, all of them together at one in a million."""
    problem = SimpleNamespace(start=None, labels=["limb"] * 9)
    limits = mindyn.MotionLimits(np.full(9, -1.0), np.full(9, 1.0), *np.full((4, 9), np.inf))
    values = lambda _, q: np.abs(q) / 0.2  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mindyn.motions.excitation.solving.static_values", values)
        places = places_to_stand(problem, limits, np.random.default_rng(0))
        assert (np.abs(places) <= 0.2).all()
        assert len(places) > 0
        patch.setattr("mindyn.motions.excitation.solving.static_values", lambda _, q: 2 + np.abs(q))
        with raises(UnsafeMotionError, Code.UNSAFE_MOTION, "limb"):
            places_to_stand(problem, limits, np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(4))
def test_every_pair_keeps_the_tracking_error_or_is_a_warning(seed):
    robot, rng = random_robot(seed, joints=5), np.random.default_rng(seed)
    volumes = volumes_of(robot, radius=dict.fromkeys(robot.link_names, 0.12)).volumes
    probes = rng.uniform(-1, 1, (300, 5))
    counts = []
    for error in (0.0, 0.02, 0.2):
        encounters = find_encounters(robot, volumes, [], [], probes, 0.05 + error, tracking_error_m=error)
        listed = " ".join(
            " ".join(finding.joints) for finding in encounters.findings if finding.kind is Kind.NARROW_PAIR
        )
        narrow = [item for item in encounters.checked if " - ".join(item.names) in listed]
        assert all((item.required_m >= error) != (item in narrow) for item in encounters.checked)
        counts.append(len(narrow))
    assert counts[0] == 0


def test_a_result_that_fails_its_check_is_searched_for_again(monkeypatch):
    robot = mindyn.load_robot("ur10")
    starts = []

    def fail(design, *others):
        starts.append(design.motion.start)
        if len(starts) < failures:
            raise UnsafeMotionError("two links touch")
        return check_design(design, *others)

    monkeypatch.setattr("mindyn.motions.excitation.design.check_design", fail)
    failures = 3
    design = design_motion(robot, **SHORT)
    assert design.check is not None
    assert len(starts) == 3
    assert not np.allclose(starts[0], starts[1])
    failures, starts = np.inf, []
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION, ""):
        design_motion(robot, **SHORT)


def test_a_motion_for_a_payload_has_a_volume_for_it(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text(urdf(forearm=BOX.format(tag="collision", shape='<box size="0.1 0.1 0.3"/>')))
    robot = mindyn.load_robot(file)
    payload = {**SHORT, "purpose": "payload"}
    plain, guessed = design_motion(robot, **SHORT), design_motion(robot, **payload)
    tool = [Capsule("forearm", [0, 0, 0.35], [0, 0, 0.4], 0.05)]
    described = design_motion(robot, **payload, tool=tool)
    stated = [Kind.GUESSED_PAYLOAD in {f.kind for f in item.findings} for item in (plain, guessed, described)]
    assert stated == [False, True, False]
    assert Kind.GUESSED_PAYLOAD in guessed.headline
    flange = np.array([[0.0, 0.0, 0.39], [0.0, 0.09, 0.3]])
    assert any(inside(capsule, flange).all() for capsule in guessed.capsules if capsule.link == "forearm")
    assert not any(inside(capsule, flange).all() for capsule in plain.capsules if capsule.link == "forearm")


@pytest.mark.parametrize("joints", [1, 2, 3])
def test_csv_files_state_what_was_checked_and_are_read_as_logs(joints, tmp_path):
    robot = random_robot(4, joints=joints, gravity=(0.0, -9.81, 0.0))
    limits = mindyn.MotionLimits.of(robot, lower=-1.0, upper=1.0, velocity=2.0, acceleration=9.0, effort=4000.0)
    design = design_motion(robot, **SHORT, limits=limits, floor=None, self_collision=False)
    written = design.write(tmp_path, rate_hz=50.0)
    assert tmp_path / "motion.csv" in written
    speeds = []
    for name, run in (("motion", design.run()), ("rehearsal", design.run(design.rehearsal_speed))):
        text = (tmp_path / f"{name}.csv").read_text()
        assert text.startswith("# NOT CHECKED: floor; self-collision; Checked")
        speeds.append(float(text.split("largest speed of any point: ")[1].split()[0]))
        table = TextTable(tmp_path / f"{name}.csv").texts(10_000).cast(polars.Float64)
        t = table["time"].to_numpy()
        q = table.select(f"{joint}.position" for joint in robot.joint_names).to_numpy()
        assert len(t) > 300
        assert_close(q, run.derivative(t, 0), SAME_ALGEBRA)
    assert speeds[1] <= 0.2505


def test_finer_covers_contain_the_same_solids_and_leave_the_inside_of_an_arch_free():
    along = np.linspace(0, np.pi, 60)
    cube = np.array(np.meshgrid(*[[-0.02, 0.02]] * 3)).reshape(3, 8).T
    arch = np.stack([np.cos(along), np.sin(along), np.zeros(60)], axis=1)
    solids = [Solid(cube + 0.8 * place) for place in arch]
    coarse = Volume("link", *cover(solids, "link"), VolumeSource.COLLISION)
    fine = coarse.refined(8)
    for volume in (coarse, fine):
        assert all(any(inside(cover, solid.points).all() for cover in volume.covers) for solid in solids)
    covered = [sum(inside(cover, 0.7 * arch) for cover in volume.covers).astype(bool) for volume in (coarse, fine)]
    assert covered[0].mean() > 2 * covered[1].mean()
    guess = Volume("link", coarse.covers, coarse.solids, VolumeSource.ELLIPSOID)
    assert guess.refined(8) is guess


def test_a_constant_distance_of_five_millimetres_is_the_smallest_that_is_reported(tmp_path):
    """A carriage on a carriage slides along a rail: its distance to the rail is 5 mm in every position."""
    shape = '<collision><origin xyz="0 {y} 0"/><geometry><box size="{size}"/></geometry></collision>'
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = [("rail", "9 0.1 0.1", 0), ("lower", "0.1 0.1 0.1", 0.5), ("upper", "0.1 0.1 0.1", 0.105)]
    text = "".join(
        f'<link name="{name}">{inertial}{shape.format(y=y, size=size)}</link>' for name, size, y in links
    ) + "".join(
        f'<joint name="{child}_slide" type="prismatic"><parent link="{parent}"/><child link="{child}"/>'
        '<axis xyz="1 0 0"/><limit lower="-1" upper="1" velocity="1" effort="10"/></joint>'
        for parent, child in (("rail", "lower"), ("lower", "upper"))
    )
    file = tmp_path / "carriages.urdf"
    file.write_text(f'<robot name="carriages">{text}</robot>')
    robot = mindyn.load_robot(file)
    probes = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    encounters = find_encounters(robot, volumes_of(robot).volumes, [], [], probes, 0.05)
    check = check_path(encounters, [(probes[:20], None)], 0)
    assert check.closest is not None
    assert {check.closest.first, check.closest.second} == {"rail", "upper"}
    assert 0.0045 < check.closest.distance_m <= 0.005


def test_thin_parts_do_not_touch_although_thick_guesses_of_the_same_links_overlap():
    """The overlap that is allowed to thick capsules must not let the joint lines of two links cross."""
    robot = mindyn.load_robot("panda")
    limits = mindyn.MotionLimits.of(robot)
    probes = limits.middle + limits.reach * np.random.default_rng(0).uniform(-1, 1, (2000, 7))
    volumes = volumes_of(robot).volumes
    encounters = find_encounters(robot, volumes, [], [], probes, 0.05)
    coarse = [item for item in encounters.checked if item.required_m < 0]
    assert coarse
    for entry in coarse:
        covers = [volumes[body].covers[part] for body, part in zip(entry.bodies, entry.parts, strict=True)]
        radii = [cover.radius for (cover,) in covers]
        assert entry.required_m > -sum(radii), "the axes of two guessed capsules never cross"


@pytest.mark.parametrize("lift", [0.0, 0.3, -0.3])
def test_guessed_volumes_leave_an_upright_shoulder_its_room(lift):
    """The meshes of a Panda are free at these positions. Its guessed shoulder reached two radii beyond joint 2."""
    robot = mindyn.load_robot("panda")
    q = np.array([0.0, lift, 0.0, -1.6, 0.0, 1.6, 0.0])
    limits = mindyn.MotionLimits.of(robot)
    _, encounters = what_to_check(robot, random_positions(limits, np.random.default_rng(0), PROBES), SafetySettings())
    (pair,) = (one for one in encounters.checked if one.names == ("link1", "link3"))
    assert gaps_of(encounters.bodies, pair, encounters.bodies.poses(q[None]))[0] > pair.needed_m


def test_a_guess_around_coincident_joints_reaches_one_radius_beyond_their_point(tmp_path):
    """The joints of the shoulder meet at its frame; its mass is 0.1 m below, in a box of 0.1 x 0.1 x 0.4 m."""
    inertia = "ixx='0.0283' iyy='0.0283' izz='0.0033' ixy='0' ixz='0' iyz='0'"
    link = "<link name='{}'><inertial><origin xyz='0 0 {}'/><mass value='2'/><inertia {}/></inertial></link>"
    joint = (
        "<joint name='{}' type='revolute'><parent link='{}'/><child link='{}'/><axis xyz='{}'/>"
        "<limit lower='-2' upper='2' velocity='1' effort='50'/></joint>"
    )
    links = "<link name='base'/>" + link.format("shoulder", -0.1, inertia) + link.format("arm", 0.2, inertia)
    joints = joint.format("j1", "base", "shoulder", "0 0 1") + joint.format("j2", "shoulder", "arm", "0 1 0")
    file = tmp_path / "arm.urdf"
    file.write_text(f"<robot name='arm'>{links}{joints}</robot>")
    (shoulder,) = (volume for volume in volumes_of(mindyn.load_robot(file)).volumes if volume.link == "shoulder")
    (capsule,) = shoulder.covers
    ends = np.sort([capsule.a[2], capsule.b[2]])
    assert_negligible(ends[1], 0.1, SAME_ALGEBRA)
    assert ends[0] - capsule.radius < -0.24  # two radii below the centre of mass
