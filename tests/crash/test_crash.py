"""Kill it anywhere: no sample is lost and none counts twice."""

import os
import random

from crash_run import POINTS, CrashRun


def test_every_row_equals_the_count_after_kills_at_every_point(tmp_path):
    seed = int(os.environ.get("STARLING_SEED", random.randrange(1 << 30)))
    print("seed", seed)
    assert len(POINTS) >= 25
    run = CrashRun(os.environ["STARLING"], tmp_path, seed, say=print)
    run.go(kills=len(POINTS) + 8)
    assert run.kills >= len(POINTS) + 8 and run.finished >= 1 and run.rows_checked > 100_000
