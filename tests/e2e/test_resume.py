"""Promise 1, thin: a kill at any instant, then --resume, gives the model of no kill."""

import os
import random
import signal

import pyarrow.parquet as pq
import pytest

import harness
from harness import run, run_json, write_config

DETERMINISTIC = ("--set", "train.threads=1", "--set", "train.checkpoint.every=0s", "--set", "train.checkpoint.every_steps=20",
                 "--set", "train.epochs=2")


def bundle_bytes(config, out):
    run("export", "--config", config, "--out", out, *DETERMINISTIC)
    return {p.name: p.read_bytes() for p in sorted(out.iterdir()) if p.name != "MANIFEST"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    tmp = tmp_path_factory.mktemp("calm")
    config = write_config(tmp / "job.yaml", data, tmp / "run")
    result = run_json("train", "--config", config, *DETERMINISTIC)
    return result, bundle_bytes(config, tmp / "bundle")


def kill_and_resume(config, env_list, limit=40):
    """Runs until done, killed once for each environment; returns the kills that happened."""
    kills = 0
    for env in env_list + [{}] * limit:
        process = harness.start("train", "--config", config, "--resume", *DETERMINISTIC, env=env)
        code = process.wait(timeout=300)
        if code == 0:
            return kills
        assert code == -signal.SIGKILL
        kills += 1
    raise AssertionError("never finished")


@pytest.mark.parametrize("point", ["checkpoint:before_parts", "checkpoint:after_parts", "file_set:before_manifest",
                                   "file_set:after_manifest", "checkpoint:after_prune"])
def test_killed_at_a_sync_point_and_resumed_is_bit_identical(point, undisturbed, tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    assert kill_and_resume(config, [{"STARLING_KILL_AT": f"{point}:3"}, {"STARLING_KILL_AT": f"{point}:2"}]) == 2
    assert bundle_bytes(config, tmp_path / "bundle") == undisturbed[1]


def test_killed_at_random_instants_and_resumed_is_bit_identical(undisturbed, tmp_path, data):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    for _ in range(4):
        process = harness.start("train", "--config", config, "--resume", *DETERMINISTIC)
        try:
            process.wait(timeout=rng.uniform(0.3, 1.5))
        except Exception:  # noqa: BLE001  (still running: kill it)
            process.kill()
            process.wait()
    kill_and_resume(config, [])
    assert bundle_bytes(config, tmp_path / "bundle") == undisturbed[1], f"seed {seed}"


def test_ctrl_c_saves_and_says_how_to_go_on(undisturbed, tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    log = tmp_path / "log"
    process = harness.start("train", "--config", config, "--set", "train.epochs=100", log=log)
    harness.wait_until((tmp_path / "run" / "metrics.jsonl").exists, what="first metrics")
    harness.wait_until(lambda: (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") > 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 143
    assert "--resume" in log.read_text()
    resumed = run("train", "--config", config, "--resume", "--set", "train.epochs=1")
    assert "resumed from" in resumed.stderr


def test_an_existing_run_is_never_overwritten(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    run("train", "--config", config)
    before = sorted(p.name for p in (tmp_path / "run" / "ckpt").iterdir())
    assert "--resume" in run("train", "--config", config, code=2).stderr
    assert sorted(p.name for p in (tmp_path / "run" / "ckpt").iterdir()) == before


def test_a_checkpoint_of_another_model_is_refused_by_name(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    run("train", "--config", config)
    assert "--allow needs --resume" in run("train", "--config", config, "--allow", "data", code=2).stderr
    assert "not one of" in run("train", "--config", config, "--resume", "--allow", "dta", code=2).stderr
    for change in ("features[0].dim=4", "optimizer.sparse={sgd: {}}", "model.deepfm.hidden=[8]"):
        done = run("train", "--config", config, "--resume", "--set", change, code=3)
        assert "differ from this job's" in done.stderr
    # Allowed by name, it is still refused where rows would not fit.
    done = run("train", "--config", config, "--resume", "--set", "features[0].dim=4", "--allow", "tables,model,features", code=3)
    assert "dim" in done.stderr


def test_a_difference_is_taken_when_it_is_allowed_by_name(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    first = run_json("train", "--config", config)
    other_lr = ("--set", "optimizer.dense.adam.lr=0.001")
    assert "--allow optimizer" in run("train", "--config", config, "--resume", *other_lr, code=3).stderr
    run("train", "--config", config, "--resume", *other_lr, "--allow", "optimizer")
    other_data = ("--set", f"data.train={data}/eval")
    assert "another set of files" in run("train", "--config", config, "--resume", *other_data, code=3).stderr
    second = run_json("train", "--config", config, "--resume", *other_data, "--allow", "data")
    assert second["step"] > first["step"] and second["samples"] > 0  # The new files' batches are no repeats.


def test_a_position_that_counts_other_batches_is_refused(tmp_path, data):
    """Resumed inside a pass, with batches of another size: rows would be lost or counted twice."""
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    harness.start("train", "--config", config, *DETERMINISTIC, env={"STARLING_KILL_AT": "checkpoint:after_prune:1"}).wait(timeout=300)
    for change, name in (("data.batch=512", "batch"), ("data.shuffle=false", "shuffle"), ("data.sample={rate: 0.5}", "sample")):
        stderr = run("train", "--config", config, "--resume", *DETERMINISTIC, "--set", change, code=3).stderr
        assert "its batches differ from this job's" in stderr and name in stderr and "--allow data" in stderr
    # Allowed, all rows are read from the beginning, and no batch is taken for one that was applied before.
    log = tmp_path / "log"
    assert harness.start("train", "--config", config, "--resume", *DETERMINISTIC, "--set", "data.batch=512", "--allow", "data", "--json",
                         env={"STARLING_KILL_AT": "ps:push_repeated:1"}, log=log).wait(timeout=300) == 0
    rows = sum(pq.ParquetFile(p).metadata.num_rows for p in (data / "train").rglob("*.parquet"))
    assert f'"samples": {2 * rows},' in log.read_text()
    # Between two passes any size will do.
    run("train", "--config", config, "--resume", *DETERMINISTIC, "--set", "data.batch=256", "--set", "train.epochs=3")


def test_a_damaged_newest_checkpoint_falls_back_loudly(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    run("train", "--config", config, "--set", "train.checkpoint.every_steps=25", "--set", "train.checkpoint.full_every=1")
    sets = sorted((tmp_path / "run" / "ckpt").iterdir())
    assert len(sets) >= 2
    rows = next(sets[-1].glob("table-*.rows"))
    content = bytearray(rows.read_bytes())
    content[len(content) // 2] ^= 1
    rows.write_bytes(content)
    done = run("eval", "--config", config)
    assert "DAMAGED CHECKPOINT" in done.stderr and rows.name in done.stderr
    for other in sets[:-1]:
        os.remove(other / "MANIFEST")
    assert rows.name in run("eval", "--config", config, code=5).stderr
