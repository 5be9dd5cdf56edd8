"""`unienv-data verify PATH` and `unienv-data repair PATH`."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict

from unienv_data.errors import UniEnvError
from unienv_data.tools.findings import Progress, RepairReport, Report
from unienv_data.tools.repair import repair
from unienv_data.tools.verify import verify

__all__ = ["main"]

_EPILOG = "exit codes: 0 clean, 1 findings (or repairs), 2 unusable, or no data set at all"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code: 0 clean, 1 findings, 2 unusable."""
    parser = argparse.ArgumentParser(prog="unienv-data", epilog=_EPILOG)
    commands = parser.add_subparsers(dest="command", required=True)
    checker = commands.add_parser("verify", help="look for damage; never writes", epilog=_EPILOG)
    checker.add_argument("--full", action="store_true", help="read every page and check values")
    mender = commands.add_parser("repair", help="save what can be verified", epilog=_EPILOG)
    mender.add_argument("--dry-run", action="store_true", help="say it without doing it")
    mender.add_argument(
        "--zero-damaged", action="store_true", help="damaged rows of bounded storages become zeros"
    )
    for command in (checker, mender):
        command.add_argument("path", metavar="PATH", help="directory of a storage or buffer")
        command.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    progress = _bar() if sys.stderr.isatty() and not options.json else None
    report: Report | RepairReport
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if options.command == "verify":
                report = verify(options.path, full=options.full, progress=progress)
            else:
                report = repair(
                    options.path,
                    dry_run=options.dry_run,
                    zero_damaged=options.zero_damaged,
                    progress=progress,
                )
    except (UniEnvError, OSError) as error:
        _fail(error, as_json=options.json)
        return 2
    if options.json:
        sys.stdout.write(json.dumps({**asdict(report), "exit_code": report.exit_code}) + "\n")
    else:
        sys.stdout.write(_text(report))
    return report.exit_code


def _fail(error: Exception, *, as_json: bool) -> None:
    if as_json:
        facts = {"error": type(error).__name__, "message": str(error), "exit_code": 2}
        sys.stdout.write(json.dumps(facts) + "\n")
    else:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")


def _text(report: Report | RepairReport) -> str:
    if isinstance(report, Report):
        lines = [str(finding) for finding in report.findings]
        how = "every page" if report.is_full else "manifest, footers and sizes"
        state = "clean" if report.is_clean else "findings as above"
        if not report.is_usable:
            state = "unusable"
        lines.append(
            f"{report.path}: {state}; {report.num_rows} rows in {report.num_pieces} pieces, "
            f"{how} looked at"
        )
    else:
        lines = [str(action) for action in report.actions]
        done = "would be done" if report.is_dry_run else "done"
        lines.append(
            f"{report.path}: {len(report.actions)} steps {done}"
            + (f"; taken out files are in {report.dropped}" if report.dropped else "")
            + ("" if report.is_usable else "; unusable all the same")
        )
    return "\n".join(lines) + "\n"


def _bar() -> Progress:
    """A line on the terminal that is renewed ten times a second."""
    last = 0.0

    def show(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < 0.1 and done < total:
            return
        last = now
        filled = 40 * done // max(total, 1)
        sys.stderr.write(f"\r[{'#' * filled}{'.' * (40 - filled)}] {done}/{total} pieces")
        if done >= total:
            sys.stderr.write("\n")
        sys.stderr.flush()

    return show
