"""Owns the wire: everything that crosses a process boundary, as frozen pydantic models. Holds nothing else."""
