"""The counting model with servers and workers as processes of their own, and learning from a stream of files."""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

from crash_run import DIM, LIMIT, STEPS, CrashRun, Wrong
from row_file import manifest, read_rows

STALL = 25  # Seconds; a call waits longer before it is given up.
RETRY = 138  # `launch` without restarts, after a child was killed.

LAUNCH_POINTS = [
    "launch:lease", "launch:hold", "launch:at_rest", "launch:cut", "launch:saved", "worker:at_rest", "pipeline:step",
    "ps:configure", "ps:pulled", "ps:push_tables", "ps:push_dense", "ps:push_named", "ps:push_applied",
    "ps:save_start", "ps:table_cut", "ps:small_parts_written", "ps:save_end", "ps:load_table",
    "store.snapshot.slice", "store.demote.written", "store.promote", "row_file.block", "file:renamed",
    "checkpointer:started", "checkpoint:after_parts", "file_set:before_manifest", "file_set:after_manifest",
    "checkpointer:written", "checkpoint:unmade", "checkpoint:after_prune",
]


def children(pid):
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class LaunchRun(CrashRun):
    """`starling launch`, two servers and one worker: batches come in the order of the files."""

    points, workers = LAUNCH_POINTS, 1
    often = ("pipeline:step", "ps:p", "store.demote", "store.promote")

    def command(self):
        return ["launch", "--config", self.config, "--resume", "--server_count", 2, "--worker_count", self.workers]

    def train(self, point=None, seconds=None):
        if seconds is not None:
            return self.train_and_kill(seconds)
        while True:
            began = time.monotonic()
            with open(self.work / "train.log", "w") as log:
                code = self.start(log, point, ["--restarts", "0"]).wait(timeout=LIMIT)
            killed = self.ended(code, (-signal.SIGKILL, RETRY))
            if not killed or "KILLED at sync point" in (self.work / "train.log").read_text():
                return killed
            if time.monotonic() - began < STALL:
                raise Wrong(f"ended though nobody was killed\n{(self.work / 'train.log').read_text()[-3000:]}")
            self.say("calls timed out while the machine stood still; again")

    def train_and_kill(self, seconds):
        """Now and then one of the processes dies; while it is not the launcher, that goes on by itself."""
        rng = random.Random(self.rng.getrandbits(64))  # How many kills there is time for must not change those that follow.
        with open(self.work / "train.log", "w") as log:
            process = self.start(log, more=["--restarts", "100"])
            for _ in range(3):
                try:
                    process.wait(timeout=rng.uniform(0.1, seconds))
                    break
                except subprocess.TimeoutExpired:
                    victim = rng.choice([process.pid, *children(process.pid)])
                    self.kills += victim != process.pid
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
            code = process.wait(timeout=LIMIT)
        return self.ended(code)


class TwoWorkersRun(LaunchRun):
    """Two servers and two workers. Which batch comes first is left to chance, so every id is admitted and none goes."""

    points = ["launch:lease", "launch:at_rest", "launch:cut", "worker:at_rest", "pipeline:step", "ps:push_named", "ps:push_applied",
              "ps:table_cut", "ps:load_table", "store.demote.written", "row_file.block", "file_set:after_manifest"]
    workers = 2
    tables = {"user": dict(admit=1, ttl=0), "item": dict(admit=1, ttl=0)}
    life = dict(user="", item="")

    def truth_of(self, checkpoint, step):
        info = manifest(checkpoint)["info"]
        if "workers" not in info:
            return self.truth.at(step)
        positions = []
        for worker in info["workers"]:
            at = worker.get("position", {})
            positions.append((1 << 30, 0) if at.get("pass", 0) else (at.get("ordinal", 0), at.get("batch", 0)))
        return self.truth.of(positions)


class OnlineRun(CrashRun):
    """`starling online`: sixteen files, each published as a version; checkpoints also in the background."""

    points = ["online:file_learned", "online:published", "checkpointer:start", "checkpointer:written", "checkpoint:after_parts",
              "file_set:before_manifest", "file_set:after_manifest", "checkpoint:after_prune", "ps:load_table"]
    files = 16

    def command(self):
        return ["online", "--config", self.config, "--watch", self.work / "data", "--publish_to", self.work / "pub", "--publish_every", 0.1,
                "--poll", 0.02, "--idle_exit", 0.05]

    def check(self, final=False):
        super().check(final)
        versions = sorted(self.work.glob("pub/v*/MANIFEST"))
        if not versions:
            return
        newest = versions[-1].parent
        step = int(manifest(newest)["info"]["step"])
        saved = max((int(manifest(c.parent)["info"]["state"]["step"]) for c in self.run_dir.glob("ckpt/step-*/MANIFEST")), default=-1)
        if step > saved or (final and step != STEPS):
            raise Wrong(f"version {newest.name} shows step {step}, the newest checkpoint holds {saved}")
        for name, rows in self.truth.at(step).items():
            self.compare(name, step, rows, read_rows(newest / f"table-{name}.rows", DIM + 1))

    def start_anew(self):
        super().start_anew()
        shutil.rmtree(self.work / "pub")
