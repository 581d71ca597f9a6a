"""Arrays, cache, loaded kernels and launchers."""
