"""Checks the stack's promises in long runs on real processes and sockets: hostile input, faults, kills.

`python -m tests.soak [name] [--seed N]` runs in full and writes docs/soak; CI runs a small part of each
(tests/integration/test_soak.py).
"""
