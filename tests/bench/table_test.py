#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of the comparison of counted figures (table.py), and of what counts.py and cycles.py take from it."""
import contextlib
import io
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

import counts  # pylint: disable=wrong-import-position  # noqa: E402
import cycles  # pylint: disable=wrong-import-position  # noqa: E402
import table  # pylint: disable=wrong-import-position  # noqa: E402


TABLE = counts.BOARDS["pc"].table


cycles_of = cycles.of_report


def row(instructions, ns=1000, **more):
    return {"instructions": instructions, "ns": ns, **more}


def verdicts(measured, recorded):
    return {c.name: c.verdict for c in TABLE.compare(measured, recorded)}


def judged(measured, recorded, other_tools=()):
    """(status, what is printed)."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        least = TABLE.other_tools if other_tools else 0.0
        status = TABLE.judge(TABLE.compare(measured, recorded, least), list(other_tools))
    return status, text.getvalue()


class Compare(unittest.TestCase):
    def test_the_limit_is_two_percent(self):
        recorded = {"a": row(1000)}
        self.assertEqual(verdicts({"a": row(1020)}, recorded), {"a": ""})
        self.assertEqual(verdicts({"a": row(1020.1)}, recorded), {"a": "WORSE"})
        self.assertEqual(verdicts({"a": row(980)}, recorded), {"a": ""})
        self.assertEqual(verdicts({"a": row(979.9)}, recorded), {"a": "better"})

    def test_either_figure_counts(self):
        self.assertEqual(verdicts({"a": row(1000, 1030)}, {"a": row(1000)}), {"a": "WORSE"})
        self.assertEqual(verdicts({"a": row(1000, 970)}, {"a": row(1000)}), {"a": "better"})

    def test_what_is_better_hides_nothing_that_is_worse(self):
        self.assertEqual(verdicts({"a": row(500, 1030)}, {"a": row(1000)}), {"a": "WORSE"})

    def test_a_row_has_its_own_tolerance(self):
        recorded = {"a": row(1000, tolerance=5, reason="r"), "b": row(1000)}
        self.assertEqual(verdicts({"a": row(1040), "b": row(1040)}, recorded), {"a": "", "b": "WORSE"})

    def test_a_figure_has_its_own_tolerance(self):
        recorded = {name: row(1000, tolerance={"ns": 15}, reason="r") for name in "abc"}
        measured = {"a": row(1020, 1150), "b": row(1020, 1151), "c": row(1021, 1150)}
        self.assertEqual(verdicts(measured, recorded), {"a": "", "b": "WORSE", "c": "WORSE"})
        _, _, b, c = TABLE.lines(TABLE.compare(measured, recorded), "ratio", lambda _: "")
        self.assertTrue(b.endswith("WORSE (limit 15 %)"), b)
        self.assertTrue(c.endswith("WORSE (limit 2 %)"), c)

    def test_new_and_gone(self):
        self.assertEqual(verdicts({"a": row(1)}, {"b": row(1)}), {"a": "NEW", "b": "GONE"})

    def test_the_ratio_is_of_instructions(self):
        measured = {"a": row(3000), "b": row(2000)}
        peers = {"a": "b", "b": None}
        self.assertEqual(counts.ratio("a", peers, measured), 1.5)
        self.assertIsNone(counts.ratio("b", peers, measured))
        self.assertIsNone(counts.ratio("a", peers, {"a": row(1)}))

    def test_the_table_shows_figures_and_verdict(self):
        measured = {"a": row(3000), "b": row(2000)}
        comparisons = TABLE.compare(measured, {"a": row(2000)})
        head, a, b = TABLE.lines(comparisons, "ratio", counts.beside({"a": "b", "b": None}, measured))
        self.assertIn("operation", head)
        for word in ("3000", "2000", "+50.00 %", "+0.00 %", "1.50 x b", "WORSE (limit 2 %)"):
            self.assertIn(word, a)
        self.assertTrue(b.endswith("NEW"))


class Judge(unittest.TestCase):
    def test_as_recorded(self):
        self.assertEqual(judged({"a": row(1)}, {"a": row(1)}), (0, "1 passed, 0 failed\n"))

    def test_worse_new_and_gone_fail(self):
        status, text = judged({"a": row(2000), "b": row(1), "c": row(1)}, {"a": row(1000), "c": row(1), "d": row(1)})
        self.assertEqual(status, 1)
        self.assertIn("worse than their tolerance: a\n", text)
        self.assertIn("not recorded (make bench-accept): b\n", text)
        self.assertIn("make bench-accept): d\n", text)
        self.assertTrue(text.endswith("1 passed, 3 failed\n"))

    def test_better_is_named_and_passes(self):
        status, text = judged({"a": row(900)}, {"a": row(1000)})
        self.assertEqual(status, 0)
        self.assertIn("make bench-accept keeps them so): a\n", text)

    def test_other_tools_may_be_half_as_much_worse(self):
        other = table.strangers({"kernel": "6.12.1", "libc": "2"}, {"kernel": "6.12.2", "libc": "2"})
        self.assertEqual(other, ["kernel: recorded with 6.12.1, this is 6.12.2"])
        status, text = judged({"a": row(1500)}, {"a": row(1000)}, other)
        self.assertEqual(status, 0)
        self.assertIn("kernel: recorded with 6.12.1, this is 6.12.2", text)
        self.assertIn("50 % are allowed", text)
        self.assertEqual(judged({"a": row(1501)}, {"a": row(1000)}, other)[0], 1)

    def test_tools_that_came_or_went(self):
        self.assertEqual(table.strangers({"a": "1"}, {"b": "2"}),
                         ["a: recorded with 1, this is none", "b: recorded with none, this is 2"])
        self.assertEqual(table.strangers({"a": "1"}, {"a": "1"}), [])


class Record(unittest.TestCase):
    def load(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            return TABLE.load(file.name)

    def test_what_is_recorded_is_read_again(self):
        rows = {"b": row(2.5), "a": row(1, tolerance=3, reason="r")}
        self.assertEqual(self.load(table.dump({"kernel": "k"}, rows)), ({"kernel": "k"}, rows))

    def test_a_row_a_line_sorted(self):
        text = table.dump({"kernel": "k"}, {"b": row(2), "a": row(1)}).splitlines()
        self.assertEqual(text[6:8],
                         ['  "a": {"instructions": 1, "ns": 1000},', '  "b": {"instructions": 2, "ns": 1000}'])

    def test_accepting_keeps_tolerances(self):
        recorded = {"a": row(1, tolerance=3, reason="r"), "gone": row(1)}
        self.assertEqual(TABLE.accept({"a": row(2.04, 5.6), "b": row(3)}, recorded),
                         {"a": row(2.0, 6, tolerance=3, reason="r"), "b": row(3)})

    def test_accepting_what_was_worse_passes_after(self):
        measured = {"a": row(2000.04, 1700.4)}
        self.assertEqual(verdicts(measured, TABLE.accept(measured, {"a": row(1000, 9)})), {"a": ""})

    def test_bad_records_are_named(self):
        for row_text, words in (('{"instructions": 0, "ns": 1}', "row a: instructions is 0"),
                                ('{"instructions": 1}', "row a: ns is None"),
                                ('{"instructions": 1, "ns": 1, "x": 1}', "unknown: x"),
                                ('{"instructions": 1, "ns": 1, "tolerance": 9}', "a tolerance has a reason"),
                                ('{"instructions": 1, "ns": 1, "tolerance": {"x": 9}, "reason": "r"}', "by figure"),
                                ('{"instructions": 1, "ns": 1, "tolerance": "9", "reason": "r"}', "percent")):
            text = '{"spdx": "MIT", "taken with": {}, "rows": {"a": %s}}' % row_text
            with self.subTest(text), self.assertRaisesRegex(table.BadRecord, words):
                self.load(text)
        for text, words in (("[]", '"taken with"'), ("{", "Expecting")):
            with self.subTest(text), self.assertRaisesRegex(table.BadRecord, words):
                self.load(text)

    def test_only_some_rows_need_the_tools_of_the_others(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            path = os.path.join(folder, "new.json")
            TABLE.record(path, {"a": row(1), "b": row(1)}, {"kernel": "k"}, True)
            TABLE.record(path, {"a": row(2)}, {"kernel": "k"}, False)
            self.assertEqual(TABLE.load(path)[1], {"a": row(2), "b": row(1)})
            with self.assertRaisesRegex(table.BadRecord, "only some operations"):
                TABLE.record(path, {"a": row(3)}, {"kernel": "l"}, False)
            TABLE.record(path, {"a": row(3)}, {"kernel": "l"}, True)
            self.assertEqual(TABLE.load(path), ({"kernel": "l"}, {"a": row(3)}))

    def test_the_projects_own_records_are_some(self):
        for name, known in (("pc", "wait"), ("soc", "clean")):
            board = counts.BOARDS[name]
            taken_with, rows = board.table.load(board.expected)
            self.assertIn("kernel", taken_with)
            self.assertIn(known, rows)
            with open(board.expected, encoding="utf-8") as file:
                self.assertEqual(file.read(), table.dump(taken_with, rows))


REPORT = """\
Conv_182                         Conv                 TIU+GDMA                       10      1   373.6 KiB      34632
local memory   4764.0 KiB of 8192.0 KiB
memory         coefficients 8872.3 KiB, inputs and outputs 592.0 KiB, activations 0 B
commands       TIU 161, GDMA 222
cycles         234815 (TIU at work 74 %, GDMA 83 %)
lower bound    151428 (arithmetic 70755, memory 151428): reached to 64 %
"""


class Cycles(unittest.TestCase):
    def row(self, cycles, **more):
        return {**cycles_of(REPORT), "cycles": cycles, **more}

    def verdict(self, measured, recorded):
        (comparison,) = cycles.TABLE.compare({"a": measured}, {"a": recorded})
        return comparison.verdict

    def test_the_report_is_read(self):
        self.assertEqual(cycles_of(REPORT), {"cycles": 234815, "arithmetic": 70755, "memory": 151428, "commands": 383,
                                             "lmem_kib": 4764.0})
        self.assertEqual(cycles_of(REPORT.replace("4764.0 KiB of", "512 B of"))["lmem_kib"], 0.5)
        self.assertEqual(cycles_of(REPORT.replace("4764.0 KiB of", "11.5 MiB of"))["lmem_kib"], 11776)

    def test_a_report_without_a_line_is_none(self):
        for word in ("local memory", "commands ", "cycles ", "lower bound"):
            with self.subTest(word), self.assertRaisesRegex(SystemExit, "no line like"):
                cycles_of(REPORT.replace(word, "?"))

    def test_the_limit_is_half_a_percent_of_cycles(self):
        self.assertEqual(self.verdict(self.row(100500), self.row(100000)), "")
        self.assertEqual(self.verdict(self.row(100501), self.row(100000)), "WORSE")
        self.assertEqual(self.verdict(self.row(99500), self.row(100000)), "")
        self.assertEqual(self.verdict(self.row(99499), self.row(100000)), "better")

    def test_other_figures_are_only_recorded(self):
        self.assertEqual(self.verdict(self.row(1, commands=9999, lmem_kib=8192), self.row(1)), "")
        self.assertEqual(cycles.TABLE.accept({"a": self.row(1, lmem_kib=1.26)}, {}), {"a": self.row(1, lmem_kib=1.3)})

    def test_the_table_has_the_nearer_bound(self):
        (comparison,) = cycles.TABLE.compare({"a": self.row(302856)}, {})
        self.assertEqual(cycles.beside(comparison).split(), "2.00 x memory 383 4764.0 KiB".split())

    def test_the_verdict_names_the_command(self):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            comparisons = cycles.TABLE.compare({"a": self.row(9), "b": self.row(9)}, {"a": self.row(10)})
            self.assertEqual(cycles.TABLE.judge(comparisons), 1)
        self.assertIn("(tests/bench/cycles.py --accept keeps them so): a\n", text.getvalue())
        self.assertIn("not recorded (tests/bench/cycles.py --accept): b\n", text.getvalue())

    def test_the_record_has_all_networks(self):
        taken_with, rows = cycles.TABLE.load(cycles.EXPECTED)
        self.assertEqual(sorted(rows), sorted(cycles.ROWS))
        with open(cycles.EXPECTED, encoding="utf-8") as file:
            self.assertEqual(file.read(), table.dump(taken_with, rows))


if __name__ == "__main__":
    unittest.main()
