"""Two distributions with one import name."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from unienv_interface import _clash


def test_alone_is_fine() -> None:
    _clash.check()


def test_both_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: {"unienv": "0.0.1b16"}[name])
    with pytest.raises(ImportError, match="pip uninstall unienv unienv-data") as caught:
        _clash.check()
    assert "'unienv' (0.0.1b16)" in str(caught.value)


def test_optional_libraries_stay_out() -> None:
    code = (
        "import sys, unienv_interface.backends, unienv_interface.space\n"
        "print([m for m in ('torch', 'jax', 'gymnasium') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("library", "name"), [("torch", "pytorch"), ("jax", "jax")])
def test_a_missing_library_is_named_on_use(library: str, name: str) -> None:
    code = f"""
import sys
sys.modules[{library!r}] = None
from unienv_interface.backends import deserialize_backend, serialize_backend
from unienv_interface.errors import MissingDependencyError
B = deserialize_backend({name!r})
assert serialize_backend(B) == {name!r} and repr(B) == {name!r}
assert not B.is_backendarray(1)
for use in (
    lambda: B.zeros((1,)),
    lambda: B.float32,
    lambda: B.default_floating_dtype,
    lambda: B.from_numpy(1),
    lambda: B.random.random_number_generator(1),
    lambda: B.dtype_is_real_integer(int),
):
    try:
        use()
    except MissingDependencyError as error:
        assert "unienv-data[" in str(error), error
    else:
        raise SystemExit("not refused")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
