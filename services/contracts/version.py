"""Owns the version of this release, as pyproject.toml has it: images hold no metadata of packages."""

VERSION = "0.1.0"
