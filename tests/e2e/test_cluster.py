"""Servers and workers as processes: the same model as one process, every batch applied once."""

import json
import math
import signal

import harness
from harness import run, run_json, write_config


def batches(data, rows_per_batch):
    import pyarrow.parquet as pq
    total = 0
    for path in sorted((data / "train").rglob("*.parquet")):
        meta = pq.ParquetFile(path).metadata
        total += sum(math.ceil(meta.row_group(i).num_rows / rows_per_batch) for i in range(meta.num_row_groups))
    return total


def exported(config, out):
    run("export", "--config", config, "--out", out)
    return {p.name: p.read_bytes() for p in out.iterdir() if p.name != "MANIFEST"}


def test_two_servers_and_two_workers_match_one_process(tmp_path, data):
    # Steps enough for the order of arrival not to matter.
    alone = run_json("train", "--config", write_config(tmp_path / "a.yaml", data, tmp_path / "a", **{"batch: 1024": "batch: 256"}))
    config = write_config(tmp_path / "b.yaml", data, tmp_path / "b", **{"batch: 1024": "batch: 256"})
    cluster = run_json("launch", "--config", config, "--server_count", 2, "--worker_count", 2)
    assert cluster["batches_applied"] == batches(data, 256)
    assert abs(cluster["auc"] - alone["auc"]) < 0.01
    assert cluster["samples"] == alone["samples"]
    # What the servers saved is a checkpoint like any other.
    again = run_json("eval", "--config", config)
    assert again["auc"] == cluster["auc"]
    run("inspect", tmp_path / "b" / "ckpt", "--verify")
    run("export", "--config", config, "--out", tmp_path / "bundle")


def test_one_worker_and_one_server_equal_one_process_bit_for_bit(tmp_path, data):
    """The remote path changes nothing: same splits, same order, same sums."""
    text = harness.CONFIG.replace("epochs: 1", "epochs: 1, threads: 1")
    a = write_config(tmp_path / "a.yaml", data, tmp_path / "a", text=text)
    b = write_config(tmp_path / "b.yaml", data, tmp_path / "b", text=text)
    run("train", "--config", a)
    run("launch", "--config", b, "--server_count", 3, "--worker_count", 1)
    assert exported(a, tmp_path / "bundle-a") == exported(b, tmp_path / "bundle-b")


def test_a_dead_worker_ends_the_launch_with_a_clear_word(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    log = tmp_path / "log"
    process = harness.start("launch", "--config", config, "--set", "train.epochs=100", "--restarts", 0, log=log)

    def worker_pid():
        import subprocess
        out = subprocess.run(["pgrep", "-P", str(process.pid), "-f", "worker --config"], capture_output=True, text=True).stdout
        return int(out.split()[0]) if out.split() else None

    import os
    pid = harness.wait_until(worker_pid, what="a worker")
    harness.wait_until(lambda: (tmp_path / "run" / "worker-0" / "metrics.jsonl").exists(), what="a working worker")
    os.kill(pid, signal.SIGKILL)
    assert process.wait(timeout=60) == 138
    assert "ended with exit code 137" in log.read_text()
    assert not (tmp_path / "run" / "ckpt").exists() or not any((tmp_path / "run" / "ckpt").iterdir())


def test_a_stopped_launch_goes_on_bit_for_bit_with_other_servers(tmp_path, data):
    text = harness.CONFIG.replace("epochs: 1", "epochs: 6, threads: 1")
    a = write_config(tmp_path / "a.yaml", data, tmp_path / "a", text=text)
    b = write_config(tmp_path / "b.yaml", data, tmp_path / "b", text=text.replace("every: 0s", "every: 0s, every_steps: 20"))
    run("train", "--config", a)
    process = harness.start("launch", "--config", b, "--server_count", 3, "--worker_count", 1, log=tmp_path / "log")
    harness.wait_until(lambda: list((tmp_path / "b" / "ckpt").glob("step-*/MANIFEST")), what="a checkpoint on the way")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143, (tmp_path / "log").read_text()
    assert "go on with --resume" in (tmp_path / "log").read_text()
    assert "holds checkpoints" in run("launch", "--config", b, "--worker_count", 1, code=2).stderr
    assert "--worker_count 1" in run("launch", "--config", b, "--worker_count", 2, "--resume", code=3).stderr
    assert "launch --resume" in run("train", "--config", b, "--resume", code=3).stderr
    done = run("launch", "--config", b, "--server_count", 2, "--worker_count", 1, "--resume")
    assert "resumed from" in done.stderr
    assert exported(a, tmp_path / "bundle-a") == exported(b, tmp_path / "bundle-b")


def test_what_needs_one_process_is_refused(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    assert "early_stop" in run("launch", "--config", config, "--set", "train.early_stop={patience: 1}", code=2).stderr
    assert "--shard 2" in run("ps", "--shard", 2, "--shards", 2, code=2).stderr
    assert "--servers" in run("worker", "--config", config, code=2).stderr
