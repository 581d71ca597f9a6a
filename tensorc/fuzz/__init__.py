"""The fuzzing harness: generator, oracles, reducer, targets."""
