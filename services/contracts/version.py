"""Owns the version of this release, as pyproject.toml has it: images hold no metadata of packages."""

VERSION = "0.1.0"
# Of refusals, so that a client of another release can name both; nobody who lacks a key is told.
VERSION_HEADER = "x-stack-version"
