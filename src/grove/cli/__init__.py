"""The command line of Grove: options, wiring and output. It makes no decisions about the workload."""
