# SPDX-License-Identifier: MIT
"""The comparison of figures that have no noise with recorded ones: docs/develop/benchmarks.md.

A row of the file is {figure: N, ...}; recorded ones may have "tolerance" (percent: one number, or
{figure: N} for some of the figures) and its "reason" besides.
"""
import collections
import json
import os

# digits: behind the point, when it is recorded; None: an integer. limit: whether the row is worse where this is.
Figure = collections.namedtuple("Figure", "name title digits limit", defaults=(None, True))


class BadRecord(Exception):
    """The file of recorded figures is not one; the text says what is wrong where."""


def dump(taken_with, rows):
    """The file's text: sorted, a row a line."""
    def items(of):
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(of[name], sort_keys=True)}" for name in sorted(of))
        return "{\n" + lines + "\n }" if of else "{}"
    return f'{{\n "spdx": "MIT",\n "taken with": {items(taken_with)},\n "rows": {items(rows)}\n}}\n'


def strangers(taken_with, now):
    """What differs between two sets of tools, as sentences."""
    return [f"{name}: recorded with {taken_with.get(name, 'none')}, this is {now.get(name, 'none')}"
            for name in sorted({*taken_with, *now}) if taken_with.get(name) != now.get(name)]


class Comparison:
    """One row. verdict: "", "WORSE", "better", "NEW" (not recorded), "GONE" (recorded, not measured)."""

    def __init__(self, name, measured, recorded, tolerances):
        """tolerances: {figure: percent}, of the figures that count."""
        self.name = name
        self.measured = measured
        self.recorded = recorded
        self.tolerances = tolerances
        self.percent = {figure: 100 * (measured[figure] - recorded[figure]) / recorded[figure] if measured and recorded
                        else None for figure in tolerances}
        self.verdict = self._verdict()

    def _verdict(self):
        if not self.recorded:
            return "NEW"
        if not self.measured:
            return "GONE"
        if self.exceeded:
            return "WORSE"
        return "better" if any(self.percent[figure] < -most for figure, most in self.tolerances.items()) else ""

    @property
    def exceeded(self):
        """The tolerances that do not hold, in percent."""
        return [most for figure, most in self.tolerances.items() if self.percent[figure] > most]

    @property
    def failed(self):
        return self.verdict in ("WORSE", "NEW", "GONE")


class Table:
    """A file of recorded figures: what a row has, and what is said of it.

    subject: what a row is of. tolerance: percent, of rows without one. other_tools: percent, where the figures were
    recorded with other tools. accept: the command that records."""

    def __init__(self, subject, figures, tolerance, accept, other_tools=0.0):
        self.subject = subject
        self.figures = figures
        self.limits = [figure.name for figure in figures if figure.limit]
        self.tolerance = tolerance
        self.accept_command = accept
        self.other_tools = other_tools

    def load(self, path):
        """(what the figures were taken with, rows)."""
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
        except (OSError, ValueError) as error:
            raise BadRecord(f"{path}: {error}") from error
        if not isinstance(content, dict) or set(content) != {"spdx", "taken with", "rows"}:
            raise BadRecord(f'{path}: "spdx", "taken with" and "rows" are expected')
        for name, row in content["rows"].items():
            self._check_row(f"{path}: row {name}", row)
        return content["taken with"], content["rows"]

    def _check_row(self, where, row):
        """Raises BadRecord."""
        names = [figure.name for figure in self.figures]
        for name in names:
            if not isinstance(row.get(name), (int, float)) or row[name] <= 0:
                raise BadRecord(f"{where}: {name} is {row.get(name)!r}, expected a number above 0")
        if set(row) - {*names, "tolerance", "reason"}:
            raise BadRecord(f"{where}: unknown: {', '.join(sorted(set(row) - {*names, 'tolerance', 'reason'}))}")
        if ("tolerance" in row) != ("reason" in row):
            raise BadRecord(f"{where}: a tolerance has a reason")
        tolerances = self._tolerances(row)
        if set(tolerances) != set(self.limits) or not all(isinstance(x, (int, float)) for x in tolerances.values()):
            raise BadRecord(f"{where}: tolerance is {row['tolerance']!r}, expected percent, or percent by figure "
                            f"({', '.join(self.limits)})")

    def _tolerances(self, row):
        """{figure: percent} of a recorded row."""
        own = row.get("tolerance", {})
        return dict.fromkeys(self.limits, self.tolerance) | (
            own if isinstance(own, dict) else dict.fromkeys(self.limits, own))

    def accept(self, measured, recorded):
        """The rows to record: tolerances stay."""
        return {name: {**{key: recorded[name][key] for key in ("tolerance", "reason") if key in recorded.get(name, {})},
                       **{figure.name: round(row[figure.name], figure.digits) for figure in self.figures}}
                for name, row in measured.items()}

    def record(self, path, measured, now, whole):
        """Writes the file: all rows, or only those that were measured."""
        rows = {}
        if os.path.exists(path):
            taken_with, rows = self.load(path)
            if not whole and strangers(taken_with, now):
                raise BadRecord(f"only some {self.subject}s, and other tools than those of the others: "
                                + "; ".join(strangers(taken_with, now)))
        accepted = self.accept(measured, rows)
        with open(path, "w", encoding="utf-8") as file:
            file.write(dump(now, accepted if whole else {**rows, **accepted}))
        print(f"recorded in {os.path.relpath(path)}: say why in the commit")

    def compare(self, measured, recorded, least=0.0):
        """Comparisons: those that were measured in their order, then those that are gone. least: tolerance of each, in
        percent, where its own is smaller."""
        names = list(measured) + sorted(set(recorded) - set(measured))
        return [Comparison(name, measured.get(name), recorded.get(name),
                           {figure: max(most, least) for figure, most in
                            self._tolerances(recorded.get(name, {})).items()}) for name in names]

    def lines(self, comparisons, title, beside):
        """Those that are printed; title and beside(comparison): the last column."""
        number = lambda row, name: f"{row[name]:.0f}" if row else "-"
        percent = lambda value: "-" if value is None else f"{round(value, 2) + 0:+.2f} %"  # without -0
        limits = [figure for figure in self.figures if figure.limit]
        width = max([16, *(len(c.name) for c in comparisons)])
        heads = [f"{figure.title:>12} {'recorded':>12} {'':>9}" for figure in limits]
        yield f"{self.subject:{width}} {' '.join(heads)}  {title}"
        for c in comparisons:
            verdict = c.verdict + (f" (limit {min(c.exceeded):g} %)" if c.verdict == "WORSE" else "")
            cells = [f"{number(c.measured, name):>12} {number(c.recorded, name):>12} {percent(c.percent[name]):>9}"
                     for name in self.limits]
            yield f"{c.name:{width}} {' '.join(cells)}  {beside(c):{max(len(title), 24)}} {verdict}".rstrip()

    def judge(self, comparisons, strange=()):
        """Prints the verdict; returns the status. strange: in what the tools differ."""
        if strange:
            print(f"The recorded figures were taken with other tools, so {self.other_tools:g} % are allowed:")
            print("".join(f"  {line}\n" for line in strange) + f"{self.accept_command} records those of these tools.")
        failed = [c for c in comparisons if c.failed]
        for text, verdict in (("worse than their tolerance", "WORSE"),
                              (f"not recorded ({self.accept_command})", "NEW"),
                              (f"recorded, but there is no such {self.subject} ({self.accept_command})", "GONE"),
                              (f"better by more than their tolerance ({self.accept_command} keeps them so)", "better")):
            names = [c.name for c in comparisons if c.verdict == verdict]
            if names:
                print(f"{text}: {', '.join(names)}")
        print(f"{len(comparisons) - len(failed)} passed, {len(failed)} failed")
        return 1 if failed else 0
