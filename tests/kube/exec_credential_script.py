"""A real credential plugin: a shell script that counts its runs and says what the test wrote down for it."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from grove.api.types.meta import JsonObject
from grove.kube.kubeconfig import ExecPlugin, InteractiveMode

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


class PluginScript:
    """In a folder of its own: `plugin.sh`, `answer.json`, `asked.json` (what it was told), `runs` (a line each)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "plugin.sh"
        self.does('cat "$HERE/answer.json"')

    def does(self, commands: str) -> "PluginScript":
        lines = (
            "#!/bin/sh",
            f"HERE='{self.folder}'",
            'echo run >> "$HERE/runs"',
            'printf %s "$KUBERNETES_EXEC_INFO" > "$HERE/asked.json"',
            commands,
        )
        self.path.write_text("\n".join(lines) + "\n")
        self.path.chmod(0o755)
        return self

    @staticmethod
    def answer(*, expires_at: datetime | None = None, api_version: str = V1, **status: str) -> str:
        expiry = {} if expires_at is None else {"expirationTimestamp": expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status | expiry})

    def says(self, *, expires_at: datetime | None = None, api_version: str = V1, **status: str) -> "PluginScript":
        return self.prints(self.answer(expires_at=expires_at, api_version=api_version, **status))

    def prints(self, text: str) -> "PluginScript":
        # Replaced as a whole: a run may be reading it.
        new = self.folder / "answer.new"
        new.write_text(text)
        new.rename(self.folder / "answer.json")
        return self

    @property
    def run_count(self) -> int:
        runs = self.folder / "runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    @property
    def asked(self) -> JsonObject:
        question: JsonObject = json.loads((self.folder / "asked.json").read_text())
        return question

    def plugin(self, **fields: Any) -> ExecPlugin:
        return ExecPlugin(
            **{
                "api_version": V1,
                "command": str(self.path),
                "interactive_mode": InteractiveMode.NEVER,
                **fields,
            }
        )
