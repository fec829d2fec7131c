"""Files, states, random streams, failures of the machine: what every other folder may use."""
