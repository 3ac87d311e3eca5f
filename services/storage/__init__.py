"""Holds the parts that all stores share: builds, stamps, write order, fields, ties, Edge directories, indices."""
