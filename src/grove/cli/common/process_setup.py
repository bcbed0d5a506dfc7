"""Configure a process that runs a cluster: its log and its garbage collection."""

import gc

from grove.cli.common.log_format import log_to_stderr


def prepare_process() -> None:
    """Configure logging and garbage collection of a process that will run a cluster."""
    # Tracebacks without the values of variables, which may be whole objects with secrets.
    log_to_stderr(level="info", is_json=False)
    # There is almost no cyclic garbage, so frequent collections would only cost time.
    gc.freeze()
    gc.set_threshold(200_000, 50, 1_000)
    gc.enable()
