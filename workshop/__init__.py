"""Holds training and benches for developers. In no image; imports the rest, nothing imports it."""
