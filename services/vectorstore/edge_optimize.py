"""Builds the approximate index of an Edge shard: `python edge_optimize.py PATH`, in a process of its own.

qdrant-edge-py 0.9.0 holds the GIL while it optimises (5,200 vectors: 1.1 s in which no other thread of the process ran
a line), so that inside the service every query, and /livez, would stand still.
"""

import os
import sys

import qdrant_edge


def optimise(path: str) -> None:
    """Merges and indexes the segments of the shard in `path`, until none is left to be done."""
    os.nice(10)  # queries go on meanwhile, in the process that asked for this
    shard = qdrant_edge.EdgeShard.load(path)
    shard.optimize()
    shard.flush()
    shard.close()


if __name__ == "__main__":
    optimise(sys.argv[1])
