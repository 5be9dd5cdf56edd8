"""Helpers to test storages with: strategies, an oracle, conformance and model tests.

Shipped for third parties; needs `hypothesis` and `pytest`. The library never imports it.
"""
