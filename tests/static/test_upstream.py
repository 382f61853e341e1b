#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests scripts/upstream: changes of texts, headers of the chip in the kernel's form, and the description of the series
against the sources. Needs no kernel; tests/static/upstream.py compiles the patches in one.

usage: test_upstream.py   the last lines are those of unittest, then "N passed, N failed"
"""
import glob
import os
import shutil
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "scripts"))
# pylint: disable-next=wrong-import-position
from upstream import description, driver, hw_header, kernel, mail, text, tree  # noqa: E402

# Lines of the files that name drivers, as far as the edits look at them.
PRISTINE = {
    "MAINTAINERS": "XYZ\nM:\tX <x@y>\n\nDRM ACCEL DRIVER FOR A\nM:\tA <a@b>\n\nDRM ACCEL DRIVERS FOR B\nM:\tB <b@c>\n",
    "drivers/accel/Kconfig": 'source "drivers/accel/qaic/Kconfig"\nsource "drivers/accel/rocket/Kconfig"\n',
    "drivers/accel/Makefile": "obj-$(CONFIG_DRM_ACCEL_IVPU) += ivpu/\nobj-$(CONFIG_DRM_ACCEL_ROCKET) += rocket/\n",
    "Documentation/accel/index.rst": "   qaic/index\n   rocket/index\n",
    "Documentation/devicetree/bindings/vendor-prefixes.yaml": '  "^qnap,.*":\n    x\n  "^quanta,.*":\n    x\n',
}


class Conditions(unittest.TestCase):
    """text.resolve_conditions()."""

    def check(self, source, known, expected):
        self.assertEqual(expected, text.resolve_conditions(source, known))

    def test_a_branch_stays(self):
        source = "a\n#ifdef X\nb\n#else\nc\n#endif\nd\n"
        self.check(source, {"X": True}, "a\nb\nd\n")
        self.check(source, {"X": False}, "a\nc\nd\n")
        self.check(source.replace("ifdef", "ifndef"), {"X": True}, "a\nc\nd\n")
        self.check("#if IS_ENABLED(CONFIG_X)\nb\n#endif\nd\n", {"X": False}, "d\n")

    def test_other_conditions_stay(self):
        both = "#if defined(X) && defined(Y)\nc\n#endif\n"
        source = "#ifdef Y\n#ifdef X\na\n#endif\n#else\nb\n#endif\n" + both
        self.check(source, {"X": False}, "#ifdef Y\n#else\nb\n#endif\n" + both)

    def test_blank_lines_do_not_pile_up(self):
        self.check("a\n\n#ifdef X\nb\n#endif\n\nc\n\n#ifdef X\n#endif\n", {"X": False}, "a\n\nc\n")

    def test_elif(self):
        with self.assertRaisesRegex(text.TextError, "cannot resolve '#elif Y'"):
            text.resolve_conditions("#ifdef X\n#elif Y\n#endif\n", {"X": True})


class Trees(unittest.TestCase):
    """tree.Tree, and kernel's use of it."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        source = os.path.join(self.folder.name, "source")
        for path in ("Makefile", "a/x.c", "a/y.c", "b/z.c"):
            self.write(os.path.join(source, path), path + "\n")
        self.tree = tree.Tree(source, self.folder.name)
        self.mail = os.path.join(self.folder.name, "mail")
        self.write(self.mail, "s\n---\n--- a/a/x.c\n+++ b/a/x.c\n@@ -1 +1 @@\n-a/x.c\n+new\n")

    @staticmethod
    def write(path, content):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def test_only_changed_files_are_copies(self):
        kernel.apply(self.tree, [self.mail])
        links = {path: os.path.islink(os.path.join(self.tree.root, path)) for path in ("a", "a/x.c", "a/y.c", "b")}
        self.assertEqual({"a": False, "a/x.c": False, "a/y.c": True, "b": True}, links)
        with open(os.path.join(self.tree.source, "a/x.c"), encoding="utf-8") as file:
            self.assertEqual("a/x.c\n", file.read())

    def test_a_file_that_is_as_before_keeps_its_time(self):
        kernel.apply(self.tree, [self.mail])
        path = os.path.join(self.tree.root, "a/x.c")
        os.utime(path, (1000, 1000))
        kernel.apply(self.tree, [self.mail])
        self.assertEqual(1000, os.stat(path).st_mtime)
        with open(self.mail, encoding="utf-8") as file:
            self.write(self.mail, file.read().replace("+new", "+newer"))
        kernel.apply(self.tree, [self.mail])
        self.assertNotEqual(1000, os.stat(path).st_mtime)

    def test_refused_options(self):
        self.write(os.path.join(self.tree.build, ".config"), "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=m\n")
        wanted = "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=y\nCONFIG_D=4\n# CONFIG_E is not set\n"
        self.assertEqual(["CONFIG_B=y", "CONFIG_C=y", "CONFIG_D=4"], self.tree.refused(wanted))
        self.assertEqual([], self.tree.refused("CONFIG_B=y\n# CONFIG_B is not set\n"))


class Texts(unittest.TestCase):
    """The other functions of text."""

    def test_declarations(self):
        struct, macro = "/* s */\nstruct s {\n\tint x;\n};\n", "/*\n * m\n */\n#define M(x) \\\n\t(x)\n"
        source = f"a\n\n{struct}\n{macro}#define N\n"
        self.assertEqual(f"a\n\n{macro}#define N\n", text.without_declaration(source, "s"))
        self.assertEqual(f"a\n\n{struct}\n#define N\n", text.without_declaration(source, "M"))
        with self.assertRaisesRegex(text.TextError, "no declaration of t"):
            text.without_declaration(source, "t")

    def test_lines(self):
        self.assertEqual("a\n", text.without_lines("a\nb\n", "^b$"))
        with self.assertRaisesRegex(text.TextError, "no line matches"):
            text.without_lines("a\n", "^b$")

    def test_kconfig(self):
        source = 'config X\n\ttristate "x"\n\tdepends on Y\n\nconfig Z\n\tbool "z"\n\thelp\n\n\t  z\n'
        self.assertEqual('config X\n\ttristate "x"\n\tdepends on Y\n', text.without_kconfig_entry(source, "Z"))
        self.assertIn("config X\n\ttristate\n", text.without_prompt(source, "X"))
        with self.assertRaisesRegex(text.TextError, "config W does not begin with a prompt"):
            text.without_prompt(source, "W")

    def test_order(self):
        self.assertEqual("a\nb\nc\n", text.insert_sorted("a\nc\n", "b", "[abc]"))
        with self.assertRaisesRegex(text.TextError, "'d' would be the last"):
            text.insert_sorted("a\nc\n", "d", "[abc]")

    def test_makefile(self):
        source = ("# C\nCFLAGS_c.o := -I.\n\nobj-$(CONFIG_X) += x.o\n\nx-y := \\\n\ta.o \\\n\tb.o \\\n\tc.o\n"
                  "x-$(CONFIG_Y) += d.o\n")
        self.assertEqual("obj-$(CONFIG_X) += x.o\n\nx-y := \\\n\ta.o \\\n\tb.o\n",
                         text.makefile_with(source, lambda name: name in ("a.o", "b.o")).lstrip("\n"))
        self.assertEqual(source, text.makefile_with(source, lambda name: True))


class Headers(unittest.TestCase):
    """hw_header.kernel_form()."""

    SOURCE = ("/* SPDX-License-Identifier: MIT */\n#ifndef A_H\n#define A_H\n\n"
              "#ifdef __KERNEL__\n#include <linux/types.h>\n#else\n#include <stdint.h>\n#endif\n\n"
              "#ifdef __cplusplus\n#define A_HW_ASSERT(c, w) static_assert(c, w)\n#else\n#endif\n\n"
              "/* Unused. */\n#define A_OTHER 1u\n\n/* Used. */\n#define A_SIZE 8u  /* " + "long " * 20 + "*/\n\n"
              "/* A struct. */\nstruct a {\n\tuint32_t x[A_SIZE];  /* x */\n\tint8_t y;\n};\n"
              'A_HW_ASSERT(sizeof(struct a) == 36, "a: size");\n\n#endif /* A_H */\n')

    def test_form(self):
        form = hw_header.kernel_form(self.SOURCE)
        self.assertIn("#include <linux/types.h>\n\n/* Unused. */\n", form)
        self.assertIn("};\n\nstatic_assert(sizeof(struct a) == 36);\n", form)
        self.assertIn("\tu32 x[A_SIZE];\t/* x */\n\ts8 y;\n", form)
        self.assertIn("/*\n * long", form)
        self.assertLessEqual(max(len(line.expandtabs(8)) for line in form.split("\n")), 100)

    def test_only_used_parts(self):
        form = hw_header.kernel_form(self.SOURCE, {"a"})
        self.assertNotIn("A_OTHER", form)
        self.assertNotIn("Unused", form)
        self.assertIn("#define A_SIZE 8u", form)
        self.assertIn("#ifndef A_H\n#define A_H\n", form)


class TheDescription(unittest.TestCase):
    """kernel/upstream/series.toml against the sources."""

    @staticmethod
    def driver_of(one):
        return driver.Driver(one, PRISTINE.__getitem__, "A Sender <sender@example.org>")

    def test_stored_patches(self):
        one = description.Description()
        one.check_core()
        for series in one.core:
            for path in series.stored:
                self.assertTrue(mail.Stored(path).files(), path)

    def test_patches_grow_to_the_sources(self):
        one = self.driver_of(description.Description())
        states = [one.state(count) for count in range(len(one.patches) + 1)]
        self.assertEqual({}, states[0])
        for number, patch in enumerate(one.patches):
            self.assertNotEqual(states[number], states[number + 1], f"patch '{patch.name}' is empty")
            self.assertLessEqual(set(states[number]), set(states[number + 1]))
        for path, final in one.texts.items():
            self.assertEqual(final, states[-1][path], path)

    def test_what_is_held_comes_later(self):
        one = self.driver_of(description.Description())
        names = [patch.name for patch in one.patches]
        kconfig = f"{one.description.folder}/Kconfig"
        before, after = one.state(names.index("probe"))[kconfig], one.state(names.index("probe") + 1)[kconfig]
        self.assertNotRegex(before, '\ttristate "')
        self.assertRegex(after, '\ttristate "')
        self.assertNotIn("KUNIT", after)
        self.assertNotIn("uring", " ".join(one.state(names.index("uring"))))
        self.assertIn("uring", " ".join(one.state(len(names))))

    def test_a_forgotten_file_is_named(self):
        with tempfile.TemporaryDirectory() as top:
            for folder in ("kernel", "uapi"):
                shutil.copytree(os.path.join(TOP, folder), os.path.join(top, folder))
            one = description.Description(top=top)
            self.driver_of(one)
            with open(os.path.join(top, "kernel", one.prefix + "forgotten.c"), "w", encoding="utf-8") as file:
                file.write("/* nothing */\n")
            with self.assertRaisesRegex(description.DescriptionError, "in no patch .*: kernel/.*forgotten.c"):
                self.driver_of(description.Description(top=top))
            os.remove(os.path.join(top, "kernel", one.prefix + "forgotten.c"))
            block = next(block for patch in one.patches() for block in patch.blocks)
            for path in glob.glob(os.path.join(top, "kernel", f"{one.prefix}{block}.[ch]")):
                os.remove(path)
            with self.assertRaisesRegex(description.DescriptionError, rf"no kernel/.*{block}\.\[ch\]"):
                self.driver_of(description.Description(top=top))


def main():
    done = unittest.main(exit=False, argv=sys.argv[:1]).result
    bad = len(done.failures) + len(done.errors)
    print(f"{done.testsRun - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
