"""Adds fields to the records of a folder, as a later release of the same layout would."""

import hashlib
import json
from pathlib import Path

LATER = {"of_a_later_release": {"added": [1]}}


def add_later_fields(folder: Path) -> None:
    """Adds a field to every object of every record; `made_from` stays the hash of what the records were made from."""
    for file in folder.rglob("*.jsonl"):
        lines = [json.dumps(json.loads(line) | LATER, separators=(",", ":")) for line in file.read_text().splitlines()]
        file.write_text("".join(f"{line}\n" for line in lines))
    records = {file: json.loads(file.read_text()) | LATER for file in folder.glob("*.json")}
    for _ in records:  # as often as a hash can be of a file with hashes
        for file, record in records.items():
            for source in record.get("made_from", {}):
                record["made_from"][source] = hashlib.sha256((folder / source).read_bytes()).hexdigest()
            file.write_text(json.dumps(record))
