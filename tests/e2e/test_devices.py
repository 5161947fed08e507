"""train.devices: replicas on several devices train the model of one."""

import json
import signal

import pyarrow.parquet as pq
import pytest

import harness
from harness import run, run_json, write_config

TWO = ("--set", "train.devices=[cpu:0, cpu:1]")


def scores(config, tmp_path, data, name, *flags):
    bundle, out = tmp_path / f"{name}-bundle", tmp_path / f"{name}.parquet"
    run("export", "--config", config, "--out", bundle, *flags)
    run("predict", "--bundle", bundle, "--data", data / "eval", "--out", out)
    return pq.read_table(out).column("probability").to_numpy()


@pytest.mark.parametrize("model", ["deepfm: {hidden: [32, 16]}", "deepfm: {hidden: [32], batch_norm: true, dropout: 0.1}"])
def test_two_devices_give_the_auc_of_one(tmp_path, data, model):
    results, predicted = {}, {}
    for name, flags in {"one": (), "alone": ("--set", "train.devices=[cpu:0]"), "two": TWO,
                        "three": ("--set", "train.devices=[cpu:0, cpu:1, cpu:2]")}.items():
        config = write_config(tmp_path / f"{name}.yaml", data, tmp_path / name, **{"deepfm: {hidden: [32, 16]}": model})
        results[name] = run_json("train", "--config", config, *flags)
        predicted[name] = scores(config, tmp_path, data, name, *flags)
    assert (predicted["alone"] == predicted["one"]).all()  # The host, without copies.
    assert results["one"]["stages"]["copy"]["busy"] == 0 and results["one"]["seconds"]["copy"] == 0
    assert results["two"]["stages"]["copy"]["busy"] > 0
    assert results["two"]["auc"] == pytest.approx(results["one"]["auc"], abs=5e-4)
    assert results["two"]["steps"] == results["one"]["steps"]
    assert results["three"]["auc"] == pytest.approx(results["one"]["auc"], abs=5e-4)
    # Adam turns the rounding of a gradient near zero into a step; scores stay near all the same.
    assert abs(predicted["two"] - predicted["one"]).mean() < 2e-3


def test_killed_and_resumed_on_two_devices_is_bit_identical(tmp_path, data):
    cuts = (*TWO, "--set", "train.checkpoint.every_steps=20", "--set", "train.epochs=2")
    calm, config = (write_config(tmp_path / f"{name}.yaml", data, tmp_path / name) for name in ("calm", "killed"))
    run("train", "--config", calm, *cuts, "--set", "train.threads=1")
    kill = harness.start("train", "--config", config, *cuts, env={"STARLING_KILL_AT": "pipeline:step:50"})
    assert kill.wait(timeout=300) == -signal.SIGKILL
    assert "resumed from" in run("train", "--config", config, "--resume", *cuts).stderr
    assert json.loads((tmp_path / "killed" / "run.json").read_text())["devices"] == ["cpu:0", "cpu:1"]
    assert (scores(config, tmp_path, data, "killed", *cuts) == scores(calm, tmp_path, data, "calm", *cuts)).all()


def test_ctrl_c_on_two_devices_saves(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    process = harness.start("train", "--config", config, *TWO, "--set", "train.staleness=2", "--set", "train.epochs=100")
    harness.wait_until((tmp_path / "run" / "metrics.jsonl").exists, what="first metrics")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 143
    assert "resumed from" in run("train", "--config", config, "--resume", "--set", "train.epochs=1").stderr


def test_what_a_run_on_devices_tells(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    assert "devices  cpu:0, cpu:1: a replica on each, the 4 tiles" in run("validate", "--config", config, *TWO).stdout
    assert run_json("validate", "--config", config, *TWO)["devices"] == ["cpu:0", "cpu:1"]
    trace = tmp_path / "trace.json"
    done = run("train", "--config", config, *TWO, "--trace", trace)
    assert "a replica on each of cpu:0, cpu:1" in done.stderr
    assert "devices; seconds waited for copies" in done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert {"copy", "replica 1"} <= set(lanes.values())
    copied = [e["args"]["step"] for e in events
              if e["name"] == "copy" and lanes.get(e["tid"]) == "copy" and "step" in e.get("args", {})]
    assert copied == list(range(len(copied))) and copied
    assert run("explain", tmp_path / "run").stdout


@pytest.mark.parametrize("devices, says", [
    ("[cpu:0, tpu:1]", '"tpu:1" is no device'),
    ("[cpu]", "must end in a number"),
    ("[cpu:0, cuda:0]", "built without CUDA"),
    ("[cpu:0, cpu:1, cpu:0]", 'device "cpu:0" is listed twice'),
    ("[cpu:0, cpu:1, cpu:2, cpu:3, cpu:4]", "5 devices, but a batch has 4 tile(s) of 256 rows"),
])
def test_devices_that_cannot_be_are_told_with_their_line(tmp_path, data, devices, says):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run", **{"seed: 7,": f"seed: 7, devices: {devices},"})
    done = run("train", "--config", config, code=2)
    assert says in done.stderr and "job.yaml:9:" in done.stderr
    assert not (tmp_path / "run" / "ckpt").exists()


def test_a_loss_over_the_whole_batch_does_not_part(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    done = run("train", "--config", config, *TWO, "--set", "tasks=[{name: rank, label: click, loss: {pairwise: {}}}]", code=2)
    assert "train.devices" in done.stderr or "--set" in done.stderr
    assert "compares rows of the whole batch" in done.stderr
