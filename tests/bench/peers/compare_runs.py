"""One run of one system on one model: a subprocess, and its figures as a dict."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import compare_setup

HERE = pathlib.Path(__file__).resolve().parent

# Of a model: its data, its batch, how Starling's job spells it, and what docs call it.
CRITEO_FEATURES = """
  - {id: [C1..C26], dim: 16, table: {memory: 6GiB}}
  - {raw: [I1..I13], norm: log1p}"""
# The cardinalities' sum, which the peers know and take the memory of beforehand too.
INDUSTRIAL_FEATURES = """
  - {id: [S1..S80, L1..L20], dim: 16, table: {memory: 6GiB, rows_expected: 29086221}}"""
MODELS = {
    "deepfm": dict(shape="criteo", batch=4096, title="DeepFM 400×3",
                   model="{deepfm: {hidden: [400, 400, 400]}}"),
    "dcnv2": dict(shape="criteo", batch=4096, title="DCN-v2 3 cross + 400×3",
                  model="{dcnv2: {cross_layers: 3, hidden: [400, 400, 400]}}"),
    "dlrm": dict(shape="criteo", batch=4096, title="DLRM 512-256-16 / 512-256",
                 model="{dlrm: {bottom: [512, 256], hidden: [512, 256]}}"),
    "pooled": dict(shape="industrial", batch=2048, title="industrial, MLP 200-80", openmp="intel",
                   model="{dnn: {hidden: [200, 80]}}"),
}
FEATURES = {"criteo": CRITEO_FEATURES, "industrial": INDUSTRIAL_FEATURES}
# "tuned": compiled, with what is preloaded; "stock": eager, as pip installs it.
# Ours twice: a first pass, whose rows are made as ids come, and a second one, whose rows stand as
# the peers' do.
OWN = ("starling", "starling-again")
SYSTEMS = {"starling": "Starling", "starling-again": "Starling, second pass",
           "fbgemm": "FBGEMM tables, tuned", "torchrec": "TorchRec, tuned",
           "torch": "PyTorch, tuned", "fbgemm-stock": "FBGEMM tables, as installed",
           "torchrec-stock": "TorchRec, as installed", "torch-stock": "PyTorch, as installed"}

# In the order of the files, as the peers read: what a model reaches differs more by the order than
# by the seed.
JOB = """name: compare
data: {{train: "{data}/train", eval: "{data}/eval", label: click, event_time: ts, batch: {batch},
        shuffle: false}}
features:{features}
model: {model}
optimizer: {{sparse: {{adagrad: {{lr: 0.02, eps: 1e-8}}}}, dense: {{adam: {{lr: 0.001}}}}}}
train: {{dir: "{work}/run", seed: {seed}, metrics_port: {port}}}
"""


def last_json(done, what):
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"compare: {what} failed with exit code {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(lines[-1])


def run_starling(binary, model, data, work, port, seed):
    """The figures of a first pass and of a second by system: defaults in all but what the
    comparison fixes, checkpoints and metrics on."""
    spec = MODELS[model]
    shutil.rmtree(work / "run", ignore_errors=True)
    job = work / "job.yaml"
    job.write_text(JOB.format(data=data, batch=spec["batch"], features=FEATURES[spec["shape"]],
                              model=spec["model"], work=work, port=port, seed=seed))
    runs = {}
    for system, more in zip(OWN, [[], ["--resume", "--set", "train.epochs=2"]]):
        done = subprocess.run([str(binary), "train", "--config", str(job), "--json", *more],
                              capture_output=True, text=True, check=False)
        figures = last_json(done, f"{system} on {model}")
        runs[system] = {"samples_per_s": figures["samples_per_s"], "auc": figures["auc"],
                        "rows": figures["samples"], "seconds": figures["seconds"]["train"],
                        "checkpoint_seconds": figures["seconds"]["checkpoint"]}
    shutil.rmtree(work / "run", ignore_errors=True)
    return runs


def run_peer(folder, system, model, data, seed):
    peer, _, variant = system.partition("-")
    command = [compare_setup.python(folder), HERE / "peer_train.py", "--peer", peer, "--model",
               model, "--data", data, "--batch", MODELS[model]["batch"],
               "--seed", seed]
    environment = dict(os.environ)
    if not variant:
        command.append("--compile")
        environment.update(compare_setup.tuning(folder, MODELS[model].get("openmp")))
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          env=environment)
    return last_json(done, f"{system} on {model}")
