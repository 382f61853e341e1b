#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of the comparison of counted figures (table.py), and of what counts.py says of it."""
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
import table  # pylint: disable=wrong-import-position  # noqa: E402


def row(instructions, ns=1000, **more):
    return {"instructions": instructions, "ns": ns, **more}


def verdicts(measured, recorded):
    return {c.name: c.verdict for c in table.compare(measured, recorded)}


def judged(measured, recorded, other_tools=()):
    """(status, what is printed)."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        least = table.TOLERANCE_OF_OTHER_TOOLS if other_tools else 0.0
        status = counts.judge(table.compare(measured, recorded, least), list(other_tools))
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

    def test_new_and_gone(self):
        self.assertEqual(verdicts({"a": row(1)}, {"b": row(1)}), {"a": "NEW", "b": "GONE"})

    def test_the_ratio_is_of_instructions(self):
        measured = {"a": row(3000), "b": row(2000)}
        peers = {"a": "b", "b": None}
        self.assertEqual(table.ratio("a", peers, measured), 1.5)
        self.assertIsNone(table.ratio("b", peers, measured))
        self.assertIsNone(table.ratio("a", peers, {"a": row(1)}))

    def test_the_table_shows_figures_and_verdict(self):
        measured = {"a": row(3000), "b": row(2000)}
        comparisons = table.compare(measured, {"a": row(2000)})
        head, a, b = table.lines(comparisons, {"a": "b", "b": None}, measured)
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
            return table.load(file.name)

    def test_what_is_recorded_is_read_again(self):
        rows = {"b": row(2.5), "a": row(1, tolerance=3, reason="r")}
        self.assertEqual(self.load(table.dump({"kernel": "k"}, rows)), ({"kernel": "k"}, rows))

    def test_a_row_a_line_sorted(self):
        text = table.dump({"kernel": "k"}, {"b": row(2), "a": row(1)}).splitlines()
        self.assertEqual(text[6:8],
                         ['  "a": {"instructions": 1, "ns": 1000},', '  "b": {"instructions": 2, "ns": 1000}'])

    def test_accepting_keeps_tolerances(self):
        recorded = {"a": row(1, tolerance=3, reason="r"), "gone": row(1)}
        self.assertEqual(table.accept({"a": row(2.04, 5.6), "b": row(3)}, recorded),
                         {"a": row(2.0, 6, tolerance=3, reason="r"), "b": row(3)})

    def test_accepting_what_was_worse_passes_after(self):
        measured = {"a": row(2000.04, 1700.4)}
        self.assertEqual(verdicts(measured, table.accept(measured, {"a": row(1000, 9)})), {"a": ""})

    def test_bad_records_are_named(self):
        for row_text, words in (('{"instructions": 0, "ns": 1}', "row a: instructions is 0"),
                                ('{"instructions": 1}', "row a: ns is None"),
                                ('{"instructions": 1, "ns": 1, "x": 1}', "unknown: x"),
                                ('{"instructions": 1, "ns": 1, "tolerance": 9}', "a tolerance has a reason")):
            text = '{"spdx": "MIT", "taken with": {}, "rows": {"a": %s}}' % row_text
            with self.subTest(text), self.assertRaisesRegex(table.BadRecord, words):
                self.load(text)
        for text, words in (("[]", '"taken with"'), ("{", "Expecting")):
            with self.subTest(text), self.assertRaisesRegex(table.BadRecord, words):
                self.load(text)

    def test_the_projects_own_record_is_one(self):
        taken_with, rows = table.load(counts.EXPECTED)
        self.assertIn("kernel", taken_with)
        self.assertIn("wait", rows)
        with open(counts.EXPECTED, encoding="utf-8") as file:
            self.assertEqual(file.read(), table.dump(taken_with, rows))


if __name__ == "__main__":
    unittest.main()
