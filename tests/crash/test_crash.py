"""Kill it anywhere: no sample is lost and none counts twice."""

import os
import random

import pytest

from crash_apart import LaunchRun, OnlineRun, TwoWorkersRun
from crash_run import CrashRun


@pytest.mark.parametrize("kind, more", [(CrashRun, 8), (LaunchRun, 8), (TwoWorkersRun, 8), (OnlineRun, 4)],
                         ids=["one process", "servers apart", "two workers", "online"])
def test_every_row_equals_the_count_after_kills_at_every_point(kind, more, tmp_path):
    seed = int(os.environ.get("STARLING_SEED", random.randrange(1 << 30)))
    print("seed", seed)
    run = kind(os.environ["STARLING"], tmp_path, seed, say=print)
    kills = len(run.points) + more
    run.go(kills)
    assert run.kills >= kills and run.finished >= 1 and run.rows_checked > 50_000


def test_there_are_as_many_points_as_promised():
    assert len(set(CrashRun.points)) >= 25
