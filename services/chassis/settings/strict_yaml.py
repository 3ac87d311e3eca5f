"""Parses YAML that people write. A repeated key of a mapping is an error; YAML's usual loader keeps one of them.

Does not open files, and does not know their models.
"""

from typing import Any

import yaml


class InvalidYaml(ValueError):
    """The text is not YAML; the message is one sentence, with the line if it is known."""


class StrictLoader(yaml.SafeLoader):
    """yaml.SafeLoader that refuses repeated keys. Aliases and merge keys (`<<`) work as there."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # When it is constructed, the keys that a merge brings stand beside those that replace them.
        node = super().compose_mapping_node(anchor)
        seen: set[object] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            value = key.value if key.tag == "tag:yaml.org,2002:value" else self.construct_object(key)
            if value in seen:
                line = key.start_mark.line + 1
                raise InvalidYaml(f"line {line}: the key '{key.value}' stands twice in one mapping; remove one of them")
            seen.add(value)
        return node


class StringsLoader(StrictLoader):
    """StrictLoader that leaves every scalar the string that is written: `yes`, `02139` and `2024-05-31` too."""

    yaml_implicit_resolvers = {}
    yaml_constructors = {}


def parse_yaml(text: str, loader: type[StrictLoader] = StrictLoader) -> Any:
    """Parses one YAML document. Raises InvalidYaml."""
    try:
        return yaml.load(text, loader)
    except InvalidYaml:
        raise
    except RecursionError as error:
        raise InvalidYaml("it is nested too deeply") from error
    # For invalid dates, numbers and booleans PyYAML raises Python's errors, not its own.
    except (yaml.YAMLError, ValueError, KeyError, AttributeError) as error:
        raise InvalidYaml(" ".join(str(error).split())) from error
