"""A stream of files, new versions, and a server that takes them up without a failed request."""

import signal
import threading

import pyarrow.parquet as pq

import harness
from harness import run, run_json, write_config

FEATURES = [f"C{i}" for i in range(1, 27)] + [f"I{i}" for i in range(1, 14)]


def feed(table, watch, n, rows=5000):
    """Puts file n into the directory the way a writer should: by rename."""
    pq.write_table(table.slice(n * rows, rows), watch / f".f{n:03}.tmp")
    (watch / f".f{n:03}.tmp").rename(watch / f"f{n:03}.parquet")


def test_files_become_versions_that_a_running_server_takes_up(tmp_path, data):
    table = pq.ParquetDataset(data / "train").read()
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    run("train", "--config", config)  # Online goes on from the batch model.
    run("export", "--config", config, "--out", tmp_path / "pub", "--publish")
    watch = tmp_path / "in"
    watch.mkdir()
    learner = harness.start("online", "--config", config, "--watch", watch, "--publish_to", tmp_path / "pub",
                            "--publish_every", 0.2, "--poll", 0.05, log=tmp_path / "online.log")
    versions, failures, stop = [], [], threading.Event()
    try:
        with harness.Server(tmp_path / "pub", tmp_path, "--watch_s", 0.05) as server:
            probe = harness.tensors(table, FEATURES, 0, 8)

            def ask():
                while not stop.is_set():
                    try:
                        status, reply = server.infer(probe)
                        if status == 200 and len(reply["outputs"][0]["data"]) == 8:
                            versions.append((int(reply["model_version"]), tuple(reply["outputs"][0]["data"])))
                        else:
                            failures.append(reply)
                    except Exception as e:  # noqa: BLE001  (any failure counts)
                        failures.append(repr(e))

            clients = [threading.Thread(target=ask) for _ in range(3)]
            for c in clients:
                c.start()
            for n in range(5):
                seen = max((v for v, _ in list(versions)), default=1)
                feed(table, watch, n)
                harness.wait_until(lambda s=seen: max((v for v, _ in list(versions)), default=0) > s,
                                   what=f"a version after file {n}")
            (watch / "bad.parquet").write_bytes(b"this is no Parquet file at all, not even nearly")
            harness.wait_until(lambda: "BAD FILE" in (tmp_path / "online.log").read_text(), what="the bad file's report")
            assert learner.poll() is None
            stop.set()
            for c in clients:
                c.join()
    finally:
        stop.set()
        learner.send_signal(signal.SIGTERM)
        assert learner.wait(timeout=60) == 143
    assert failures == []
    assert max(v for v, _ in versions) >= 6
    by_version = {}
    for v, scores in versions:
        assert by_version.setdefault(v, scores) == scores  # One version, one answer.
    assert len(set(by_version.values())) == len(by_version)  # And each learned something.


def test_what_a_kill_kept_from_publication_is_published_by_the_next_life(tmp_path, data):
    """Killed when the checkpoint is complete and its version is not: no file comes after it, and it appears all the same."""
    watch = tmp_path / "in"
    watch.mkdir()
    feed(pq.ParquetDataset(data / "train").read(), watch, 0)
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    args = ("online", "--config", config, "--watch", watch, "--publish_to", tmp_path / "pub", "--publish_every", 0.1, "--poll", 0.05,
            "--idle_exit", 0.2)
    run(*args, code=-signal.SIGKILL, env={"STARLING_KILL_AT": "checkpoint:after_prune:1"})
    assert list((tmp_path / "run" / "ckpt").glob("*/MANIFEST")) and not list((tmp_path / "pub").glob("v*/MANIFEST"))
    run(*args)
    assert len(list((tmp_path / "pub").glob("v*/MANIFEST"))) == 1
    run(*args)  # Nothing is new: nothing is published again.
    assert len(list((tmp_path / "pub").glob("v*/MANIFEST"))) == 1


def test_killed_learner_counts_each_file_once(tmp_path, data):
    """Killed right after learning a file, before the cut: the restart learns it again from the cut."""
    table = pq.ParquetDataset(data / "train").read()
    text = harness.CONFIG.replace("epochs: 1", "epochs: 1, threads: 1")

    def learn(name, envs):
        watch = tmp_path / f"in-{name}"
        watch.mkdir()
        for n in range(4):
            feed(table, watch, n)
        config = write_config(tmp_path / f"{name}.yaml", data, tmp_path / f"run-{name}", text=text)
        args = ("online", "--config", config, "--watch", watch, "--publish_to", tmp_path / f"pub-{name}",
                "--publish_every", 0, "--poll", 0.05, "--idle_exit", 0.3)
        for env in envs:
            assert harness.start(*args, env=env).wait(timeout=120) == -signal.SIGKILL
        result = run_json(*args)
        newest = sorted((tmp_path / f"pub-{name}").iterdir())[-1]
        return result, {p.name: p.read_bytes() for p in newest.iterdir() if p.name != "MANIFEST"}

    calm, calm_files = learn("calm", [])
    killed, killed_files = learn("killed", [{"STARLING_KILL_AT": "online:file_learned:2"},
                                            {"STARLING_KILL_AT": "checkpoint:after_parts:1"}])
    assert calm["files"] == killed["files"] == 4
    assert calm["samples"] == killed["samples"] == 20000
    assert calm_files == killed_files
