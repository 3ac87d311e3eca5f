"""What tests of all kinds share: stacks, processes, doubles at the wire, models, graphs."""
