"""The shim sees every call that the kernel sees: counted beside strace."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from unienv_data.testing.faults import run_preloaded, why_unavailable

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))

LIFE = """
import os, sys, warnings
from pathlib import Path
from unienv_data.testing.faults import Shim
from unienv_data.testing.workloads import WORKLOADS

warnings.simplefilter("ignore")
shim = Shim()
total = 0
for number, work in enumerate(WORKLOADS):
    root = Path(sys.argv[1], str(number))
    root.mkdir()
    shim.arm("count", root)
    target = work.create(root)
    for action in work.actions:
        work.run(target, action, root)
    shim.disarm()
    total += shim.count
print(total)
"""

CALLS = (
    "open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,truncate,ftruncate,fallocate,fsync,"
    "fdatasync,syncfs,sync_file_range,msync,rename,renameat,renameat2,link,linkat,symlink,"
    "symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat,mmap,madvise,copy_file_range,sendfile,splice"
)
LINE = re.compile(r"^\d+\s+(\w+)\((.*)$")
CHANGES = ("O_CREAT", "O_TRUNC", "O_WRONLY", "O_RDWR")


def counted(text: str, root: str) -> Counter[str]:
    """Calls of a trace that change what lies below a directory."""
    kinds: Counter[str] = Counter()
    for line in text.splitlines():
        found = LINE.match(line)
        if found is None:
            continue  # the end of a call that another thread's interrupted
        name, rest = found.groups()
        if name == "madvise":
            kinds[name] += "MADV_REMOVE" in rest
            continue
        if f"{root}/" not in rest:
            continue
        if name in ("open", "openat") and not any(flag in rest for flag in CHANGES):
            continue
        if name == "mmap" and not ("MAP_SHARED" in rest and "PROT_WRITE" in rest):
            continue
        kinds[name] += 1
    return kinds


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_shim_counts_what_strace_counts(tmp_path: Path) -> None:
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    prefix = ["strace", "-f", "-y", "-s", "0", "-o", str(trace), "-e", f"trace={CALLS}"]
    done = run_preloaded(["-c", LIFE, str(root)], tmp_path, prefix=prefix, timeout_s=250)
    if "PTRACE" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    text = trace.read_text(errors="replace")
    kinds = counted(text, str(root.resolve()))
    made = len(list(root.iterdir()))  # the directories of the script itself
    assert int(done.stdout.split()[-1]) == kinds.total() - made, kinds
    assert {"openat", "pwrite64", "fallocate", "fsync", "rename", "unlink", "mmap"} <= set(kinds)
