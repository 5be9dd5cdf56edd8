"""Workloads, stores and scenarios of the benchmarks."""
