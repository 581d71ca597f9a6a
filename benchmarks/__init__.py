"""Measures of the project, one module a subject; each is run as `python -m benchmarks.<name>`."""
