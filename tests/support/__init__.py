"""Helpers that several kinds of tests share: stacks, processes, stubs at the wire, models, graphs."""
