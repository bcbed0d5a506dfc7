"""What processes of `forked.py` begin with: the whole program is loaded, and has run once."""

import gc
import pkgutil
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO

import grove
from grove.cli.main import main

for module in pkgutil.walk_packages(grove.__path__, "grove."):
    import_module(module.name)
# What a terminal needs.
import_module("rich.live")
with redirect_stdout(StringIO()):
    assert main(["version"]) == 0
gc.collect()
gc.freeze()
