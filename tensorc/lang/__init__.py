"""Surfaces to surface tree to typed program: Python tracing, `.tc` text, einsum strings."""
