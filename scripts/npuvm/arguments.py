# SPDX-License-Identifier: MIT
"""A command line whose messages are those of the other tools (common/command_line.h)."""
import argparse
import difflib


class Parser(argparse.ArgumentParser):
    """Prints one line for an error, which begins with the program's name, and names the option that a misspelt one
    means."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def unknown(self, word):
        """Ends with a message about an option that does not exist."""
        names = {name.strip("-"): name for name in self._option_string_actions}
        near = difflib.get_close_matches(word.split("=")[0].strip("-").lower().replace("_", "-"), names, 1, 0.7)
        self.error(f"{word}: unknown option" + (f"; is {names[near[0]]} meant?" if near else ""))
