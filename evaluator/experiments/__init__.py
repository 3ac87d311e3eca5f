"""Describes what a run is to do: experiments, plans of traffic, gates and suites. The bundled ones lie here as YAML."""
