"""One BLAS thread: tests run in several processes, and threads of small products only wait for each other.

No terminal: whoever runs the tests may have stated the columns of one.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop("COLUMNS", None)
