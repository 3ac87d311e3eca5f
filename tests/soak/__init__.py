"""Long runs against real processes over real sockets: what the stack promises under hostile input, faults and kills.

`python -m tests.soak [name] [--seed N]` runs in full and writes docs/soak; CI runs a small part of each
(tests/integration/test_soak.py).
"""
