"""Full models and their files: read by Pinocchio, MuJoCo and mindyn, they give the fitted torques."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from closeness import assert_close
from equations import equations
from estimators.recovered import exact_samples
from feasibility.arms_with_parts import URDF
from messages import messages
from raising import raises
from robots import random_robot, with_random_drives

import mindyn
from mindyn import (
    Friction,
    LeastSquares,
    PhysicallyConsistent,
    build_full_model,
    load_robot,
    write_mjcf,
    write_toml,
    write_urdf,
)
from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.errors import Code, ExportError, InputError
from mindyn.kernels.model import compile_model
from mindyn.regression.regressor import with_estimated_drives
from mindyn.robots.friction_laws import FITTED_SHAPES, stribeck
from mindyn.robots.parts import Drive, ExtraTorque, Link

FILE = 1e-9
"""Torques of an exported file against the fit's."""
IN_EQUATIONS = 1e-8
"""Torques of a full model whose link parameters were found again from base values."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("arm") / "bench_arm.urdf"
    path.write_text(URDF)
    return path


@pytest.fixture(scope="module")
def fitted(source):
    """A consistent fit of a heavier arm than the file describes, with friction, rotor inertia and offsets."""
    robot = with_estimated_drives(load_robot(source))
    truth = replace(
        robot.with_payload(0.8, np.array([0.1, 0.0, 0.05]), 0.002 * np.eye(3), at="fore"),
        drives=tuple(
            replace(drive, rotor_inertia=0.05, viscous=0.4, coulomb=0.3, offset=0.1) for drive in robot.drives
        ),
    )
    samples = exact_samples(truth, 400, noise=0.3)
    return PhysicallyConsistent(prior_weight=1e-3, kinds="all").fit(equations(robot, samples))


def motion(count, n=2):
    return np.random.default_rng(1).uniform(-1, 1, (3, count, n))


def rigid_torques(model, q, qd, qdd):
    return compile_model(model).inverse_dynamics(q, qd, qdd)


def test_the_full_model_has_the_torques_of_the_estimate(fitted):
    q, qd, qdd = motion(20)
    model = build_full_model(fitted)
    expected = compile_model(fitted.robot, with_drives=True).regressor(q, qd, qdd) @ fitted.base_values
    assert_close(compile_model(model, with_drives=True).inverse_dynamics(q, qd, qdd), expected, 1e-12)
    assert all(verdict.status == "consistent" for verdict in model.consistency().values())


def test_pinocchio_and_mindyn_read_an_edited_urdf(fitted, source, tmp_path):
    write_urdf(fitted, tmp_path / "out.urdf", source=source)
    q, qd, qdd = motion(20)
    expected = rigid_torques(build_full_model(fitted), q, qd, qdd)
    model = pin.buildModelFromUrdf(str(tmp_path / "out.urdf"))
    data = model.createData()
    assert_close(np.array([pin.rnea(model, data, *row) for row in zip(q, qd, qdd, strict=True)]), expected, FILE)
    again = load_robot(tmp_path / "out.urdf")
    assert_close(rigid_torques(again, q, qd, qdd), expected, FILE)
    drives, values = again.drives, dict(zip(fitted.names, fitted.beta, strict=True))
    assert [d.viscous for d in drives] == pytest.approx([values["fv1"], values["fv2"]])
    assert [d.coulomb for d in drives] == pytest.approx([values["fc1"], values["fc2"]])


def test_an_edited_urdf_keeps_all_else(fitted, source, tmp_path):
    write_urdf(fitted, tmp_path / "out.urdf", source=source)
    text = (tmp_path / "out.urdf").read_text()
    assert "drawn in the workshop" in text
    assert "Omitted" in text  # offsets and rotor inertia are not part of URDF
    before, after = ElementTree.fromstring(URDF), ElementTree.fromstring(text)
    for root in (before, after):
        for element in root.findall("link"):
            for inertial in element.findall("inertial"):
                element.remove(inertial)
        for element in root.findall("joint"):
            for dynamics in element.findall("dynamics"):
                element.remove(dynamics)
    flat = [[(e.tag, e.attrib) for e in root.iter()] for root in (before, after)]
    assert flat[0] == flat[1]


def test_parts_on_fixed_joints_are_counted_once_and_the_pedestal_stays(fitted, source, tmp_path):
    write_urdf(fitted, tmp_path / "out.urdf", source=source)
    root = ElementTree.fromstring((tmp_path / "out.urdf").read_text())
    masses = {
        link.get("name"): float(link.find("inertial/mass").get("value"))
        for link in root.findall("link")
        if link.find("inertial") is not None
    }
    assert set(masses) == {"pedestal", "upper", "fore"}
    assert masses["pedestal"] == 9.0
    assert masses["fore"] == pytest.approx(build_full_model(fitted).links[1].phi[0])


def test_mujoco_reads_the_mjcf(fitted, tmp_path):
    write_mjcf(fitted, tmp_path / "out.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    values = dict(zip(fitted.values.physical.labels, fitted.values.physical.values, strict=True))
    np.testing.assert_allclose(model.dof_armature, [values["Im1"], values["Im2"]], rtol=1e-12)
    np.testing.assert_allclose(model.dof_frictionloss, [values["fc1"], values["fc2"]], rtol=1e-12)
    again = load_robot(tmp_path / "out.xml")
    model.dof_armature[:] = model.dof_damping[:] = model.dof_frictionloss[:] = 0
    data, q, qd, qdd = mujoco.MjData(model), *motion(10)
    result = []
    for row in zip(q, qd, qdd, strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = row
        mujoco.mj_inverse(model, data)
        result.append(data.qfrc_inverse.copy())
    expected = rigid_torques(build_full_model(fitted), q, qd, qdd)
    assert_close(np.array(result), expected, FILE)
    assert_close(rigid_torques(again, q, qd, qdd), expected, FILE)


def test_a_fit_of_least_mass_is_read_by_mujoco(source, tmp_path):
    robot = with_estimated_drives(load_robot(source))
    light = PhysicallyConsistent(prior=None, kinds="all").fit(equations(robot, exact_samples(robot, 100, noise=3.0)))
    write_mjcf(light, tmp_path / "light.xml")
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "light.xml")).nv == 2


def test_toml_keeps_everything(fitted, tmp_path):
    write_toml(fitted, tmp_path / "out.toml")
    assert load_robot(tmp_path / "out.toml", snap=False) == replace(build_full_model(fitted), source="", findings=())


def test_an_inconsistent_estimate_raises_unless_forced(source, tmp_path):
    robot = with_estimated_drives(load_robot(source))
    bad = LeastSquares().fit(equations(robot, exact_samples(robot, 60, noise=20.0)))
    bad = bad.with_values(beta=np.where(np.array(bad.names) == "Izz2", -1.0, bad.beta))
    for write, name in ((write_urdf, "x.urdf"), (write_mjcf, "x.xml"), (write_toml, "x.toml")):
        with raises(ExportError, Code.NOT_FEASIBLE, "bench_arm"):
            write(bad, tmp_path / name)
        assert not (tmp_path / name).exists()
    write_urdf(bad, tmp_path / "forced.urdf", source=source, force=True)
    write_toml(bad, tmp_path / "forced.toml", force=True)
    q, qd, qdd = motion(10)
    forced = build_full_model(bad, force=True)
    assert any("forced" in str(note) for note in messages(forced))
    links = len([name for name in bad.base.names if name.startswith(("I", "mc")) and not name.startswith("Im")])
    assert links
    assert_close(
        rigid_torques(load_robot(tmp_path / "forced.urdf"), q, qd, qdd), rigid_torques(forced, q, qd, qdd), FILE
    )


def test_a_source_of_another_robot_raises(fitted, tmp_path):
    other = tmp_path / "other.urdf"
    other.write_text(URDF.replace('xyz="0.35 0.05 0"', 'xyz="0.30 0.05 0"'))
    with raises(ExportError, Code.DISAGREEMENT, "elbow"):
        write_urdf(fitted, tmp_path / "x.urdf", source=other)
    other.write_text(URDF.replace('"elbow"', '"cubit"'))
    with raises(ExportError, Code.DISAGREEMENT, str(other)):
        write_urdf(fitted, tmp_path / "x.urdf", source=other)
    other.write_text(URDF.replace('"fore"', '"lower"'))
    with raises(ExportError, Code.DISAGREEMENT, str(other)):
        write_urdf(fitted, tmp_path / "x.urdf", source=other)
    assert not (tmp_path / "x.urdf").exists()


@pytest.mark.parametrize("seed", range(4))
def test_link_parameters_come_back_from_base_values_nearest_to_a_prior(seed):
    robot = with_random_drives(random_robot(20 + seed, joints=3, tree=False), seed)
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot)))  # exact: the robot's own values
    q, qd, qdd = motion(10, 3)
    expected = compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    near, light = build_full_model(estimate), build_full_model(estimate, prior=None)
    for model in (near, light):
        assert_close(compile_model(model, with_drives=True).inverse_dynamics(q, qd, qdd), expected, IN_EQUATIONS)
        assert all(verdict.is_feasible for verdict in model.consistency().values())
    assert_close(near.phi, robot.phi, 1e-4)
    assert light.phi[::10].sum() < robot.phi[::10].sum()


def test_friction_shapes_become_extra_torques(source):
    robot = with_estimated_drives(load_robot(source))
    robot = replace(robot, drives=tuple(replace(d, viscous=0.3, coulomb=0.1) for d in robot.drives))
    friction = Friction("sign", 0.0, ("stribeck", "asymmetric"))
    samples = exact_samples(robot, 400, noise=0.2)
    estimate = PhysicallyConsistent(prior_weight=1e-3, kinds="all").fit(equations(robot, samples, friction=friction))
    model = build_full_model(estimate)
    assert_close(
        compile_model(model, with_drives=True).inverse_dynamics(samples.q, samples.qd, samples.qdd),
        estimate.predict(samples),
        1e-10,
    )


@pytest.mark.parametrize("coupled", [False, True])
def test_code_of_fitted_friction_gives_the_torques_of_the_fit(source, coupled):
    """Smooth Coulomb friction, all shapes and joint-side friction, also of a motor that both joints turn."""
    elbow = Drive("elbow", -40.0, {"shoulder": 13.0} if coupled else {}, side="motor", coulomb=0.03, viscous=0.01)
    robot = replace(load_robot(source), drives=(Drive("shoulder", 50.0, side="motor", coulomb=0.05), elbow))
    friction = Friction("tanh", 0.07, FITTED_SHAPES, ("elbow",))
    samples = exact_samples(robot, 600, noise=0.5)
    estimate = PhysicallyConsistent(prior_weight=1e-3, kinds="all").fit(equations(robot, samples, friction=friction))
    assert np.count_nonzero(np.abs(estimate.beta[estimate.base.count :]) > 1e-6) >= 4
    fitted = compile_model(build_full_model(estimate, friction_at_zero="fitted"), with_drives=True)
    plain = compile_model(build_full_model(estimate), with_drives=True)
    for item in (samples, replace(samples, qd=0.03 * samples.qd)):
        expected = estimate.predict(item)
        assert_close(fitted.inverse_dynamics(item.q, item.qd, item.qdd), expected, 1e-9)
    assert np.abs(plain.inverse_dynamics(item.q, item.qd, item.qdd) - expected).max() > 0.1


def test_links_of_which_nothing_is_known_become_balls_between_their_joints():
    """Not points of no mass with the inertia of a wheel: the radius of gyration stays within the arm's reach."""
    robot = load_robot("puma560")
    bare = with_estimated_drives(replace(robot, links=tuple(replace(link, phi=None) for link in robot.links)))
    estimate = PhysicallyConsistent(prior=None, kinds="all").fit(
        equations(bare, exact_samples(with_estimated_drives(robot), 600))
    )
    full, least = build_full_model(estimate), build_full_model(estimate, prior=None)
    for name, link in zip(full.link_names, full.links, strict=True):
        mass, com, J = mass_com_inertia(link.phi)
        assert mass > 0.05, name
        assert np.linalg.norm(com) < 0.5, name
        assert np.sqrt(np.trace(J) / 2 / mass) < 1.0, name
    assert least.phi[::10].sum() < full.phi[::10].sum()
    assert min(link.phi[0] for link in least.links) < 1e-2
    q, qd, qdd = motion(20, 6)
    result, other = (compile_model(model, with_drives=True).inverse_dynamics(q, qd, qdd) for model in (full, least))
    assert_close(result, other, IN_EQUATIONS)


@pytest.mark.parametrize("seed", [100, 102, 103, 110])
def test_unknown_links_of_exact_values_are_not_heavy(seed):
    """Values inside of what is physical have witnesses of any mass: the lightest is where balls begin."""
    robot = random_robot(seed, joints=3)
    bare = replace(robot, links=tuple(Link(link.name) for link in robot.links))
    full = build_full_model(LeastSquares().fit(equations(bare, exact_samples(robot, 400))))
    assert full.phi[::10].sum() < 3 * robot.phi[::10].sum()
    q, qd, qdd = motion(10, 3)
    assert_close(rigid_torques(full, q, qd, qdd), rigid_torques(robot, q, qd, qdd), IN_EQUATIONS)


def test_links_at_the_edge_are_named(source):
    robot = load_robot(source)
    thin = tuple(replace(link, phi=np.array([1.0, 0.1, 0, 0, 0, 0, 0.01, 0, 0, 0.01])) for link in robot.links)
    estimate = LeastSquares().fit(equations(replace(robot, links=thin), exact_samples(replace(robot, links=thin), 300)))
    assert any(
        "links on the boundary of the physical set" in str(note)
        for note in build_full_model(mindyn.make_feasible(estimate)).findings
    )


def test_names_of_extra_torques_that_the_robot_has_are_left_to_it(source):
    robot = with_estimated_drives(load_robot(source))
    robot = replace(robot, extras=(stribeck("elbow", 0.2, 0.3),))
    friction = Friction("sign", 0.0, ("stribeck",))
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 400, noise=1e-4), friction=friction))
    model = build_full_model(estimate, force=True)
    assert [extra.name for extra in model.extras] == ["stribeck_elbow", "stribeck_shoulder", "stribeck_elbow_2"]
    assert model.extras[0].coefficient == pytest.approx(estimate.value("stribeck_elbow"))


def test_extra_torques_of_a_robot_stay_when_they_were_not_estimated(source):
    robot = replace(load_robot(source), drives=(), extras=(ExtraTorque("spring", "elbow", "q", 3.0),))
    friction = Friction(joint_side=("shoulder",))
    estimate = LeastSquares().fit(
        equations(robot, exact_samples(robot, 400), friction=friction, base=base_parameters(robot))
    )
    assert build_full_model(estimate, force=True).extras[0] == robot.extras[0]


def test_friction_that_does_not_follow_the_sign_is_named(fitted, tmp_path):
    soft = replace(fitted, regressor=fitted.regressor.with_friction(Friction("tanh", 0.05)))
    result = "changes sign abruptly; in the fit the transition takes 0.05 rad/s of speed"
    assert any(result in str(note) for note in build_full_model(soft).findings)
    write_mjcf(soft, tmp_path / "soft.xml")
    assert result in (tmp_path / "soft.xml").read_text()


def test_gravity_that_urdf_does_not_support_is_named(fitted, tmp_path):
    write_urdf(fitted, tmp_path / "usual.urdf")
    assert "gravity" not in (tmp_path / "usual.urdf").read_text()
    wall = replace(fitted.robot, gravity=np.array([9.81, 0.0, 0.0]))
    estimate = LeastSquares().fit(equations(wall, exact_samples(wall, 400)))
    write_urdf(estimate, tmp_path / "wall.urdf", force=True)
    assert "gravity 9.81 0 0 m/s^2" in (tmp_path / "wall.urdf").read_text()


def test_a_loop_is_written_if_the_format_has_loops_and_else_its_tree_with_a_note(tmp_path):
    robot = with_estimated_drives(load_robot("parallelogram_planar"))
    estimate = PhysicallyConsistent(prior_weight=1e-3, kinds="all").fit(
        equations(robot, exact_samples(robot, 200, noise=0.05))
    )
    assert "loop 'parallelogram'" in write_urdf(estimate, tmp_path / "x.urdf").read_text()
    with raises(ExportError, Code.UNSUPPORTED, "parallelogram_planar"):
        write_urdf(robot, tmp_path / "robot.urdf")
    assert not (tmp_path / "robot.urdf").exists()
    write_mjcf(estimate, tmp_path / "x.xml")  # which can say that a loop is closed
    assert "<connect" in (tmp_path / "x.xml").read_text()
    write_toml(estimate, tmp_path / "x.toml")
    q, qd, qdd = motion(10)
    expected = compile_model(robot, with_drives=True, base=estimate.base).regressor(q, qd, qdd) @ estimate.base_values
    again = compile_model(load_robot(tmp_path / "x.toml"), with_drives=True)
    assert_close(again.inverse_dynamics(q, qd, qdd), expected, FILE)


def test_a_prior_with_other_joints_raises(fitted):
    with raises(InputError, Code.DISAGREEMENT, "planar2"):
        build_full_model(fitted, prior=mindyn.load_robot("planar2"))
