# SPDX-License-Identifier: MIT
"""Threads of Python run while launches are on their way, and launches of several threads are on their way at once.
Judged by state: launches are held inside the runtime until the test lets them go."""
import os
import subprocess
import sys
import threading
import unittest

import numpy as np
import qnpu
import support


class Threads(support.Test):
    def setUp(self):
        super().setUp()
        self.session = qnpu.Session(support.digits())
        self.addCleanup(self.session.close)

    def hold(self):
        held = support.Held(self.folder, self.session)
        self.addCleanup(held.end)
        return held

    def start(self, count):
        """Threads that launch a picture each; where their results will be."""
        results = {}
        pictures = support.pictures()[0]

        def one(number):
            results[number] = self.session.run(pictures[number])["probabilities"]

        threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        return threads, results

    def test_python_goes_on_while_a_launch_is_held(self):
        held = self.hold()
        threads, results = self.start(1)
        # Had the launch the interpreter's lock, this thread would not come back from here.
        support.wait_until(lambda: self.session.in_flight == 1)
        self.assertEqual(sum(range(1000)), 499500)
        self.assertEqual((results, threads[0].is_alive(), self.session.in_flight), ({}, True, 1))
        held.release()
        threads[0].join()
        self.assertEqual((len(results), self.session.in_flight), (1, 0))

    def test_eight_threads_are_inside_at_once(self):
        held = self.hold()
        threads, results = self.start(8)
        support.wait_until(lambda: self.session.in_flight == 8)
        self.assertEqual(results, {})
        held.release()
        for thread in threads:
            thread.join()
        right = support.pictures()[1]
        for number in range(8):
            self.assertLess(np.abs(results[number][0] - right[number]).max(), 1e-5)

    def test_eight_threads_get_their_own_results(self):
        pictures, right = support.pictures()
        wrong = []

        def some(first):
            for number in range(first, 200, 8):
                got = self.session.run(pictures[number])["probabilities"][0]
                if np.abs(got - right[number]).max() > 1e-5:
                    wrong.append(number)

        threads = [threading.Thread(target=some, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(self.session.profile()["completed"], 200)

    def test_errors_are_of_the_thread_that_made_them(self):
        texts = {}

        def bad(number):
            try:
                self.session.run(np.zeros((1, number), np.float32))
            except qnpu.Error as error:
                texts[number] = str(error)

        threads = [threading.Thread(target=bad, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number in range(1, 9):
            self.assertIn(f"[1,{number}]", texts[number])

    def test_a_session_is_closed_while_a_thread_is_inside(self):
        held = self.hold()
        threads, results = self.start(1)
        support.wait_until(lambda: self.session.in_flight == 1)
        closing = threading.Thread(target=self.session.close)
        closing.start()
        support.wait_until(lambda: self.session._runtime is None)
        self.fails("the session is closed", self.session.run, support.pictures()[0][0])
        self.assertEqual((results, closing.is_alive()), ({}, True))
        held.release()
        threads[0].join()
        closing.join()
        self.assertEqual(len(results), 1)

    def test_a_program_may_end_while_threads_launch(self):
        code = ("import sys, threading, numpy, qnpu\n"
                "session = qnpu.Session(sys.argv[1])\n"
                "tensor = session.tensor('image')\n"
                "picture = numpy.zeros((1, 1, 8, 8), numpy.float32)\n"
                "begun = threading.Semaphore(0)\n"
                "def loop():\n"
                "    while True:\n"
                "        try: session.run(picture)\n"
                "        except qnpu.Error: tensor.copy_from(picture)\n"
                "        begun.release()\n"
                "for _ in range(8): threading.Thread(target=loop, daemon=True).start()\n"
                "for _ in range(50): begun.acquire()\n")
        support.digits().save(self.path("digits.bmodel"))
        for _ in range(5):
            done = subprocess.run([sys.executable, "-c", code, self.path("digits.bmodel")], capture_output=True,
                                  text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_threads_that_make_tensors(self):
        rounds = 8000 if os.environ.get("NPU_DEVICE") == "sim" else 400  # 8000 take eight minutes on an emulated one
        code = ("import sys, threading, numpy, qnpu\n"
                "device, array = qnpu.Device(0), numpy.ones(4, 'f4')\n"
                "sys.setswitchinterval(1e-5)\n"
                "def make():\n"
                f"    for _ in range({rounds}): qnpu.tensor(array, device)\n"
                "threads = [threading.Thread(target=make) for _ in range(6)]\n"
                "for thread in threads: thread.start()\n"
                "for thread in threads: thread.join()\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
