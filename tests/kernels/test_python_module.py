"""The Python module over exported C: it runs where NumPy alone is installed, and returns what the kernels return."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

import mindyn

FUNCTIONS = ["inverse_dynamics", "inertia_matrix", "gravity", ("forward_kinematics", "link6")]
PROGRAM = """
import json, sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
import arm
q, qd, qdd = np.array(json.loads(sys.argv[3]))
results = {
    "tau": arm.inverse_dynamics(q, qd, list(qdd)),
    "M": arm.inertia_matrix(q[:]),
    "G": arm.gravity(q),
    "X": arm.forward_kinematics_link6(q),
}
try:
    arm.gravity(q[:5])
except ValueError as error:
    results["rejected"] = np.array(str(error).count("(6,)"))
others = {name.partition(".")[0] for name in sys.modules} & {"mindyn", "scipy", "casadi", "llvmlite", "polars"}
print(json.dumps({"joints": arm.JOINT_COUNT, "others": sorted(others)} | {k: v.tolist() for k, v in results.items()}))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_module_needs_only_numpy_and_equals_the_kernels(tmp_path):
    model = mindyn.compile_model(mindyn.load_robot("puma560"))
    files = model.write_c(tmp_path / "arm.py", FUNCTIONS, facts=[("ESTIMATE_DATE", 'a "day"\\')])
    assert [path.name for path in files] == ["arm.c", "arm.h", "arm.py"]
    q, qd, qdd = np.random.default_rng(0).uniform(-2, 2, (3, 6))
    packages, alone = Path(np.__file__).parents[1], tmp_path / "alone"
    alone.mkdir()
    for name in ("numpy", "numpy.libs"):
        if (packages / name).is_dir():
            (alone / name).symlink_to(packages / name)
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        PROGRAM,
        alone,
        tmp_path,
        json.dumps([q.tolist(), qd.tolist(), qdd.tolist()]),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert (content["joints"], content["others"], content["rejected"]) == (6, [], 1)
    assert_close(np.array(content["tau"]), model.inverse_dynamics(q, qd, qdd), SAME_ALGEBRA)
    assert_close(np.array(content["M"]), model.inertia_matrix(q), SAME_ALGEBRA)
    assert_close(np.array(content["G"]), model.gravity(q), SAME_ALGEBRA)
    assert_close(np.array(content["X"]), model.forward_kinematics(q, "link6"), SAME_ALGEBRA)
    (tmp_path / "arm.c").unlink()
    environment = os.environ | {"CC": "missing"}
    again = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert json.loads(again.stdout or "{}") == content, again.stderr  # the compiled file is enough
