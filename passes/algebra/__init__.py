"""Equality saturation: terms, e-graph, rule tables, extraction, validation.

`saturate` is the pass; the rest is what it is made of.
"""
