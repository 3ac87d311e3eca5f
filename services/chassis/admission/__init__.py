"""Bounds the work in flight: lanes, their adaptive limits, and the turns of clients."""
