"""Passes: one function IR -> IR in a file of its own name."""
