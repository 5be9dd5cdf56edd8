"""Looking after data sets: `verify`, `repair`, and their command line."""
