"""Owns the version of this release, as pyproject.toml has it: images hold no metadata of packages."""

VERSION = "0.2.0"
# On refusals, so that a client of another release can name both versions; only admitted callers get it.
VERSION_HEADER = "x-stack-version"
