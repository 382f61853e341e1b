#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of words.py in a repository of their own: each kind of text with a word that is reported, and one that is not.

usage: test_words.py
"""
import os
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
OLD = {
    "old.c": "/* What this does. */\nint a;\n",
    "old.md": "# Page\n\nWhoever reads this is told.\n",
    "old.py": '"""How it works."""\nA = 1  # of nobody\n',
}


class Words(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="npu-words-")
        self.addCleanup(shutil.rmtree, self.top)
        os.makedirs(os.path.join(self.top, "tests/static"))
        shutil.copy(os.path.join(HERE, "words.py"), os.path.join(self.top, "tests/static"))
        self.git("init", "-q")
        self.git("config", "user.email", "test@example.org")
        self.git("config", "user.name", "test")
        for path, text in OLD.items():
            self.write(path, text)
        self.commit()

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.top, *arguments], check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def write(self, path, text):
        full = os.path.join(self.top, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def words(self, *arguments):
        """Status, and the findings as (file, line, word)."""
        done = subprocess.run([os.path.join(self.top, "tests/static/words.py"), *arguments], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.stderr, "")
        *lines, summary = done.stdout.splitlines()
        self.assertRegex(summary, r"^\d+ passed, \d+ failed$")
        found = [tuple(line.split(": ")[0].rsplit(":", 1)) + (line.split(": ")[1],) for line in lines]
        self.assertTrue(all(len(line.split(": ", 2)[2]) > 3 for line in lines), "each finding has an advice")
        return done.returncode, [(path, int(line), word) for path, line, word in found]

    def of_new(self, path, text):
        """Findings of a new file."""
        self.write(path, text)
        status, found = self.words("HEAD")
        self.assertEqual(status, 1 if found else 0)
        self.assertTrue(all(name == path for name, _, _ in found), found)
        return [(line, word) for _, line, word in found]

    def test_old_lines_are_not_reported(self):
        self.assertEqual(self.words("HEAD"), (0, []))
        self.write("old.c", OLD["old.c"] + "/* The second number. */\nint b;\n")
        self.assertEqual(self.words("HEAD"), (0, []))
        status, found = self.words("--all")
        self.assertEqual(status, 1)
        self.assertEqual({path for path, _, _ in found}, set(OLD))

    def test_moved_files_are_not_reported(self):
        os.makedirs(os.path.join(self.top, "guide"))
        self.git("mv", "old.md", "guide/old.md")
        self.assertEqual(self.words("HEAD"), (0, []))

    def test_the_base_may_be_named(self):
        self.write("new.c", "/* What it is. */\n")
        self.commit()
        self.assertEqual(self.words(), (1, [("new.c", 1, "What")]))
        self.assertEqual(self.words("HEAD"), (0, []))
        self.assertEqual(self.words("HEAD~1", "old.c"), (0, []))

    def test_a_base_that_is_not_there_is_an_error(self):
        done = subprocess.run([os.path.join(self.top, "tests/static/words.py"), "nothing"], capture_output=True,
                              text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nothing", done.stderr)

    def test_comments_of_c(self):
        self.assertEqual(self.of_new("a.cpp", """\
// Whether it is there.
bool a;
// The size, and what
// Of it is used.
int b;  ///< of each core
int c;  // Bytes that nobody reads.
/* How many there are. */
const char *d = "What it is";  // The quoted word is no opening.
const char *e = "job %d waits in vain";
const char *f = R"(
  the driver is told
)";
"""), [(1, "Whether"), (5, "of"), (6, "nobody"), (7, "How"), (9, "in vain"), (11, "told")])

    def test_names_of_types(self):
        self.assertEqual(self.of_new("a.h", "class LaneCrew {};\nstruct Plane {\n};\nusing Flight = int;\n"
                                            "Lane lane;\nenum class Gate : int { kA };\n"),
                         [(1, "LaneCrew"), (4, "Flight"), (6, "Gate")])

    def test_comments_of_python(self):
        self.assertEqual(self.of_new("a.py", '''\
"""What it does."""
# Where it is.
A = "Whether or not"


def f():
    """How it is done.

    Somebody calls it.
    """
    return "all places are taken"  # that are free
'''), [(1, "What"), (2, "Where"), (7, "How"), (9, "Somebody"), (11, "places"), (11, "that")])

    def test_comments_of_scripts(self):
        self.assertEqual(self.of_new("a.sh", "#!/usr/bin/env bash\n# Who calls it.\n# Of these.\n"
                                             "echo 'x' # of y\ndie \"the board knows it\"\n"),
                         [(2, "Who"), (4, "of"), (5, "knows")])

    def test_pages(self):
        self.assertEqual(self.of_new("a.md", """\
# What is refused

What is refused stands here. The user knows it, the chip knows it.
- Of two, one.
- one of `nobody`, [link](whoever.md)

    echo nobody

```text
whoever
```

| What | likewise |
|---|---|

What would you like to do?

<!-- options: npuc -->

| `--x` | whoever |

<!-- end -->
"""), [(3, "What"), (3, "knows"), (4, "Of"), (13, "likewise")])

    def test_manual_pages(self):
        self.assertEqual(self.of_new("man/a.1", '.\\" whoever\n.SH NAME\na \\- mends it\n'), [(3, "mends")])

    def test_long_paragraphs(self):
        text = "# Page\n\n" + "one line\n" * 7 + "\n" + "one line\n" * 6 + "\n- item\n" + "  more\n" * 6
        self.assertEqual(self.of_new("a.md", text), [(3, "a paragraph of 7 lines"), (18, "a paragraph of 7 lines")])

    def test_generated_files_are_left_out(self):
        self.assertEqual(self.of_new("a.h", "// Generated by x. Do not edit.\n// What it is.\n"), [])


if __name__ == "__main__":
    unittest.main()
