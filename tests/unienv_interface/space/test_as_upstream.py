"""The original library reads our spaces, and flattens and batches to the same values."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unienv_interface.backends import NumpyComputeBackend as B
from unienv_interface.space import batch_utils, flatten_utils
from unienv_interface.space.space_utils.serialization_utils import json_to_space, space_to_json
from unienv_interface.testing import KINDS, boxes, various

PROGRAM = """
import json, sys
import numpy as np
from unienv_interface.backends.numpy import NumpyComputeBackend as B
from unienv_interface.space import batch_utils, flatten_utils
from unienv_interface.space.space_utils.serialization_utils import json_to_space, space_to_json

answers = []
for data in json.load(sys.stdin):
    space = json_to_space(data, B, None)
    _, value = space.sample(B.random.random_number_generator(0))
    answer = {
        "json": space_to_json(space),
        "batched": space_to_json(batch_utils.batch_space(space, 3)),
        "size": flatten_utils.flat_dim(space),
    }
    if answer["size"]:
        flat = flatten_utils.flatten_data(space, value)
        answer["flat"], answer["dtype"] = flat.tolist(), str(flat.dtype)
    answers.append(answer)
json.dump(answers, sys.stdout)
"""


@pytest.mark.upstream
def test_same_answers(upstream_python: Path) -> None:
    chosen = [various(B)[kind].with_metadata(kind=kind) for kind in KINDS]
    # It cannot read float16.
    chosen += [box for box in boxes(B) if box.dtype != np.float16]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [upstream_python, "-W", "ignore", "-c", PROGRAM],
        input=json.dumps([space_to_json(space) for space in chosen]),
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    for space, answer in zip(chosen, json.loads(done.stdout), strict=True):
        compare(space, answer)


def compare(space: Any, answer: dict[str, Any]) -> None:
    assert json_to_space(answer["json"], B, None) == space
    assert answer["json"] == space_to_json(space)
    assert json_to_space(answer["batched"], B, None) == batch_utils.batch_space(space, 3)
    assert answer["size"] == flatten_utils.flat_dim(space)
    if "flat" in answer:
        flat = np.array(answer["flat"], answer["dtype"])
        value = flatten_utils.unflatten_data(space, flat)
        assert space.contains(value)
        again = flatten_utils.flatten_data(space, value)
        assert again.dtype == flat.dtype
        assert np.array_equal(again, flat)
