"""Runs <dir>/<n>.onnx by onnxruntime on the inputs in <dir>/<n>.json and compares the scores (dense_net/onnx_test.cc)."""

import json
import pathlib
import sys

import numpy as np
import onnxruntime

checked = 0
for case in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    told = json.loads(case.read_text())
    session = onnxruntime.InferenceSession(str(case.with_suffix(".onnx")), providers=["CPUExecutionProvider"])
    wanted = {i.name: i for i in session.get_inputs()}
    assert set(wanted) == set(told["inputs"]), (told["model"], set(wanted))
    inputs = {}
    for name, value in told["inputs"].items():
        kind = np.int64 if wanted[name].type == "tensor(int64)" else np.float32
        inputs[name] = np.array(value["values"], kind).reshape(value.get("shape") or [-1, *wanted[name].shape[1:]])
    for name, scores in told["outputs"].items():
        got = session.run([name], inputs)[0]
        np.testing.assert_allclose(got.ravel(), scores, rtol=1e-5, atol=1e-7, err_msg=told["model"])
    if match := told.get("match"):  # Two towers: the score follows from their vectors.
        user, item = session.run(["user_vector", "item_vector"], inputs)
        logit = match["scale"] * (user * item).sum(1) + match["bias"]
        np.testing.assert_allclose(1 / (1 + np.exp(-logit)), match["scores"], rtol=1e-5, err_msg=told["model"])
    checked += 1
print(f"{checked} models")
assert checked == int(sys.argv[2])
