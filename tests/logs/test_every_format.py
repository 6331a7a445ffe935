"""A recording gives the same bits from every format, and the same estimate from every layout of its arrays."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from logs.every_format import FORMATS, planar_motion, write_recording
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.formats.formats import LOG_FORMATS

ROBOT = mindyn.load_robot("planar2")
RECORDING = planar_motion(700)
SIGNALS = ("time", "q", "qd", "tau")
FITTED = mindyn.EquationSettings(
    mindyn.Conditioning(motion_hz=20.0, stamps="uniform", rate_hz=128.0), equations_hz=15.0
)


def assert_native(array):
    assert array.dtype.str == np.dtype(np.float64).str
    assert array.flags.c_contiguous
    assert array.flags.aligned
    assert not array.flags.writeable


def assert_same_bits(log):
    expected = (RECORDING.time, *(RECORDING.signals[name] for name in ("position", "velocity", "torque")))
    for name, values in zip(SIGNALS, expected, strict=True):
        assert_native(getattr(log, name))
        assert getattr(log, name).tobytes() == np.ascontiguousarray(values).tobytes(), name


def test_every_suffix_is_written_here():
    ours = {suffix for suffix, opener in LOG_FORMATS.items() if opener.__module__.startswith("mindyn.")}
    assert {suffix for suffix, _, _ in FORMATS.values()} >= ours


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_bits(tmp_path, form):
    path = write_recording(tmp_path, form, RECORDING)
    assert_same_bits(mindyn.read_log(path, ROBOT))
    chunks = [chunk.q for chunk in mindyn.scan_log(path, ROBOT, chunk_rows=256)]
    assert np.concatenate(chunks).tobytes() == RECORDING.signals["position"].tobytes()


SLOW = pytest.mark.slow
CHOSEN = ["npz by columns", *(pytest.param(form, marks=SLOW) for form in ("hdf5 transposed", "mat 5", "mcap"))]


@pytest.mark.parametrize("form", CHOSEN)
def test_settings_are_chosen_and_fitted_alike(tmp_path, form, chosen):
    estimate = mindyn.identify(ROBOT, mindyn.read_log(write_recording(tmp_path, form, RECORDING), ROBOT))
    assert estimate.settings == chosen.settings
    assert_close(estimate.beta, chosen.beta, SAME_ALGEBRA)
    assert_close(estimate.covariance[estimate.covariance < np.inf], chosen.covariance[chosen.covariance < np.inf], 1e-9)


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    path = write_recording(tmp_path_factory.mktemp("chosen"), "csv", RECORDING)
    return mindyn.identify(ROBOT, mindyn.read_log(path, ROBOT))


def strided(a):
    return np.repeat(np.repeat(a, 2, axis=0), 3, axis=-1)[::2, ..., ::3] if a.ndim > 1 else np.repeat(a, 2)[::2]


def unaligned(a):
    return np.frombuffer(b"x" + a.tobytes(), dtype=a.dtype, offset=1).reshape(a.shape)


def read_only(a):
    created = a.copy()
    created.setflags(write=False)
    return created


def of_records(a):
    """Fields of packed records: strided and unaligned."""
    values = np.zeros(a.shape, dtype=[("mark", "i1"), ("value", a.dtype)])
    values["value"] = a
    return values["value"]


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": strided,
    "reversed rows": lambda a: a[::-1].copy()[::-1],
    "reversed": lambda a: np.flip(np.flip(a).copy()),
    "read-only": read_only,
    "big-endian": lambda a: a.astype(">f8"),
    "big-endian Fortran": lambda a: np.asfortranarray(a.astype(">f8")),
    "unaligned": unaligned,
    "records": of_records,
    "long double": lambda a: a.astype(np.longdouble),
    "subclass": lambda a: a.view(np.recarray),
    "list": lambda a: a.tolist(),
}


def in_layout(layout, arrays):
    return [LAYOUTS[layout](a) for a in arrays]


def arrays_of(recording):
    signals = recording.signals
    return [recording.time, signals["position"], signals["torque"], signals["velocity"]]


def outcome(arrays):
    """Numbers of everything that a log of these arrays goes through."""
    log = mindyn.log_from_arrays(ROBOT.joint_names, *arrays)
    for name in SIGNALS:
        assert_native(getattr(log, name))
    samples = mindyn.condition(ROBOT, log, FITTED.conditioning).samples
    # Samples of the same arrays, without a log and its conditioning.
    given = [arrays[1], arrays[3], arrays[1], arrays[2]]
    plain = mindyn.Samples(ROBOT.joint_names, *given, 128.0, np.zeros(len(given[0]), dtype=np.int64))
    numbers = [samples.q, samples.qd, samples.qdd, samples.tau, plain.q, plain.tau]
    result = mindyn.LeastSquares().fit(mindyn.build_rows(ROBOT, log, FITTED))
    others = [mindyn.LeastSquares(), mindyn.PhysicallyConsistent()]
    for estimate in (result, *(estimator.fit(mindyn.build_rows(ROBOT, plain)) for estimator in others)):
        numbers += [estimate.beta, estimate.covariance]
    numbers += [result.predict(samples), result.predict_log(log), result.predict(arrays[1], arrays[3], arrays[1])]
    numbers += [mindyn.validate(result, log).error.rmse, mindyn.identify_payload(result, log).phi]
    return numbers


@pytest.fixture(scope="module")
def expected():
    return outcome(arrays_of(RECORDING))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_bits(layout, expected):
    for number, reference in zip(outcome(in_layout(layout, arrays_of(RECORDING))), expected, strict=True):
        assert number.tobytes() == reference.tobytes()


@pytest.mark.parametrize("layout", ["Fortran", *(pytest.param(item, marks=SLOW) for item in ("strided", "big-endian"))])
def test_settings_are_chosen_alike_for_every_layout(layout, chosen):
    log = mindyn.log_from_arrays(ROBOT.joint_names, *in_layout(layout, arrays_of(RECORDING)))
    estimate = mindyn.identify(ROBOT, log)
    assert estimate.settings == chosen.settings
    assert estimate.beta.tobytes() == chosen.beta.tobytes()


def test_float32_equals_its_copy_in_float64():
    single = [a.astype(np.float32) for a in arrays_of(RECORDING)]
    for a, b in zip(outcome(single), outcome([a.astype(np.float64) for a in single]), strict=True):
        assert a.tobytes() == b.tobytes()


FUNCTIONS = {
    **{"inertia_matrix": 1, "gravity": 1, "bias": 2, "coriolis": 2, "energy": 2, "energy_regressor": 2},
    **{"inverse_dynamics": 3, "forward_dynamics": 3, "regressor": 3, "standard_regressor": 3},
}
"""Functions of a model that take q, or q and more of the motion."""


@pytest.fixture(scope="module")
def model():
    return mindyn.compile_model(mindyn.load_robot("puma560"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(6,), (1, 6), (37, 6), (3, 5, 6)])
def test_models_compute_the_same_bits_from_every_layout(layout, shape, model):
    motion = [np.random.default_rng(k).normal(size=shape) for k in range(3)]
    for name, count in FUNCTIONS.items():
        function = getattr(model, name)
        expected, result = function(*motion[:count]), function(*in_layout(layout, motion[:count]))
        assert np.asarray(result).tobytes() == np.asarray(expected).tobytes(), name


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rollouts_compute_the_same_bits_from_every_layout(layout):
    q0, qd0 = np.random.default_rng(0).normal(size=(2, 5, 2))
    tau = np.random.default_rng(1).normal(size=(20, 2))
    expected = mindyn.roll_out(ROBOT, q0, qd0, tau, dt=1e-3, steps=20)
    result = mindyn.roll_out(ROBOT, *in_layout(layout, [q0, qd0, tau]), dt=1e-3, steps=20)
    for name in ("q", "qd", "tau"):
        assert getattr(result, name).tobytes() == getattr(expected, name).tobytes()


@pytest.mark.parametrize(
    "wrong", [np.ones((700, 2), dtype=complex), np.full((700, 2), "a"), np.ma.masked_invalid(np.ones((700, 2)))]
)
def test_arrays_of_other_types_than_real_numbers_are_rejected(wrong):
    signals = RECORDING.signals
    with raises(InputError, code=Code.WRONG_TYPE):
        mindyn.Log(ROBOT.joint_names, RECORDING.time, wrong, signals["torque"], np.arange(700))
    with raises(InputError, code=Code.WRONG_TYPE):
        mindyn.Samples(ROBOT.joint_names, *[signals["position"]] * 3, wrong, 128.0, np.zeros(700, dtype=np.int64))
