"""Grove: gangs of pods on Kubernetes, all or nothing."""

# The build reads it too. Reading the metadata of the installed package would take longer than `grove version`.
__version__ = "0.1.0.dev0"
