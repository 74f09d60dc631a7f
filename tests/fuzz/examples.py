"""How many cases the tests of this folder make up, and from which seed: FUZZ_EXAMPLES (2000) and FUZZ_SEED (0)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES, SEED = int(os.environ.get("FUZZ_EXAMPLES", "2000")), int(os.environ.get("FUZZ_SEED", "0"))
# How often a made-up content is repeated: long files show what takes too long, and most cases are short ones.
REPEATS = st.sampled_from((1,) * 12 + (2, 3, 30, 300))
# Without the database a run depends on its seed alone. A folder of a test may be used again: each case writes its file.
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
