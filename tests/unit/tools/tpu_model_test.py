#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Drives tpu_model over small models, and runs what it makes.

usage: tpu_model_test.py BIN
"""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv.pop(1)


def run(program, *arguments):
    done = subprocess.run([os.path.join(BIN, program), *arguments], capture_output=True, text=True, check=False,
                          timeout=300,
                          env={**os.environ, "NPU_DEVICE": "sim"})
    return done.returncode, done.stdout, done.stderr


class TpuModel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="npu-tpu-model-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.assertEqual(run("bmodel_seeds", self.path("seeds"))[0], 0)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def seed(self, name):
        return self.path("seeds", name + ".bmodel")

    def ok(self, *arguments):
        code, out, err = run("tpu_model", *arguments)
        self.assertEqual((code, err), (0, ""))
        return out

    def fails(self, text, *arguments):
        code, out, err = run("tpu_model", *arguments)
        self.assertEqual((code, out), (1, ""))
        self.assertIn(text, err)

    def model(self, path):
        return json.loads(self.ok("--print", path))

    def content(self, path, binary):
        """Bytes of a Binary, cut out of the file by the numbers of its header."""
        with open(path, "rb") as file:
            data = file.read()
        magic, head, flat, blob = struct.unpack_from("<4I", data)
        self.assertEqual((magic, head, 64 + flat + blob), (0xFF55AAEE, 64, len(data)))
        start, size = binary.get("start", 0), binary["size"]
        return data[64 + flat + start:64 + flat + start + size]

    def runs(self, path, nets):
        code, out, err = run("bmrt_test", "--bmodel", path)
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count("modelled cycles"), nets)

    def test_info_names_everything(self):
        out = self.ok("--info", self.seed("sample"))
        for part in ("chip: QNPU1", "net 0: [plus]", "net 3: [sum]", "input: a, [1, 4], float32",
                     "coefficients: 64 bytes"):
            self.assertIn(part, out)

    def test_print_is_the_whole_model(self):
        model = self.model(self.seed("stages"))
        stages = model["net"][0]["parameter"]
        self.assertEqual([s["input_tensor"][0]["shape"][0]["dim"] for s in stages], [[1, 8], [2, 8]])
        coeff = self.model(self.seed("affine"))["net"][0]["parameter"][0]["coeff_mem"]
        self.assertEqual(bytes(b % 256 for b in coeff["check_code"]),
                         hashlib.sha256(self.content(self.seed("affine"), coeff["binary_coeff"])).digest())

    def test_apart_and_together_again(self):
        made = self.ok("--extract", self.seed("sample"), "-o", self.path("parts")).split()
        self.assertEqual([os.path.basename(p) for p in made], ["plus.bmodel", "affine.bmodel", "keep.bmodel",
                                                               "sum.bmodel"])
        for part in made:
            self.runs(part, 1)
        self.ok("--combine", *made, "-o", self.path("whole.bmodel"))
        self.runs(self.path("whole.bmodel"), 4)
        before, after = self.model(self.seed("sample")), self.model(self.path("whole.bmodel"))
        self.assertEqual(self.without_places(before), self.without_places(after))

    def test_store_modes_are_shown_and_kept(self):
        self.ok("--combine", self.seed("words"), self.seed("plus"), "-o", self.path("whole.bmodel"))
        for path in (self.seed("words"), self.path("whole.bmodel")):
            out = self.ok("--info", path)
            self.assertIn("input: x, [5, 6], uint8, scale 1, zero point 0, BM_STORE_4N\n", out)
            self.assertIn("output: y, [5, 6], uint8, scale 1, zero point 0\n", out)
        self.runs(self.path("whole.bmodel"), 2)

    def test_sub_networks_are_shown_and_kept(self):
        out = self.ok("--info", self.seed("choose"))
        for part in ("6 subnet(s)", "subnet 7: switch, (x, flag) -> (no, yes), next 1 or 2",
                     "subnet 1: NPU, (no) -> (ten), next 3",
                     "subnet 3: merge, (ten, twenty) -> (m)", "subnet 5: CPU operator 3, (y) -> (index)"):
            self.assertIn(part, out)
        self.assertNotIn("subnet 0:", self.ok("--info", self.seed("plus")))
        sub = self.model(self.seed("choose"))["net"][0]["parameter"][0]["sub_net"]
        self.assertEqual(sub[3]["merge_param"]["output_from"][0]["indice"], [0, 1])
        self.assertEqual(self.content(self.seed("choose"), sub[5]["cpu_param"][0]["binary_param"])[:4], b"QCPU")
        self.ok("--combine", self.seed("choose"), self.seed("back"), self.seed("plus"), "-o", self.path("all.bmodel"))
        self.assertEqual(self.without_places(self.model(self.path("all.bmodel"))["net"][0]),
                         self.without_places(self.model(self.seed("choose"))["net"][0]))
        code, _, err = run("bmrt_test", "--bmodel", self.path("all.bmodel"))
        self.assertEqual(code, 0, err)

    def test_steps_and_dynamic_stages_are_shown(self):
        out = self.ok("--info", self.seed("steps"))
        self.assertIn("step 0 of [steps] on device 0", out)
        self.assertIn("step 1 of [steps] on device 1", out)
        self.assertEqual(self.model(self.seed("steps"))["net"][1]["cascade"],
                         {"device_id": 1, "step": 1, "main_name": "steps"})
        self.assertIn("stage 0: dynamic", self.ok("--info", self.seed("dynamic")))
        code, _, err = run("bmrt_test", "--bmodel", self.seed("dynamic"))
        self.assertEqual(code, 0, err)
        code, _, err = run("bmrt_test", "--bmodel", self.seed("steps"))
        self.assertEqual(code, 1)
        self.assertIn("step 1 ('second'): it is for device 1, the runtime has 1 (bmrt_create_ex)", err)

    def without_places(self, value):
        """The model without where in the blob its contents are."""
        if isinstance(value, dict):
            return {k: self.without_places(v) for k, v in value.items() if k != "start"}
        return [self.without_places(v) for v in value] if isinstance(value, list) else value

    def test_equal_names_become_stages(self):
        net = self.model(self.seed("stages"))["net"][0]
        self.ok("--combine", self.seed("stages"), "-o", self.path("one.bmodel"))
        self.assertEqual(len(self.model(self.path("one.bmodel"))["net"][0]["parameter"]), len(net["parameter"]))
        self.fails("two stages have the same input shapes: 1 8", "--combine", self.seed("plus"), self.seed("sample"),
                   "-o",
                   self.path("no.bmodel"))
        self.fails("the files have different tensors", "--combine", self.seed("keep"), self.renamed("plus", "keep"),
                   "-o",
                   self.path("no.bmodel"))
        self.assertFalse(os.path.exists(self.path("no.bmodel")))

    def renamed(self, seed, name):
        """A copy in which a network has another name of at most the same length."""
        copy = self.path("renamed.bmodel")
        with open(self.seed(seed), "rb") as file:
            data = file.read()
        old = struct.pack("<I", len(seed)) + seed.encode() + b"\0"
        self.assertEqual(data.count(old), 1)
        new = struct.pack("<I", len(name)) + name.encode()
        with open(copy, "wb") as file:
            file.write(data.replace(old, new.ljust(len(old), b"\0")))
        return copy

    def test_folders_are_combined(self):
        for name in ("plus", "affine"):
            os.makedirs(self.path(name))
            shutil.copy(self.seed(name), self.path(name, "compilation.bmodel"))
            for data in ("input_ref_data.dat", "output_ref_data.dat"):
                with open(self.path(name, data), "wb") as file:
                    file.write((name + data).encode())
        self.ok("--combine_dir", self.path("plus"), self.path("affine"), "-o", self.path("both"))
        self.runs(self.path("both", "compilation.bmodel"), 2)
        with open(self.path("both", "output_ref_data.dat"), "rb") as file:
            self.assertEqual(file.read(), b"plusoutput_ref_data.dataffineoutput_ref_data.dat")
        os.remove(self.path("affine", "input_ref_data.dat"))
        self.fails("input_ref_data.dat: cannot read", "--combine_dir", self.path("plus"), self.path("affine"), "-o",
                   self.path("no"))

    def test_weights_are_replaced_with_their_checksum(self):
        coeff = self.model(self.seed("affine"))["net"][0]["parameter"][0]["coeff_mem"]["binary_coeff"]
        old = self.content(self.seed("affine"), coeff)
        new = bytes(range(len(old)))
        shutil.copy(self.seed("affine"), self.path("to.bmodel"))
        with open(self.seed("affine"), "rb") as file:
            data = file.read()
        with open(self.path("from.bmodel"), "wb") as file:
            file.write(data.replace(old, new))
        self.assertIn("offset 0, %d bytes" % len(old), self.ok("--weight", self.path("to.bmodel")))
        self.ok("--update_weight", self.path("to.bmodel"), "affine", "0", self.path("from.bmodel"), "affine", "0x0")
        changed = self.model(self.path("to.bmodel"))["net"][0]["parameter"][0]["coeff_mem"]
        self.assertEqual(self.content(self.path("to.bmodel"), changed["binary_coeff"]), new)
        self.assertEqual(bytes(b % 256 for b in changed["check_code"]), hashlib.sha256(new).digest())
        self.runs(self.path("to.bmodel"), 1)
        for text, arguments in (("no network 'nobody'", ("nobody", "0")), ("has no weights at offset 5",
                                                                           ("affine", "5")),
                                ("numbers of bytes are expected", ("affine", "five"))):
            self.fails(text, "--update_weight", self.path("to.bmodel"), *arguments, self.path("from.bmodel"), "affine",
                       "0")

    def test_layers_are_named(self):
        # Two networks, one after the other.
        self.ok("--combine", self.seed("affine"), self.seed("plus"), "-o", self.path("both.bmodel"))
        lines = self.ok("--layers", self.path("both.bmodel")).splitlines()
        self.assertEqual([line for line in lines if line.startswith("net ")],
                         ["net [affine] stage 0:", "net [plus] stage 0:"])
        self.assertEqual(self.ok("--layers", self.seed("affine")).splitlines(), lines[:lines.index(
            "net [plus] stage 0:")])
        self.assertIn("     0  ", lines[1])

    def test_dump_cuts_out(self):
        coeff = self.model(self.seed("affine"))["net"][0]["parameter"][0]["coeff_mem"]["binary_coeff"]
        self.ok("--dump", self.seed("affine"), str(coeff.get("start", 0)), hex(coeff["size"]), self.path("out"))
        with open(self.path("out"), "rb") as file:
            self.assertEqual(file.read(), self.content(self.seed("affine"), coeff))
        self.fails("lie beyond", "--dump", self.seed("affine"), "0", "100000000", self.path("no"))

    def test_bad_files_and_command_lines(self):
        with open(self.path("bad.bmodel"), "wb") as file:
            file.write(b"x" * 100)
        for command in ("--info", "--print", "--weight", "--layers", "--extract"):
            self.fails("bad.bmodel: not a bmodel", command, self.path("bad.bmodel"))
            self.fails("cannot open", command, self.path("nowhere"))
        self.fails("cannot write", "--combine", self.seed("plus"), "-o", self.path("nowhere", "x.bmodel"))
        for arguments in ((), ("--combine", "a"), ("--info",), ("--nonsense", "x"), ("--dump", "x", "1")):
            self.assertEqual(run("tpu_model", *arguments)[0], 2, arguments)


if __name__ == "__main__":
    unittest.main()
