#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What npu-smi writes for programs, by those who know the formats: JSON Schema, and Prometheus' own parser.

usage: smi_formats_test.py NPU-SMI SCHEMA NPU_SMI_TEST

NPU_SMI_TEST writes reports of cards that are not here: busy, lost, in a SoC, with strange names.
"""
import copy
import datetime
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

import jsonschema
from prometheus_client.parser import text_string_to_metric_families

TEST = sys.argv.pop(3)
SCHEMA_FILE = sys.argv.pop(2)
SMI = sys.argv.pop(1)
with open(SCHEMA_FILE, encoding="utf-8") as schema_file:
    SCHEMA = json.load(schema_file)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def smi(*arguments):
    return subprocess.run([SMI, *arguments], capture_output=True, text=True, check=True).stdout


def examples(kind):
    """Name and text of each report that NPU_SMI_TEST makes."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([TEST, "--gtest_filter=Examples.*"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "NPU_SMI_EXAMPLES": folder})
        for path in sorted(glob.glob(f"{folder}/*.{kind}")):
            with open(path, encoding="utf-8") as file:
                yield os.path.basename(path), file.read()


def members(value, schema, path=""):
    """Yields the members of a value that its schema does not describe."""
    while "$ref" in schema:
        rest = {key: part for key, part in schema.items() if key != "$ref"}
        schema = {**SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], **rest}
    if "anyOf" in schema:
        part = "lost" if "lost" in value else "card"
        yield from members(value, SCHEMA["$defs"][part], path)
    elif isinstance(value, dict):
        for name, member in value.items():
            described = schema.get("properties", {}).get(name)
            if described is None or not described.get("description"):
                yield f"{path}/{name}"
            else:
                yield from members(member, described, f"{path}/{name}")
    elif isinstance(value, list):
        for item in value:
            yield from members(item, schema["items"], f"{path}[]")


class Options(unittest.TestCase):
    def test_a_wrong_option_is_one_line(self):
        for word, reason in (("--nothing", "--nothing: unknown option"), ("nothing", "nothing: unexpected argument"),
                             ("--listen=", "--listen is empty: expected ADDRESS")):
            done = subprocess.run([SMI, word], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"npu-smi: {reason}; see npu-smi --help\n")

    def test_a_value_can_be_a_word_of_its_own(self):
        for words in (["dmon", "--count", "1"], ["dmon", "--count=1"], ["--query", "index"], ["--query=index"],
                      ["-i", "0", "--loop", "0", "--count", "1"], ["-i=0", "--loop=0", "--count=1"], ["-L"]):
            done = subprocess.run([SMI, *words], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        self.assertRegex(smi("-L"), r"^NPU 0: QNPU1 \(bus -, driver sim [0-9.]+, [0-9]+ cores, [0-9]+ MiB\)\n$")
        done = subprocess.run([SMI, "--count", "x"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "npu-smi: --count x: expected a whole number from 0 to 2147483647; see npu-smi --help\n"))


class Json(unittest.TestCase):
    def test_the_schema_is_one(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_reports_are_as_the_schema_says(self):
        seen = 0
        for name, text in [("npu-smi --json", smi("--json")), *examples("json")]:
            with self.subTest(name):
                report = json.loads(text)
                VALIDATOR.validate(report)
                self.assertEqual(list(members(report, SCHEMA)), [])
            seen += 1
        self.assertGreater(seen, 4)

    def test_other_reports_are_not(self):
        good = json.loads(smi("--json"))

        def broken(change):
            report = copy.deepcopy(good)
            change(report)
            return not VALIDATOR.is_valid(report)

        self.assertFalse(broken(lambda report: None))
        self.assertFalse(broken(lambda report: report.update(later="a member of 2.1")))
        self.assertTrue(broken(lambda report: report.update(schema_version="1.0")))
        self.assertTrue(broken(lambda report: report.pop("time")))
        self.assertTrue(broken(lambda report: report.update(time="yesterday")))
        self.assertTrue(broken(lambda report: report["cards"][0].pop("busy_ns")))
        self.assertTrue(broken(lambda report: report["cards"][0].update(utilisation=101)))
        self.assertTrue(broken(lambda report: report["cards"][0]["processes"][0].update(pid="1")))
        self.assertTrue(broken(lambda report: report["cards"][0].update(lost="")))

    def test_the_time_is_now(self):
        before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        time = datetime.datetime.fromisoformat(json.loads(smi("--json"))["time"].replace("Z", "+00:00"))
        self.assertLessEqual(before, time)
        self.assertLessEqual(time, datetime.datetime.now(datetime.timezone.utc))

    def test_processes_have_a_user_and_arguments(self):
        process = json.loads(smi("--json"))["cards"][0]["processes"][0]
        self.assertEqual(process["arguments"], f"{SMI} --json")
        self.assertEqual(process["uid"], os.geteuid())


class Metrics(unittest.TestCase):
    def families(self, text):
        families = {}
        for family in text_string_to_metric_families(text):
            self.assertNotIn(family.name, families)
            self.assertTrue(family.documentation, family.name)
            self.assertIn(family.type, ("gauge", "counter"), family.name)
            self.assertTrue(family.samples, family.name)
            families[family.name] = family
        for family in families.values():
            labels = [tuple(sorted(sample.labels.items())) for sample in family.samples]
            self.assertEqual(len(labels), len(set(labels)), family.name)
        return families

    def test_the_parser_reads_all_of_them(self):
        seen = {name: self.families(text) for name, text in examples("prom")}
        self.assertEqual(len(seen), 6)
        busy = seen["busy.prom"]
        used = busy["npu_card_memory_used_bytes"].samples[0]
        self.assertEqual(used.value, 64 << 20)
        self.assertEqual(used.labels, {"card": "0", "pci": "0000:01:00.0", "id": "QNPU1@0000:01:00.0"})
        self.assertEqual(busy["npu_card_temperature_celsius"].samples[0].value, 42.5)
        self.assertEqual([sample.labels["core"] for sample in busy["npu_core_busy_seconds"].samples], ["0", "1"])
        self.assertEqual({sample.labels["user"] for sample in busy["npu_process_jobs"].samples}, {"ann", "bob", "cid"})
        up = {sample.labels["card"]: sample.value for sample in seen["lost.prom"]["npu_card_up"].samples}
        self.assertEqual(up, {"0": 1, "1": 0})
        self.assertEqual(len(seen["lost.prom"]["npu_card_power_watts"].samples), 1)
        watch = seen["soc.prom"]["npu_card_cache_mistakes"].samples
        self.assertEqual({sample.labels["kind"]: sample.value for sample in watch},
                         {"uncleaned": 5, "stale": 6, "overwritten": 7, "discarded": 8})
        self.assertNotIn("npu_card_cache_mistakes", busy)
        names = [sample.labels["process"] for sample in seen["strange.prom"]["npu_process_jobs"].samples]
        self.assertIn('a\\b "c"\n\ufffd', names)

    def test_the_simulator_is_named(self):
        families = self.families(smi("exporter"))
        self.assertEqual(families["npu_cards"].samples[0].value, 1)
        self.assertEqual(families["npu_card_info"].samples[0].labels["transport"], "sim")
        self.assertEqual(families["npu_card_info"].samples[0].labels["id"], "QNPU1@sim0")


if __name__ == "__main__":
    unittest.main()
