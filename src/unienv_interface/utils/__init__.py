"""Small helpers: names of classes and functions, nested dicts, seeds."""
