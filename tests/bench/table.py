# SPDX-License-Identifier: MIT
"""The comparison of counted figures with recorded ones: docs/benchmarks.md.

A row is {"instructions": N, "ns": N}, recorded ones may have "tolerance" (percent) and its "reason" besides.
"""
import json

TOLERANCE = 2.0
# Where the figures were recorded with another compiler, libc, kernel or QEMU.
TOLERANCE_OF_OTHER_TOOLS = 50.0
FIGURES = ("instructions", "ns")


class BadRecord(Exception):
    """The file of recorded figures is not one; the text says what is wrong where."""


def load(path):
    """(what the figures were taken with, rows)."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError) as error:
        raise BadRecord(f"{path}: {error}") from error
    if not isinstance(content, dict) or set(content) != {"spdx", "taken with", "rows"}:
        raise BadRecord(f'{path}: "spdx", "taken with" and "rows" are expected')
    for name, row in content["rows"].items():
        check_row(f"{path}: row {name}", row)
    return content["taken with"], content["rows"]


def check_row(where, row):
    """Raises BadRecord."""
    for figure in FIGURES:
        if not isinstance(row.get(figure), (int, float)) or row[figure] <= 0:
            raise BadRecord(f"{where}: {figure} is {row.get(figure)!r}, expected a number above 0")
    if set(row) - {*FIGURES, "tolerance", "reason"}:
        raise BadRecord(f"{where}: unknown: {', '.join(sorted(set(row) - {*FIGURES, 'tolerance', 'reason'}))}")
    if ("tolerance" in row) != ("reason" in row):
        raise BadRecord(f"{where}: a tolerance has a reason")
    if not isinstance(row.get("tolerance", TOLERANCE), (int, float)):
        raise BadRecord(f"{where}: tolerance is {row['tolerance']!r}, expected percent")


def dump(taken_with, rows):
    """The file's text: sorted, a row a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(rows[name], sort_keys=True)}" for name in sorted(rows)]
    head = [f"  {json.dumps(name)}: {json.dumps(taken_with[name])}" for name in sorted(taken_with)]
    return ('{\n "spdx": "MIT",\n "taken with": {\n' + ",\n".join(head) + '\n },\n "rows": {\n' + ",\n".join(lines)
            + "\n }\n}\n")


def accept(measured, recorded):
    """The rows to record: tolerances stay."""
    return {name: {**{key: recorded[name][key] for key in ("tolerance", "reason") if key in recorded.get(name, {})},
                   "instructions": round(row["instructions"], 1), "ns": round(row["ns"])}
            for name, row in measured.items()}


def strangers(taken_with, now):
    """What differs between two sets of tools, as sentences."""
    return [f"{name}: recorded with {taken_with.get(name, 'none')}, this is {now.get(name, 'none')}"
            for name in sorted({*taken_with, *now}) if taken_with.get(name) != now.get(name)]


class Comparison:
    """One row. verdict: "", "WORSE", "better", "NEW" (not recorded), "GONE" (recorded, not measured)."""

    def __init__(self, name, measured, recorded, least):
        self.name = name
        self.measured = measured
        self.recorded = recorded
        self.tolerance = max((recorded or {}).get("tolerance", TOLERANCE), least)
        self.percent = {figure: 100 * (measured[figure] - recorded[figure]) / recorded[figure] if measured and recorded
                        else None for figure in FIGURES}
        self.verdict = self._verdict()

    def _verdict(self):
        if not self.recorded:
            return "NEW"
        if not self.measured:
            return "GONE"
        if max(self.percent.values()) > self.tolerance:
            return "WORSE"
        return "better" if min(self.percent.values()) < -self.tolerance else ""

    @property
    def failed(self):
        return self.verdict in ("WORSE", "NEW", "GONE")


def compare(measured, recorded, least=0.0):
    """Comparisons: those that were measured in their order, then those that are gone. least: tolerance of each, in
    percent, where its own is smaller."""
    names = list(measured) + sorted(set(recorded) - set(measured))
    return [Comparison(name, measured.get(name), recorded.get(name), least) for name in names]


def ratio(name, peers, measured):
    """How many times the instructions of its peer; None without one."""
    peer = measured.get(peers.get(name))
    return measured[name]["instructions"] / peer["instructions"] if peer else None


def lines(comparisons, peers, measured):
    """The table's."""
    number = lambda row, figure: f"{row[figure]:.0f}" if row else "-"
    percent = lambda value: "-" if value is None else f"{round(value, 2) + 0:+.2f} %"  # without -0
    yield (f"{'operation':16} {'instructions':>12} {'recorded':>12} {'':>9} {'virtual ns':>12} {'recorded':>12} {'':>9}"
           f"  ratio to its peer")
    for c in comparisons:
        times = ratio(c.name, peers, measured) if c.measured else None
        beside = f"{times:.2f} x {peers[c.name]}" if times is not None else ""
        verdict = c.verdict + (f" (limit {c.tolerance:g} %)" if c.verdict == "WORSE" else "")
        cells = [f"{number(c.measured, figure):>12} {number(c.recorded, figure):>12} {percent(c.percent[figure]):>9}"
                 for figure in FIGURES]
        yield f"{c.name:16} {cells[0]} {cells[1]}  {beside:24} {verdict}".rstrip()
