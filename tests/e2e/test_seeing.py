"""What a run tells of itself: stages, a trace, and an explanation."""

import json
import urllib.request

import harness
from harness import run, run_json, write_config

STAGES = {"read", "compile", "prefetch", "pull", "copy", "compute", "push", "checkpoint", "eval"}


def test_stages_account_for_the_time_of_the_threads(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    result = run_json("train", "--config", config, "--set", "train.threads=1")
    stages, seconds = result["stages"], result["seconds"]
    assert set(stages) == STAGES
    for name in ("read", "compile", "prefetch", "pull", "compute", "push", "eval"):
        assert stages[name]["busy"] > 0, name
    # The step's own thread has no time of its own beyond these.
    steps = sum(stages[s]["busy"] for s in ("pull", "compute", "push")) + seconds["wait_read"]
    assert steps <= seconds["train"] * 1.01
    assert stages["pull"]["queue"] >= 1


def test_a_trace_has_a_lane_a_thread_and_every_step(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    trace = tmp_path / "trace.json"
    result = run_json("train", "--config", config, "--set", "train.threads=2", "--trace", trace)
    events = json.loads(trace.read_text())["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert {"steps", "reader 0", "prefetch", "pool 1"} <= set(lanes.values())
    steps = [e["args"]["step"] for e in events
             if e["name"] == "compute" and lanes.get(e["tid"]) == "steps" and "step" in e.get("args", {})]
    assert steps == list(range(result["steps"]))
    # Spans of a lane follow each other or stand one inside the other: that is what a viewer draws.
    for lane in lanes:
        ends = []
        spans = [e for e in events if e["ph"] == "X" and e["tid"] == lane]
        for e in sorted(spans, key=lambda e: (e["ts"], -e["dur"])):
            while ends and ends[-1] <= e["ts"] + 0.001:
                ends.pop()
            assert not ends or e["ts"] + e["dur"] <= ends[-1] + 0.001
            ends.append(e["ts"] + e["dur"])


def test_a_trace_that_cannot_be_written_is_told_before_the_run(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    done = run("train", "--config", config, "--trace", tmp_path / "none" / "trace.json", code=2)
    assert "--trace" in done.stderr
    assert not (tmp_path / "run" / "ckpt").exists()


def test_explain_names_the_bottleneck(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    run("train", "--config", config)
    told = run_json("explain", tmp_path / "run")
    assert told["bottleneck"] in STAGES
    assert 0 < told["work_share"] <= 1.02
    assert told["why"] and told["advice"]
    assert "bottleneck: " + told["bottleneck"] in run("explain", tmp_path / "run").stdout

    # A network so small that the reader cannot keep up, one thread reads; the run is so short
    # that on a slow disk its one checkpoint takes a good part of it.
    slow = write_config(tmp_path / "slow.yaml", data, tmp_path / "slow", **{"deepfm: {hidden: [32, 16]}": "fm: {}"})
    seconds = run_json("train", "--config", slow)["seconds"]
    bottleneck = run_json("explain", tmp_path / "slow")["bottleneck"]
    assert bottleneck in {"read", "compile", "pull", "push", "compute"} or (
        bottleneck == "checkpoint" and seconds["checkpoint"] > 0.09 * seconds["train"])


def test_explain_without_a_run_says_what_to_give_it(tmp_path):
    done = run("explain", tmp_path, code=2)
    assert "run.json" in done.stderr and "train.dir" in done.stderr
    done = run("explain", code=2)
    assert "directory of a run" in done.stderr


def test_prometheus_has_the_stages(tmp_path, data):
    port = harness.free_port()
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    process = harness.start("train", "--config", config, "--set", f"train.metrics_port={port}", "--set", "train.epochs=50")

    def scrape():
        try:
            text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        except OSError:
            return None
        return text if 'starling_stage_queue_depth{stage="pull"}' in text else None

    try:
        text = harness.wait_until(scrape, what="metrics")
        assert 'starling_stage_seconds_total{kind="busy",stage="compute"}' in text
        assert 'starling_stage_seconds_total{kind="wait",stage="read"}' in text
    finally:
        process.kill()
        process.wait()
