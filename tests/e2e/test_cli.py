"""What a person meets first: help, typos, configs that are wrong."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import harness
from harness import run, run_json, write_config

VERBS = ["init", "validate", "generate", "train", "eval", "predict", "export", "serve", "online", "ps", "worker",
         "launch", "inspect", "bench", "doctor", "explain"]


def test_every_verb_has_help():
    overview = run("--help").stdout
    for verb in VERBS:
        assert f"\n  {verb} " in overview
        assert f"usage: starling {verb}" in run(verb, "--help").stdout


def test_typos_are_usage_errors_with_the_nearest_name():
    assert 'did you mean "train"' in run("trian", code=2).stderr
    assert 'did you mean "config"' in run("train", "--confg", "x", code=2).stderr
    assert "--config" in run("train", code=2).stderr
    run("train", "--config", "/nonexistent/job.yaml", code=2)
    assert "needs a value" in run("train", "--config", code=2).stderr


@pytest.mark.parametrize("old, new, words", [
    ("label: click", "lable: click", ["lable", 'did you mean "label"', "job.yaml:3:"]),
    ("label: click", "label: clik", ["clik", 'did you mean "click"', "job.yaml:3:"]),
    ("id: [C1..C26]", "id: [C1..C26, C3]", ["C3", "job.yaml:5:"]),
    ("id: [C1..C26]", "id: [C1..C27]", ["C27", "job.yaml:5:"]),
    ("memory: 256MiB", "memory: 256 pebbles", ["pebbles", "job.yaml:5:"]),
    ("model: {deepfm: {hidden: [32, 16]}}", "model: {deepfm: {hidden: [32, big]}}", ["big", "job.yaml:7:"]),
    ("model: {deepfm: {hidden: [32, 16]}}", "model: {lr: {}}", ["dim", "job.yaml:5:"]),
    ("model: {deepfm: {hidden: [32, 16]}}", "model: {deepfm: {hidden: [32]}, lr: {}}", ["job.yaml:7:"]),
    ("raw: [I1..I13]", "raw: [I1..I13, ts]", ["ts", "job.yaml:6:"]),
    ("epochs: 1", "epochs: many", ["epochs", "job.yaml:9:"]),
    ("name: test", "name: test\nname: twice", ["name", "job.yaml:3:"]),
])
def test_config_errors_name_place_and_nearest_name(old, new, words, tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run", **{old: new})
    for verb in ("validate", "train"):
        stderr = run(verb, "--config", config, code=2).stderr
        for word in words:
            assert word in stderr, stderr
    assert not (tmp_path / "run").exists()


def test_set_overrides_and_its_errors_name_it(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    run("validate", "--config", config, "--set", "train.epochs=3", "--set", "model.deepfm.hidden=[8, 4]")
    assert "--set" in run("validate", "--config", config, "--set", "train.epoch=3", code=2).stderr


def test_validate_tells_size_and_cost_and_the_schema_is_json(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    result = run_json("validate", "--config", config)
    text = json.dumps(result)
    assert "flops" in text.lower() and "bytes" in text.lower() and "rows" in text.lower()
    schema = json.loads(run("validate", "--schema").stdout)
    assert "features" in schema["properties"]


def test_validate_predicts_what_training_holds_in_memory(tmp_path):
    run("generate", "--out", tmp_path / "data", "--shape", "criteo", "--rows", 120000, "--eval_rows", 1000)
    config = write_config(tmp_path / "job.yaml", tmp_path / "data", tmp_path / "run")
    config.write_text(config.read_text().replace("group: user, ", ""))
    predicted = run_json("validate", "--config", config)["memory"]["resident_estimate"]
    assert "resident" in run("validate", "--config", config).stdout
    resident = run_json("train", "--config", config)["resident_bytes_max"]
    # Half of it is the program itself, whose libraries differ from machine to machine.
    assert 0.75 < resident / predicted < 1.33, (resident, predicted)


def test_init_writes_a_config_that_trains(tmp_path, data):
    run("init", data / "train", "--out", tmp_path / "job.yaml")
    text = (tmp_path / "job.yaml").read_text()
    assert "C1..C26" in text and "#" in text
    run("validate", "--config", tmp_path / "job.yaml")
    result = run_json("train", "--config", tmp_path / "job.yaml", "--set", f"train.dir={tmp_path}/run")
    assert result["samples"] == 60000
    assert "exists" in run("init", data / "train", "--out", tmp_path / "job.yaml", code=2).stderr


def test_doctor_finds_this_machine_fit():
    assert "ok" in run("doctor").stdout


def test_generate_is_a_function_of_its_seed_and_refuses_to_overwrite(tmp_path):
    for name in "ab":
        run("generate", "--out", tmp_path / name, "--rows", 3000, "--eval_rows", 1000, "--days", 2, "--seed", 9)
    a, b = (pq.ParquetDataset(tmp_path / n / "train").read() for n in "ab")
    assert a.equals(b) and a.num_rows == 3000
    assert "exists" in run("generate", "--out", tmp_path / "a", "--rows", 10, code=2).stderr


def test_bench_train_prints_rates_and_ratio():
    done = run("bench", "train", "--quick", "--json", timeout=600)
    lines = [json.loads(l) for l in done.stdout.splitlines()]
    train = [l for l in lines if l["bench"] == "train"]
    assert train and all(l["ratio"] > 0 and l["reference_value"] > 0 for l in train if "ratio" in l)
    requests = [l for l in lines if l["bench"] == "train.requests"]
    assert len(requests) == 4 and all(l["ratio"] > 0 and l["ratio_bound"] > 0 for l in requests)
    possible = [l for l in lines if l["bench"] == "train.requests.possible"]
    assert len(possible) == 4 and all(l["by_features"] > 1 and l["by_parts"] > 0 for l in possible)
    for line in (l for l in lines if l["bench"] == "train.requests.auc"):
        assert abs(line["requests"] - line["flat"]) < 0.02, "the same rows, in another order"
    cold = {l["bench"]: l for l in lines if l["bench"].startswith("train.cold")}
    assert cold["train.cold"]["ratio"] > 0
    assert cold["train.cold.rows"]["rows_read_a_sample"] > 0.5, "the table did not leave memory"
    assert "train.cold.capped" in cold or "SKIPPED train.cold" in done.stderr
    assert cold.get("train.cold.capped", {"samples_per_s": 1})["samples_per_s"] > 0


def test_bench_pipeline_measures_a_step_at_each_staleness():
    lines = [json.loads(l) for l in run("bench", "pipeline", "--quick", "--json", timeout=600).stdout.splitlines()]
    assert [l["case"][-1] for l in lines] == ["0", "1", "2", "3"]
    for line in lines:
        assert line["value"] >= 0.005 and line["reference_value"] >= 0.005


def test_bench_dense_measures_each_model_beside_bare_products():
    lines = [json.loads(l) for l in run("bench", "dense", "--quick", "--json", timeout=600).stdout.splitlines()]
    assert [l["case"].split()[0] for l in lines] == ["MLP", "DCN-v2", "DLRM"]
    assert all(l["ratio"] > 0 and "bare products" in l["reference"] for l in lines)


def test_bench_read_does_the_same_job_as_the_script_and_prints_every_case():
    script = Path(__file__).parents[1] / "bench" / "read_peer.py"
    done = run("bench", "read", "--quick", "--json", "--peer", f"{sys.executable} {script}", timeout=600)
    lines = [json.loads(l) for l in done.stdout.splitlines()]
    names = {l["bench"] for l in lines}
    # It fails if the script finds another number of unique ids.
    assert {"read.memory", "read.compile", "read.compile.cost", "read.peer", "read.requests"} <= names, done.stderr
    assert all(l["ratio"] > 0 for l in lines if "ratio" in l)
    assert all(l["peak_mib"] > 0 for l in lines if l["bench"] == "read.memory")
    assert "SKIPPED read.peer" in run("bench", "read", "--quick", "--only", "peer").stderr
    assert "no case" in run("bench", "read", "--only", "pear", code=2).stderr


def test_bench_store_prints_every_case_and_refuses_a_case_it_has_not():
    done = run("bench", "store", "--quick", "--json", timeout=600)
    lines = [json.loads(l) for l in done.stdout.splitlines()]
    names = {l["bench"] for l in lines}
    assert {"store.memory", "store.lookup", "store.apply", "store.snapshot", "store.scale", "store.cold"} <= names, \
        done.stderr
    for line in lines:
        assert line["case"]
        if "ratio" in line:
            # On a busy machine no call may end within so short a snapshot.
            assert line["ratio"] > 0 or line["bench"] == "store.snapshot", line
            assert line["reference_value"] > 0 and line["runs"] == 2, line
    only = run("bench", "store", "--quick", "--json", "--only", "memory").stdout.splitlines()
    assert [json.loads(l)["bench"] for l in only] == ["store.memory"]
    assert "--only" in run("bench", "train", "--quick", "--only", "memory", code=2).stderr
    assert "lookups" in run("bench", "store", "--quick", "--only", "lookups", code=2).stderr


def test_a_terminal_gets_a_progress_bar_and_a_pipe_does_not(tmp_path, data):
    import os
    import pty
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    main, terminal = pty.openpty()
    process = harness.subprocess.Popen([harness.BINARY, "train", "--config", str(config), "--set", "train.epochs=12"],
                                       stdout=harness.subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(main, 4096):
            shown += chunk
    except OSError:  # The terminal closed: the process has ended.
        pass
    assert process.wait(timeout=60) == 0
    text = shown.decode()
    assert "\r" in text and "[=" in text and " left" in text and "rows/s" in text and "loss" in text and "auc" in text
    assert "checkpoint" in text  # The closing table.
    piped = run("train", "--config", write_config(tmp_path / "b.yaml", data, tmp_path / "b")).stderr
    assert "\r" not in piped and "samples/s" in piped
