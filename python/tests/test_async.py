# SPDX-License-Identifier: MIT
"""Asynchronous launches: many at once, errors, cancelling, loops that end early."""
import asyncio
import gc
import subprocess
import sys
import unittest
import unittest.mock

import numpy as np
import qnpu
import support


async def until(condition):
    """Lets the loop run until it is so."""
    while not condition():
        await asyncio.sleep(0)


class Async(support.Test):
    def setUp(self):
        super().setUp()
        self.session = qnpu.Session(support.digits())
        self.addCleanup(self.session.close)
        self.pictures, self.right = support.pictures()

    def one(self, number):
        return self.session.run_async({"image": self.pictures[number]})

    def check(self, number, outputs):
        self.assertLess(np.abs(outputs["probabilities"][0] - self.right[number]).max(), 1e-5)

    def test_sixty_four_at_once(self):
        async def main():
            return await asyncio.gather(*(self.one(number) for number in range(64)))

        for number, outputs in enumerate(asyncio.run(main())):
            self.check(number, outputs)
            self.assertEqual(outputs.cycles, support.digits().cycles)

    def test_the_loop_runs_while_launches_are_held(self):
        async def main():
            held = support.Held(self.folder, self.session)
            self.addCleanup(held.end)
            tasks = [asyncio.ensure_future(self.one(number)) for number in range(64)]
            await until(lambda: self.session.in_flight == 8)
            self.assertEqual(self.session._lanes.threads, 8)  # for 64 launches
            self.assertFalse(any(task.done() for task in tasks))
            held.release()
            return await asyncio.gather(*tasks)

        for number, outputs in enumerate(asyncio.run(main())):
            self.check(number, outputs)

    def test_cancelled_launches_that_have_not_begun_are_left_out(self):
        async def main():
            held = support.Held(self.folder, self.session)
            self.addCleanup(held.end)
            tasks = [asyncio.ensure_future(self.one(number)) for number in range(20)]
            await until(lambda: self.session.in_flight == 8)
            for task in tasks[8:]:
                task.cancel()
            await until(lambda: all(task.done() for task in tasks[8:]))
            held.release()
            return await asyncio.gather(*tasks, return_exceptions=True)

        results = asyncio.run(main())
        for number, outputs in enumerate(results[:8]):
            self.check(number, outputs)
        self.assertTrue(all(isinstance(result, asyncio.CancelledError) for result in results[8:]))
        self.session.close()
        self.assertEqual(self.session.profile()["launches"], 8)

    def test_a_cancelled_launch_writes_no_array_of_the_caller_s(self):
        places = [np.full((1, 10), 7, np.float32) for _ in range(8)]

        async def main():
            held = support.Held(self.folder, self.session)
            self.addCleanup(held.end)
            tasks = [asyncio.ensure_future(self.session.run_async(self.pictures[0], out={"probabilities": place}))
                     for place in places]
            await until(lambda: self.session.in_flight == 8)
            for task in tasks:
                task.cancel()
            await until(lambda: all(task.done() for task in tasks))
            held.release()
            await until(lambda: self.session.in_flight == 0)

        asyncio.run(main())
        np.testing.assert_array_equal(places, np.full((8, 1, 10), 7))
        self.check(1, asyncio.run(self.one(1)))

    def test_loops_that_watch_no_files(self):
        loop = asyncio.SelectorEventLoop()
        self.addCleanup(loop.close)
        with unittest.mock.patch.object(loop, "add_reader", side_effect=NotImplementedError):
            with self.assertRaisesRegex(qnpu.Error, "add_reader"):
                loop.run_until_complete(self.one(0))
        self.assertEqual(self.session.profile()["launches"], 0)
        self.check(0, loop.run_until_complete(self.one(0)))

    def test_errors(self):
        async def main():
            wrong = self.session.run_async(np.zeros((1, 7), np.float32))
            results = await asyncio.gather(self.one(0), wrong, self.one(1), return_exceptions=True)
            with self.assertRaisesRegex(qnpu.Error, "dtype float64, expected float32"):
                await self.session.run_async(self.pictures[0].astype(np.float64))
            return results

        first, wrong, second = asyncio.run(main())
        self.check(0, first)
        self.check(1, second)
        self.assertIsInstance(wrong, qnpu.Error)
        self.assertIn("[1,7]", str(wrong))

    def test_any_exception_reaches_whoever_awaits_it(self):
        outputs, calls = qnpu.session._outputs, []

        def failing(*what):
            calls.append(what)
            if len(calls) in (2, 5):
                raise MemoryError("no room")
            return outputs(*what)

        async def main():
            stuck = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: stuck.append(context))
            tasks = [asyncio.ensure_future(self.one(number)) for number in range(8)]
            await until(lambda: stuck or all(task.done() for task in tasks))
            self.assertEqual(stuck, [])
            return await asyncio.gather(*tasks, return_exceptions=True)

        with unittest.mock.patch("qnpu.session._outputs", failing):
            results = asyncio.run(main())
        failed = [result for result in results if isinstance(result, BaseException)]
        self.assertEqual([(type(error), str(error)) for error in failed], [(MemoryError, "no room")] * 2)
        for number, result in enumerate(results):
            if result not in failed:
                self.check(number, result)
        self.check(3, asyncio.run(self.one(3)))

    def test_what_ends_the_program_goes_on_once_all_have_ended(self):
        async def main():
            errors = [KeyboardInterrupt(), None, ValueError("odd"), None]
            state = qnpu.session._EventLoop(asyncio.get_running_loop())
            net, futures = self.session.network(), []
            for error in errors:
                job = unittest.mock.Mock()
                job.result = unittest.mock.Mock(side_effect=error, return_value=([1], 2))
                futures.append(state.loop.create_future())
                state.add(job, qnpu.session._Pending(futures[-1], net, [], []))
            state.completions = unittest.mock.Mock(take=lambda: list(state.pending), fd=state.completions.fd)
            with self.assertRaises(KeyboardInterrupt):
                state.ready()
            self.assertEqual([future.exception() for future in futures], errors)
            self.assertEqual([future.result().cycles for future in futures[1::2]], [2, 2])
            self.assertEqual((state.pending, state.loop.remove_reader(state.completions.fd)), ({}, False))

        asyncio.run(main())

    def test_outputs_in_the_caller_s_memory_and_on_the_device(self):
        async def main():
            place = np.zeros((1, 10), np.float32)
            outputs = await self.session.run_async(self.pictures[5], out={"probabilities": place})
            self.assertIs(outputs["probabilities"], place)
            self.check(5, outputs)
            tensor = (await self.session.run_async(self.pictures[5], on_device=True))["probabilities"]
            np.testing.assert_array_equal(tensor.numpy(), place)

        asyncio.run(main())

    def test_inputs_live_as_long_as_their_launch(self):
        async def main():
            held = support.Held(self.folder, self.session)
            self.addCleanup(held.end)
            tasks = []
            for number in range(24):
                tasks.append(asyncio.ensure_future(self.session.run_async(self.pictures[number].copy())))
                await asyncio.sleep(0)
            gc.collect()
            trash = [np.full((1, 1, 8, 8), 9, np.float32) for _ in range(500)]  # where freed arrays were
            held.release()
            results = await asyncio.gather(*tasks)
            del trash
            return results

        for number, outputs in enumerate(asyncio.run(main())):
            self.check(number, outputs)

    def test_a_loop_may_end_before_its_launches(self):
        held = support.Held(self.folder, self.session)
        self.addCleanup(held.end)

        async def leave():
            for number in range(12):
                asyncio.ensure_future(self.session.run_async(self.pictures[number].copy()))
            await until(lambda: self.session.in_flight == 8)

        asyncio.run(leave())
        gc.collect()
        held.release()
        self.check(3, asyncio.run(self.one(3)))

    def test_two_loops_one_after_the_other(self):
        for number in range(3):
            self.check(number, asyncio.run(self.one(number)))

    def test_a_forked_process_is_told_and_ends(self):
        code = ("import asyncio, os, sys, numpy, qnpu\n"
                "session = qnpu.Session(sys.argv[1])\n"
                "picture = numpy.zeros((1, 1, 8, 8), numpy.float32)\n"
                "asyncio.run(session.run_async(picture))\n"
                "child = os.fork()\n"
                "if not child:\n"
                "    for call in (lambda: asyncio.run(session.run_async(picture)), lambda: session.run(picture)):\n"
                "        try: call()\n"
                "        except qnpu.Error as error: print(error, flush=True)\n"
                "    sys.exit(3)\n"
                "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
                "session.run(picture)\n")
        # Python 3.12 warns of a fork beside threads, which is what this test does.
        done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning:__main__", "-c", code,
                               support.digits_model()], capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        self.assertEqual((done.returncode, len(lines), done.stderr), (0, 3, ""), done.stdout)
        self.assertTrue(all("forked from" in line for line in lines[:2]), done.stdout)
        self.assertEqual(lines[2], "3")

    def test_closing_ends_what_is_awaited(self):
        async def main():
            held = support.Held(self.folder, self.session)
            self.addCleanup(held.end)
            tasks = [asyncio.ensure_future(self.one(number)) for number in range(20)]
            await until(lambda: self.session.in_flight == 8)
            closing = asyncio.get_running_loop().run_in_executor(None, self.session.close)
            results = asyncio.gather(*tasks, return_exceptions=True)
            await until(lambda: sum(task.done() for task in tasks) == 12)  # those that had not begun
            held.release()
            await closing
            return await results

        results = asyncio.run(main())
        self.assertEqual(sum(isinstance(result, qnpu.Error) for result in results), 12)
        for number, result in enumerate(results[:8]):
            self.check(number, result)
        self.assertIn("the session was closed", str(results[19]))
        with self.assertRaisesRegex(qnpu.Error, "closed"):
            asyncio.run(self.one(0))


if __name__ == "__main__":
    unittest.main()
