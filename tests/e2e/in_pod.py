"""`python -m tests.e2e.in_pod FOLDER COMMAND...`: grove as in a pod whose service account is mounted at FOLDER.

Only that path differs from a real pod; who may write there on this machine is not for a test to decide.
"""

import sys
from pathlib import Path

from grove.kube import kubeconfig

if __name__ == "__main__":
    kubeconfig.SERVICE_ACCOUNT = Path(sys.argv[1])
    from grove.cli.main import main

    sys.exit(main(sys.argv[2:]))
