"""The horizontal pod autoscaler of the embedded cluster."""
