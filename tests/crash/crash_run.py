"""A counting model, trained by a real process that is killed again and again.

Every row's true value follows from the Parquet files alone (truth.py). After each
kill the newest checkpoint, restored by `starling export`, must hold exactly that
for its step; at the end the whole run must. The seed decides which kill comes
when; the instants of timed kills are as exact as the machine's clock.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from row_file import read_rows, restore
from truth import Truth

BATCH, STEPS, FILES, DIM = 512, 160, 4, 32
AMOUNT = 2.0**-10
LIMIT = 1800  # Seconds; far more than anything takes, unless the machine stands still.
TABLES = {"user": dict(admit=2, ttl=1000), "item": dict(admit=1, ttl=400)}
SEGMENTS = 2  # Of a row: the embedding and the first-order weight, each with its own count of steps.

# Where the process is killed: every name must be reached.
POINTS = [
    "pipeline:step", "pipeline:at_rest",
    "ps:pulled", "ps:push_tables", "ps:push_dense", "ps:push_named",
    "ps:save_start", "ps:table_cut", "ps:small_parts_written", "ps:save_end", "ps:load_table",
    "store.snapshot.start", "store.snapshot.slice", "store.snapshot.memory", "store.snapshot.cold", "store.snapshot.end",
    "store.demote.write", "store.demote.written", "store.flush.begin", "store.flush.end",
    "store.fetched", "store.promote", "store.sweep", "store.evict", "store.evict.cold",
    "row_file.block", "row_file.footer",
    "file:before_sync", "file:temporary", "file:renamed", "file_set:before_manifest", "file_set:after_manifest",
    "checkpointer:start", "checkpointer:started", "checkpointer:written",
    "checkpoint:before_parts", "checkpoint:after_parts", "checkpoint:unmade", "checkpoint:after_prune",
]
# Of these, reached in nearly every step.
OFTEN = ("pipeline:step", "ps:p", "store.fetched", "store.promote", "store.sweep", "store.demote")

CONFIG = """
name: crash
data: {{train: "{data}", label: click, event_time: ts, batch: {batch}, shuffle: false}}
features:
  - {{id: user, dim: {dim}, table: {{name: user, memory: 768KiB, init: 0{user}}}}}
  - {{id: item, dim: {dim}, table: {{name: item, memory: 640KiB, init: 0{item}}}}}
model: {{deepfm: {{hidden: [4]}}}}
optimizer: {{sparse: {{count: {{amount: {amount}}}}}, dense: {{adam: {{lr: 0.001}}}}}}
train:
  {{dir: "{run}", seed: 5, threads: 2, checkpoint: {{every: 0s, every_steps: {every}, keep: 2, full_every: 4, pace: 2MiB}}}}
"""


LIFE = dict(user=", admit: {exact_count: 2}, evict: {ttl: 1000s}", item=", evict: {ttl: 400s}")


def make_data(out, seed, files=FILES):
    """Users come for ten steps and go for good; items come back, some after their row has expired."""
    rng = np.random.default_rng(seed)
    out.mkdir(parents=True)
    steps = STEPS // files
    for f in range(files):
        columns = {"user": [], "item": [], "ts": [], "click": []}
        for step in range(f * steps, (f + 1) * steps):
            users = 40 * step + rng.integers(0, 400, BATCH)
            users[:3] = 10_000_000 + 3 * step + np.arange(3)  # Seen once: never admitted.
            columns["user"].append(users)
            columns["item"].append(np.minimum(rng.zipf(1.1, BATCH), 1 << 40) % 20_000)
            columns["ts"].append(np.full(BATCH, 1_700_000_000 + 10 * step))
            columns["click"].append(rng.integers(0, 2, BATCH))
        table = pa.table({name: np.concatenate(parts).astype(np.int64) for name, parts in columns.items()})
        pq.write_table(table, out / f"part-{f:02}.parquet", row_group_size=BATCH * steps // 2)


class Wrong(AssertionError):
    """A row does not hold what it must."""


class CrashRun:
    """`starling train`: one process."""

    points, often, files, tables, life = POINTS, OFTEN, FILES, TABLES, LIFE

    def __init__(self, binary, work, seed, every=8, env=None, say=lambda line: None):
        self.binary, self.work, self.say = str(binary), pathlib.Path(work), say
        self.rng = random.Random(seed)
        self.env = dict(os.environ, **(env or {}))
        self.run_dir = self.work / "run"
        make_data(self.work / "data", seed, self.files)
        self.truth = Truth(self.work / "data", BATCH, self.tables)
        self.config = self.work / "job.yaml"
        self.config.write_text(CONFIG.format(data=self.work / "data", run=self.run_dir, batch=BATCH, dim=DIM, amount=AMOUNT, every=every, **self.life))
        self.kills = self.finished = self.checks = self.rows_checked = 0

    def command(self):
        return ["train", "--config", self.config, "--resume"]

    def call(self, *args):
        return subprocess.run([self.binary, *map(str, args)], capture_output=True, text=True, env=self.env, timeout=LIMIT, check=False)

    def start(self, log, point=None, more=()):
        env = dict(self.env, **({"STARLING_KILL_AT": point} if point else {}))
        return subprocess.Popen([self.binary, *map(str, self.command()), *more], env=env, stdout=log, stderr=log)

    def ended(self, code, killed=(-signal.SIGKILL,)):
        """True if it was killed, False if it came to its end."""
        if code != 0 and code not in killed:
            raise Wrong(f"{self.command()[0]} ended with exit code {code}\n{(self.work / 'train.log').read_text()[-3000:]}")
        return code != 0

    def train(self, point=None, seconds=None):
        """Killed at a sync point, or after some time, or let go to its end."""
        with open(self.work / "train.log", "w") as log:
            process = self.start(log, point)
            try:
                code = process.wait(timeout=seconds or LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        return self.ended(code)

    def truth_of(self, checkpoint, step):
        return self.truth.at(step)

    def check(self, final=False):
        """The newest checkpoint, if there is one, holds exactly the counts of its step: restored by the binary, and
        from its files by row_file.py, which also sees the optimiser's state."""
        complete = sorted(self.run_dir.glob("ckpt/step-*/MANIFEST"))
        if not complete:
            assert not final
            return
        bundle = self.work / "bundle"
        shutil.rmtree(bundle, ignore_errors=True)
        done = self.call("export", "--config", self.config, "--out", bundle, "--json")
        if done.returncode != 0:
            raise Wrong(f"export ended with exit code {done.returncode}\n{done.stderr[-3000:]}")
        if "DAMAGED" in done.stderr:
            raise Wrong(f"a kill left a damaged checkpoint that counts as complete\n{done.stderr}")
        step = json.loads(done.stdout.splitlines()[-1])["step"]
        if final and step != STEPS:
            raise Wrong(f"the run ended at step {step}, not {STEPS}")
        checkpoint = complete[-1].parent
        for name, rows in self.truth_of(checkpoint, step).items():
            self.compare(name, step, rows, read_rows(bundle / f"table-{name}.rows", DIM + 1))
            self.compare(name, step, rows, restore(checkpoint, name, DIM + 1, SEGMENTS))
        self.checks += 1

    def compare(self, name, step, rows, found):
        self.rows_checked += len(found)
        lost = rows[~np.isin(rows["id"], found["id"]) & ~rows["may_be_gone"]]
        extra = found[~np.isin(found["id"], rows["id"])]
        found = found[np.isin(found["id"], rows["id"])]
        rows = rows[np.searchsorted(rows["id"], found["id"])]  # Sorted by id: one for each found.
        bad = ((found["weights"] != (rows["steps"] * AMOUNT)[:, None]).any(axis=1) | (found["frequency"] != rows["frequency"])
               | (found["time"] != rows["time"]))
        if "state" in found.dtype.names:
            bad |= (found["state"] != rows["steps"][:, None]).any(axis=1)
        if len(lost) or len(extra) or bad.any():
            example = [(r.tolist(), f["frequency"].item(), f["time"].item(), sorted(set((f["weights"] / AMOUNT).tolist())),
                        f["state"].tolist() if "state" in f.dtype.names else None)
                       for r, f in zip(rows[bad][:3], found[bad][:3])]
            raise Wrong(f"table {name}, step {step}: {len(lost)} rows lost {lost[:3].tolist()}, {len(extra)} that should not be "
                        f"{extra['id'][:3].tolist()}, {bad.sum()} wrong: (id, steps, frequency, time, …) but found frequency, time, steps, state: {example}")

    def settle(self, killed):
        self.check(final=not killed)
        if killed:
            self.kills += 1
        else:
            self.finished += 1
            self.start_anew()

    def start_anew(self):
        shutil.rmtree(self.run_dir)

    def kill_at(self, point, nth, tries=4):
        """Killed at the nth time that `point` is reached, perhaps after some runs to the end."""
        for _ in range(tries):
            killed = self.train(point=f"{point}:{nth}")
            self.settle(killed)
            self.say(f"{'killed at' if killed else 'never reached'} {point}:{nth}")
            if killed:
                return
            nth = 1
            self.settle(self.train(point="checkpoint:after_prune:2"))  # The next one resumes: it loads too.
        raise Wrong(f"sync point {point} was never reached")

    def kill_after(self, seconds):
        killed = self.train(seconds=seconds)
        self.settle(killed)
        self.say(f"{'killed after' if killed else 'ended before'} {seconds:.2f} s")

    def go(self, kills, seconds=(0.1, 2.0)):
        """At least `kills` kills, every point among them; then the run's end."""
        todo = [("point", p) for p in self.points] + [("time", None)] * max(0, kills - self.kills - len(self.points))
        self.rng.shuffle(todo)
        while todo or self.kills < kills:
            kind, point = todo.pop() if todo else ("time", None)
            if kind == "point":
                often = point.startswith(self.often)
                self.kill_at(point, self.rng.randrange(1, 80) if often else self.rng.choice([1, 1, 2, 3, 5]))
            else:
                self.kill_after(self.rng.uniform(*seconds))
        killed = self.train()
        assert not killed
        self.settle(killed)
