"""Runs the real binary, as a user would."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

BINARY = os.environ["STARLING"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"

CONFIG = """
name: test
data: {{train: "{data}/train", eval: "{data}/eval", label: click, event_time: ts, group: user, batch: 1024}}
features:
  - {{id: [C1..C26], dim: 8, table: {{memory: 256MiB}}}}
  - {{raw: [I1..I13], norm: log1p}}
model: {{deepfm: {{hidden: [32, 16]}}}}
optimizer: {{sparse: {{adagrad: {{lr: 0.05}}}}, dense: {{adam: {{lr: 0.002}}}}}}
train: {{dir: "{run}", epochs: 1, seed: 7, checkpoint: {{every: 0s}}}}
"""


def run(*args, code=0, env=None, timeout=300, cwd=None):
    """Runs `starling args`, checks the exit code, returns the completed process."""
    done = subprocess.run(
        [BINARY, *map(str, args)], capture_output=True, text=True, timeout=timeout, cwd=cwd,
        env=dict(os.environ, **(env or {})), check=False)
    assert done.returncode == code, (
        f"starling {' '.join(map(str, args))}: exit {done.returncode}, expected {code}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done


def run_json(*args, **kwargs):
    return json.loads(run(*args, "--json", **kwargs).stdout.strip().splitlines()[-1])


def start(*args, env=None, log=None):
    out = open(log, "w") if log else subprocess.DEVNULL
    return subprocess.Popen([BINARY, *map(str, args)], stdout=out, stderr=out, env=dict(os.environ, **(env or {})))


def wait_until(condition, seconds=60, what="condition"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true in {seconds} s")


def generated(rows=60000, eval_rows=20000, seed=3, more=()):
    """A data set made once and kept beside the binary, for all test files."""
    out = pathlib.Path(BINARY).parent.parent / "testdata" / "-".join(["gen", *map(str, (rows, eval_rows, seed)), *(m.strip("-") for m in more)])
    if not (out / "TRUTH.json").exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = out.with_name(f"{out.name}.{os.getpid()}")
        run("generate", "--out", scratch, "--rows", rows, "--eval_rows", eval_rows, "--days", 3, "--seed", seed,
            *more)
        try:
            scratch.rename(out)
        except OSError:  # Another test file was faster.
            shutil.rmtree(scratch)
    return out


def write_config(path, data, run_dir, text=CONFIG, **replace):
    text = text.format(data=data, run=run_dir)
    for old, new in replace.items():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)
    return path


class Server:
    """A `starling serve` process on a free port."""

    def __init__(self, bundle, tmp, *flags):
        self.port_file = pathlib.Path(tmp) / f"port.{os.getpid()}.{time.monotonic_ns()}"
        self.log = pathlib.Path(tmp) / "serve.log"
        self.process = start("serve", "--bundle", bundle, "--port", 0, "--port_file", self.port_file, *flags, log=self.log)
        try:
            wait_until(lambda: self.port_file.exists() or self.process.poll() is not None, what="server port")
            assert self.process.poll() is None, self.log.read_text()
            self.url = f"http://127.0.0.1:{self.port_file.read_text().strip()}"
            wait_until(lambda: self.get("/v2/health/ready")[0] == 200, what="ready server")
        except BaseException:
            self.process.kill()
            raise

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except (urllib.error.URLError, OSError) as e:
            return 0, str(e)

    def infer(self, inputs, model="test"):
        body = json.dumps({"inputs": inputs}).encode()
        request = urllib.request.Request(f"{self.url}/v2/models/{model}/infer", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as r:
                return r.status, json.loads(r.read())
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def tensors(table, columns, begin, end):
    """Rows [begin, end) of a pyarrow table as KServe v2 inputs."""
    out = []
    for name in columns:
        column = table.column(name).slice(begin, end - begin)
        kind = str(column.type)
        datatype = "INT64" if kind.startswith("int") else "FP64" if kind == "double" else "FP32" if kind == "float" else "BYTES"
        out.append({"name": name, "shape": [end - begin], "datatype": datatype, "data": column.to_pylist()})
    return out


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="session")
def data():
    return generated()
