"""Everything that crosses a process boundary, as frozen pydantic models; nothing else lives here."""
