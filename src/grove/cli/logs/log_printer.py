"""Print the lines of several pods: with a colored prefix on a terminal, plain when piped, or as JSON."""

from grove.cli.common import output
from grove.cli.common.output import Cell, Format, Tone
from grove.cli.common.pod_prefix import PodPrefixes, strip_controls
from grove.operations.logs.log_reader import ContainerRun, LogRecord


class LogPrinter:
    def __init__(self, output_format: Format, *, has_prefix: bool) -> None:
        self._format = output_format
        self._has_prefix = has_prefix
        self._prefixes = PodPrefixes()

    def print_record(self, record: LogRecord) -> None:
        if self._format is Format.JSON:
            output.print_json_line(record.to_json())
        elif not self._has_prefix:
            output.print_line(record.text)
        elif output.is_terminal():
            text = Cell(f"| {strip_controls(record.text)}")
            output.print_rows([(self._prefix(record.run), text)])
        else:
            output.print_line(f"{self._prefix(record.run).text} | {record.text}")

    async def write(self, record: LogRecord) -> None:
        self.print_record(record)

    def start(self, run: ContainerRun) -> None:
        self._remark(f"+ {run.label}")

    def end(self, run: ContainerRun) -> None:
        self._remark(f"- {run.label}")

    def warn(self, text: str) -> None:
        output.print_error(text)

    def _prefix(self, run: ContainerRun) -> Cell:
        return self._prefixes.cell(run.label, run.host)

    def _remark(self, text: str) -> None:
        """Print to stderr which log begins or ends, for people who watch."""
        if self._format is Format.TEXT and output.is_terminal():
            output.print_error_row((Cell(text, Tone.FAINT),))
