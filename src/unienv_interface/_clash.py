"""Refuses to run half of one distribution and half of another."""

from __future__ import annotations

from importlib import metadata

__all__ = ["check"]


def check() -> None:
    """Raises when the distribution `unienv`, which owns the same import names, is installed too.

    Raises:
        ImportError: Names both distributions and the remedy.
    """
    try:
        version = metadata.version("unienv")
    except metadata.PackageNotFoundError:
        return
    raise ImportError(
        f"the distributions 'unienv' ({version}) and 'unienv-data' both install the packages "
        "unienv_interface and unienv_data, and are mixed in this environment; mend it with: "
        "pip uninstall unienv unienv-data && pip install unienv-data"
    )
