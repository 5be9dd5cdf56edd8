"""Records a simulated robot, samples training batches, and reads the same files with others.

HalfCheetah-v5 (MuJoCo) runs several episodes of random motor babbling; every transition is
appended to a `ReplayBuffer` on `ParquetStorage`. The buffer is reopened read-only, 1,000 random
batches are drawn, and DuckDB and Polars read the same Parquet files with equal sums.

    make demo

Environment: UNIENV_DEMO_STEPS (default 20000), UNIENV_DEMO_OUTPUT (default demo_output).
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import duckdb
import gymnasium
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from tqdm import tqdm

from unienv_data import ReplayBuffer
from unienv_data.storages.parquet import ParquetStorage
from unienv_interface.backends.numpy import NumpyComputeBackend
from unienv_interface.space import BinarySpace, BoxSpace, DictSpace, TextSpace

STEPS = int(os.environ.get("UNIENV_DEMO_STEPS", "20000"))
OUTPUT = Path(os.environ.get("UNIENV_DEMO_OUTPUT", "demo_output"))
TASK = "run forward"
BATCHES = 1000
BATCH_SIZE = 256


def sample_space(env: gymnasium.Env[Any, Any]) -> DictSpace:
    """Space of one transition."""

    def box(shape: tuple[int, ...], dtype: Any) -> BoxSpace:
        return BoxSpace(NumpyComputeBackend, -np.inf, np.inf, dtype, shape=shape)

    observation, action = env.observation_space.shape, env.action_space.shape
    assert observation is not None
    assert action is not None
    return DictSpace(
        NumpyComputeBackend,
        {
            "obs": box(observation, np.float64),
            "action": box(action, np.float32),
            "reward": box((), np.float64),
            "terminated": BinarySpace(NumpyComputeBackend, ()),
            "truncated": BinarySpace(NumpyComputeBackend, ()),
            "next_obs": box(observation, np.float64),
            "task": TextSpace(NumpyComputeBackend, 64),
        },
    )


def babble(env: gymnasium.Env[Any, Any], seed: int) -> Any:
    """An endless stream of smooth random actions, so that the robot moves instead of trembling."""
    rng = np.random.default_rng(seed)
    space = env.action_space
    action = np.zeros(space.shape, np.float32)
    while True:
        action = 0.9 * action + 0.45 * rng.normal(size=action.shape)
        yield np.clip(action, space.low, space.high).astype(np.float32)  # type: ignore[attr-defined]


def record(directory: Path) -> tuple[float, int]:
    """Runs the robot and appends every transition; gives seconds spent in the buffer and rows."""
    env = gymnasium.make("HalfCheetah-v5")
    buffer = ReplayBuffer.create(
        ParquetStorage,
        sample_space(env),
        cache_path=str(directory),
        maintain_segment_metadata=True,
    )
    writing = 0.0
    rows = episode = 0
    with tqdm(total=STEPS, unit="step", desc="recording") as progress:
        while rows < STEPS:
            obs, _ = env.reset(seed=episode)
            for action in babble(env, episode):
                next_obs, reward, terminated, truncated, _ = env.step(action)
                started = time.perf_counter()
                buffer.append(
                    {
                        "obs": obs,
                        "action": action,
                        "reward": float(reward),
                        "terminated": bool(terminated),
                        "truncated": bool(truncated),
                        "next_obs": next_obs,
                        "task": TASK,
                    }
                )
                writing += time.perf_counter() - started
                obs, rows = next_obs, rows + 1
                progress.update()
                if terminated or truncated:
                    break
            buffer.mark_segment_end()
            episode += 1
    started = time.perf_counter()
    buffer.close()
    env.close()
    return writing + time.perf_counter() - started, rows


def sample(buffer: Any) -> float:
    """Draws random batches; gives batches a second."""
    rng = np.random.default_rng(0)
    indexes = [rng.integers(0, len(buffer), BATCH_SIZE) for _ in range(BATCHES)]
    started = time.perf_counter()
    for index in tqdm(indexes, unit="batch", desc="sampling"):
        batch = buffer.get_at(index)
        assert batch["obs"].shape[0] == BATCH_SIZE
    return BATCHES / (time.perf_counter() - started)


def compare(buffer: Any, pattern: str) -> dict[str, float]:
    """Sum of all rewards as this library, DuckDB and Polars read it; they must be equal."""
    ours = float(np.sort(buffer.get_at(...)["reward"]).sum())
    query = f"SELECT reward FROM read_parquet('{pattern}')"
    by_duckdb = duckdb.sql(query).fetchnumpy()["reward"]
    by_polars = pl.read_parquet(pattern)["reward"].to_numpy()
    sums = {
        "unienv-data": ours,
        "DuckDB": float(np.sort(by_duckdb).sum()),
        "Polars": float(np.sort(by_polars).sum()),
    }
    if len(set(sums.values())) != 1:
        raise SystemExit(f"the readers disagree: {sums}")
    return sums


def draw(buffer: Any, path: Path) -> None:
    """Returns of the episodes, and a joint's angle over the first one."""
    segments = buffer.get_segments()
    rewards = buffer.get_column("reward").get_at(...)
    returns = [float(rewards[start:end].sum()) for start, end in segments]
    start, end = segments[0]
    angle = buffer.get_column("obs").get_at(slice(start, min(end, start + 300)))[:, 2]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    left.bar(range(len(returns)), returns)
    left.xaxis.get_major_locator().set_params(integer=True)
    left.set(title="Return of each episode", xlabel="episode", ylabel="sum of rewards")
    right.plot(angle)
    right.set(title="Back thigh, first episode", xlabel="step", ylabel="angle (rad)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Runs the whole demonstration."""
    directory = OUTPUT / "half_cheetah"
    shutil.rmtree(directory, ignore_errors=True)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    seconds, rows = record(directory)
    pattern = str(directory / "storage" / "part-*.parquet")
    pieces = list((directory / "storage").glob("part-*.parquet"))
    with ReplayBuffer.load_from(
        str(directory), backend=NumpyComputeBackend, read_only=True
    ) as buffer:
        batches = sample(buffer)
        sums = compare(buffer, pattern)
        picture = OUTPUT / "half_cheetah.png"
        draw(buffer, picture)
        table = [
            ("rows", f"{len(buffer):,}"),
            ("episodes", f"{len(buffer.get_segments() or []):,}"),
            ("Parquet files", f"{len(pieces)}"),
            ("MB on disk", f"{sum(p.stat().st_size for p in pieces) / 1e6:.1f}"),
            ("rows/s written", f"{rows / seconds:,.0f}"),
            (f"random batches of {BATCH_SIZE}/s", f"{batches:,.0f}"),
            *((f"sum of rewards, {name}", f"{value:.6f}") for name, value in sums.items()),
        ]
    print()
    for name, value in table:
        print(f"{name:<28} {value:>16}")
    print(f"\ndata:    {directory}\npicture: {picture}")


if __name__ == "__main__":
    main()
