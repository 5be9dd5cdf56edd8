"""Classes and functions by name."""

from __future__ import annotations

import base64
import importlib
import pickle
from collections.abc import Mapping
from typing import Any

from unienv_interface.errors import UniEnvError

__all__ = [
    "SymbolError",
    "deserialize_function",
    "get_class_from_full_name",
    "get_full_class_name",
    "get_full_function_name",
    "get_function_from_full_name",
    "serialize_function",
]

_RENAMED = {
    "unienv_data.storages.common.FlattenedStorage": (
        "unienv_data.storages.flattened.FlattenedStorage"
    )
}


class SymbolError(UniEnvError, ImportError, ValueError):
    """A name does not lead to a class or function, or is not allowed to."""


def get_full_class_name(cls: type) -> str:
    """``module.qualname`` of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def get_class_from_full_name(full_name: str) -> Any:
    """The class or function of a name.

    Imports the longest importable prefix; only for names that the program itself wrote. Names in
    files are resolved by `unienv_data.storages.registry`.

    Raises:
        SymbolError: There is none.
    """
    parts = _RENAMED.get(full_name, full_name).split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:cut])
        try:
            found: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and not f"{module_name}.".startswith(f"{error.name}."):
                raise  # a module that this one imports
            continue
        except (TypeError, ValueError) as error:  # a name that begins with a dot
            raise SymbolError(f"{full_name!r} is no full name") from error
        try:
            for part in parts[cut:]:
                found = getattr(found, part)
        except AttributeError as error:
            raise SymbolError(f"{module_name} has no {'.'.join(parts[cut:])}") from error
        return found
    raise SymbolError(f"no module leads to {full_name!r}")


def get_full_function_name(function: Any) -> str:
    """``module.qualname`` of a function."""
    return f"{function.__module__}.{function.__qualname__}"


def get_function_from_full_name(full_name: str) -> Any:
    """The function of a name; as `get_class_from_full_name`.

    Raises:
        SymbolError: There is none.
    """
    return get_class_from_full_name(full_name)


def serialize_function(function: Any) -> dict[str, str]:
    """A function as JSON data: by name where that finds it again, else pickled.

    Raises:
        SymbolError: It can neither be found by name nor pickled.
    """
    try:
        name = get_full_function_name(function)
        if get_class_from_full_name(name) is function:
            return {"mode": "name", "value": name}
    except (AttributeError, ImportError, ValueError):
        pass  # a lambda, a local function or a partial: pickled below
    try:
        payload = _pickler().dumps(function)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise SymbolError(
            f"{function!r} cannot be pickled; define it in a module, or install cloudpickle"
        ) from error
    return {"mode": "pickle", "value": base64.b64encode(payload).decode()}


def _pickler() -> Any:
    """Module with `dumps`: cloudpickle takes lambdas too."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return pickle


def deserialize_function(data: Mapping[str, str], *, allow_pickle: bool = False) -> Any:
    """The function of JSON data.

    Args:
        data: What `serialize_function` gave.
        allow_pickle: Unpickle, which runs whatever the data's author wished.

    Raises:
        SymbolError: A pickle without permission, or an unknown mode.
    """
    mode = data.get("mode")
    if mode == "name":
        return get_class_from_full_name(data["value"])
    if mode == "pickle" and allow_pickle:
        return pickle.loads(base64.b64decode(data["value"]))
    if mode == "pickle":
        raise SymbolError(
            "the function is pickled, and unpickling runs foreign code; pass allow_pickle=True "
            "if you trust its author"
        )
    raise SymbolError(f"unknown mode {mode!r} of a serialized function")
