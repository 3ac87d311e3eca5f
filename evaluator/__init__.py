"""Loads BEIR collections through the gateway, sends their queries, and measures quality and latency of the answers."""

import sys
from pathlib import Path

# The package for apps, which this one loads collections with: in a checkout and in an image it lies beside this one.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients" / "python"))
