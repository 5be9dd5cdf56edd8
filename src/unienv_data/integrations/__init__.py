"""Formats and programs of others."""
