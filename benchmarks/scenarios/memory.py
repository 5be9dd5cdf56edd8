"""Memory of this process, by kind."""

from __future__ import annotations

from pathlib import Path

KINDS = ("rss", "private", "anonymous", "file", "shared_memory")


def reset_peak() -> None:
    """Makes the peak start again from now, where the system lets us."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _fields(path: str) -> dict[str, int]:
    """Kilobytes by name."""
    found = {}
    for line in Path(path).read_text().splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB":
            found[name] = int(words[0])
    return found


def now_mb() -> dict[str, float]:
    """Megabytes at present.

    Returns:
        ``rss``: all resident pages; ``private``: those that no other process has mapped now, file
        pages included; ``anonymous``: those that are this process's alone and not of a file;
        ``file``: mapped files, which the kernel can drop; ``shared_memory``: files in memory.
    """
    smaps = _fields("/proc/self/smaps_rollup")
    status = _fields("/proc/self/status")
    kilobytes = {
        "rss": smaps["Rss"],
        "private": smaps["Private_Clean"] + smaps["Private_Dirty"],
        "anonymous": status["RssAnon"],
        "file": status["RssFile"],
        "shared_memory": status["RssShmem"],
    }
    return {name: value * 1024 / 1e6 for name, value in kilobytes.items()}


def peak_rss_mb() -> float:
    """Highest resident megabytes since `reset_peak`."""
    return _fields("/proc/self/status")["VmHWM"] * 1024 / 1e6


class Watch:
    """The highest of what is seen, over what there is when the watch begins."""

    def __init__(self) -> None:
        reset_peak()
        self.start = now_mb()
        self.highest = dict(self.start)

    def look(self) -> None:
        """Samples; about a millisecond."""
        for name, value in now_mb().items():
            self.highest[name] = max(self.highest[name], value)

    def result(self) -> dict[str, float]:
        """Megabytes over the start by kind; ``peak_rss`` is the kernel's, not sampled."""
        self.look()
        over = {name: self.highest[name] - self.start[name] for name in KINDS}
        return {
            "imports_rss": self.start["rss"],
            "peak_rss": peak_rss_mb() - self.start["rss"],
        } | over
