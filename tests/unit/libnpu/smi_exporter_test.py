#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""npu-smi exporter --listen over HTTP, on the loopback.

usage: smi_exporter_test.py NPU-SMI
"""
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

SMI = sys.argv.pop(1)
LIMIT = 300  # seconds that anything may take


class Exporter:
    """A running one, on a port that the kernel has chosen."""

    def __init__(self, address="127.0.0.1:0", **environment):
        self.process = subprocess.Popen([SMI, "exporter", "--listen", address], stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        line = self.process.stderr.readline()
        found = re.fullmatch(r"npu-smi: serving (http://(.+):(\d+))/metrics\n", line)
        if not found:
            raise AssertionError(f"{line!r}{self.process.stderr.read()!r}")
        self.url, self.host, self.port = found.group(1), found.group(2), int(found.group(3))

    def get(self, path="/metrics"):
        with urllib.request.urlopen(self.url + path, timeout=LIMIT) as answer:
            return answer.headers, answer.read().decode()

    def count(self, folder):
        return len(os.listdir(f"/proc/{self.process.pid}/{folder}"))

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(LIMIT)
        self.process.stderr.close()
        return status


class Served(unittest.TestCase):
    def setUp(self):
        self.exporter = Exporter()

    def tearDown(self):
        if self.exporter.process.poll() is None:
            self.assertEqual(self.exporter.end(), 0)

    def test_metrics_are_what_prometheus_reads(self):
        headers, text = self.exporter.get()
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        names = {family.name for family in text_string_to_metric_families(text)}
        self.assertLessEqual({"npu_cards", "npu_card_info", "npu_core_busy_seconds", "npu_process_jobs"}, names)

    def test_other_paths_and_methods(self):
        self.assertIn("/metrics", self.exporter.get("/")[1])
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.exporter.get("/nothing")
        self.assertEqual(caught.exception.code, 404)
        caught.exception.close()
        connection = http.client.HTTPConnection("127.0.0.1", self.exporter.port, timeout=LIMIT)
        self.addCleanup(connection.close)
        connection.request("POST", "/metrics", body="x" * 100000)
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.headers["Allow"]), (405, "GET, HEAD"))
        answer.read()
        connection.request("HEAD", "/metrics")
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.read()), (200, b""))
        self.assertGreater(int(answer.headers["Content-Length"]), 1000)

    def test_nothing_is_left_behind_by_requests(self):
        self.exporter.get()
        before = self.exporter.count("fd"), self.exporter.count("task")
        for _ in range(30):
            self.exporter.get()
        # A connection's end may be seen after the next one's beginning.
        self.assertLessEqual(self.exporter.count("fd"), before[0] + 1)
        self.assertEqual(self.exporter.count("task"), before[1])

    def test_nonsense_and_silence_hold_up_nobody(self):
        silent = socket.create_connection(("127.0.0.1", self.exporter.port))
        self.addCleanup(silent.close)
        for nonsense in (b"\x00\xff\r\n\r\n", b"GET " + b"/" * 100000 + b" HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.exporter.port), timeout=LIMIT) as wrong:
                try:
                    wrong.sendall(nonsense)
                    wrong.recv(4096)
                except ConnectionError:
                    pass
        self.assertIn("npu_cards", self.exporter.get()[1])

    def test_only_the_loopback_listens(self):
        with open(f"/proc/{self.exporter.process.pid}/net/tcp", encoding="ascii") as table:
            local = [line.split()[1] for line in table if line.split()[3] == "0A"]
        self.assertIn(f"0100007F:{self.exporter.port:04X}", local)
        self.assertNotIn(f"00000000:{self.exporter.port:04X}", local)

    def test_an_interrupt_ends_it(self):
        self.assertEqual(self.exporter.end(signal.SIGINT), 0)

    def test_a_port_in_use_is_named(self):
        run = self.run_smi(f"--listen=127.0.0.1:{self.exporter.port}")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, f"npu-smi: --listen 127.0.0.1:{self.exporter.port}: Address already in use\n")

    def run_smi(self, *arguments):
        return subprocess.run([SMI, "exporter", *arguments], capture_output=True, text=True, timeout=LIMIT, check=False)

    def test_wrong_addresses(self):
        for address in ("127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:http", "::1:9400", "256.1.1.1:9400",
                        "127.0.0.1:94 00", "[::1:9400"):
            with self.subTest(address):
                run = self.run_smi("--listen", address)
                self.assertEqual(run.returncode, 2)
                self.assertRegex(run.stderr, f"^npu-smi: --listen {re.escape(address)}: .+\n$")
        run = self.run_smi("--listen", "192.0.2.1:9400")  # nobody's
        self.assertEqual(run.returncode, 1)
        self.assertIn("192.0.2.1:9400: Cannot assign requested address", run.stderr)
        self.assertEqual(self.run_smi("--listen=0", "-i", "0").returncode, 2)
        self.assertEqual(self.run_smi("--listen", "").returncode, 2)


class NoCard(unittest.TestCase):
    def started(self, *arguments, **environment):
        exporter = Exporter(*arguments, **environment)
        self.addCleanup(lambda: exporter.process.poll() is not None or exporter.end(signal.SIGKILL))
        return exporter

    def test_a_machine_without_a_card_has_none(self):
        exporter = self.started("0", NPU_DEVICE="auto")
        families = {family.name: family for family in text_string_to_metric_families(exporter.get()[1])}
        self.assertEqual(exporter.end(), 0)
        self.assertEqual(families["npu_cards"].samples[0].value, 0)
        self.assertEqual(set(families), {"npu_smi_info", "npu_cards"})

    def test_what_keeps_it_from_looking_is_told(self):
        exporter = self.started("0", NPU_SIM="cores=99")
        with self.assertRaises(urllib.error.HTTPError) as caught:
            exporter.get()
        self.assertEqual(caught.exception.code, 503)
        self.assertIn("cores=99", caught.exception.read().decode())
        caught.exception.close()
        self.assertEqual(exporter.end(), 0)


if __name__ == "__main__":
    unittest.main()
