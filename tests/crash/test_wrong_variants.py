"""The tests are worth what they catch: each of these mistakes (base/wrong.h) must be noticed."""

import os
import shutil
import subprocess

import pytest

from crash_apart import LaunchRun
from crash_run import CrashRun, Wrong
from test_storage import run_out_of_room, small_disk  # noqa: F401  (a fixture)

BINARY, UNIT_TEST = os.environ["STARLING_WRONG_BINARY"], os.environ["STARLING_WRONG_TEST"]


def kill_some(binary, tmp_path, wrong):
    run = CrashRun(binary, tmp_path, 11, every=4, env={"STARLING_WRONG": wrong})
    run.kill_at("checkpoint:after_prune", 6)
    run.kill_at("file_set:after_manifest", 3)
    run.kill_at("pipeline:step", 40)
    assert not run.train()
    run.settle(False)


@pytest.mark.parametrize("wrong", ["position_early", "position_late", "rows_later_than_position", "aside_lost", "since_too_late",
                                   "base_removed", "slots_later"])
def test_the_crash_harness_notices(wrong, tmp_path):
    with pytest.raises(Wrong) as noticed:
        kill_some(BINARY, tmp_path, wrong)
    assert "never reached" not in str(noticed.value)
    print(wrong, noticed.value)


def test_the_same_kills_without_a_mistake_pass(tmp_path):
    kill_some(BINARY, tmp_path, "")


def lose_replies(tmp_path, wrong):
    """Every other reply to a push is lost, so that pushes come twice, over kills and a resume."""
    run = LaunchRun(BINARY, tmp_path, 11, every=20, env={"STARLING_WRONG": wrong})
    run.kill_at("ps:push_repeated", 50)
    run.kill_at("ps:push_applied", 70)
    assert not run.train()
    run.settle(False)


def test_a_push_that_comes_twice_counts_once(tmp_path):
    lose_replies(tmp_path, "push_reply_lost")


def test_the_crash_harness_notices_lost_dedup(tmp_path):
    with pytest.raises(Wrong) as noticed:
        lose_replies(tmp_path, "push_reply_lost,dedup_lost")
    assert "never reached" not in str(noticed.value)


def test_the_crash_harness_notices_a_checkpoint_of_a_failed_step(small_disk, tmp_path):  # noqa: F811
    # About every other run the step fails before it has counted an id: then there is nothing to notice.
    with pytest.raises(Wrong, match="table (user|item), step"):
        for attempt in range(20):
            run_out_of_room(BINARY, small_disk, tmp_path / str(attempt), {"STARLING_WRONG": "failed_step_saved"})
            shutil.rmtree(small_disk / "run")


@pytest.mark.parametrize("wrong", ["no_sync", "no_dir_sync", "tombstone_lost", "since_too_late", "base_removed", "not_at_rest"])
def test_the_unit_tests_notice(wrong):
    def code(variant):
        return subprocess.run([UNIT_TEST, "--gtest_brief=1"], env=dict(os.environ, STARLING_WRONG=variant), capture_output=True,
                              check=False).returncode
    assert code(wrong) == 1 and code("") == 0
