"""Online experiments: journals of gateways, the values of units, the report, and simulated users."""
