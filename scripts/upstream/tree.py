# SPDX-License-Identifier: MIT
"""A kernel tree of links to a source, in which series are applied and compiled."""

import os
import re
import shutil
import subprocess

# "Warning:" is kernel-doc's; of the core's files it has some without our patches.
COMPLAINT = re.compile(r"warning:|error:|\*\*\* |/accel/qnpu/\S+ Warning:|Warning: \S+/accel/qnpu/")


def files_of(path):
    """The paths that a mail changes or adds."""
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^\+\+\+ b/(\S+)$", file.read(), re.MULTILINE)


def options_of(text):
    """{option: line} of a configuration. The last line for an option counts, also "# CONFIG_... is not set"."""
    return {match[1] or match[2]: match[0] for match in
            re.finditer(r"^(?:(CONFIG_\w+)=.*|# (CONFIG_\w+) is not set)$", text, re.MULTILINE)}


class Tree:
    """A kernel tree of links to `source`, in which the paths in `owned` are copies."""

    def __init__(self, source, folder, jobs=os.cpu_count()):
        self.source = source
        self.root = os.path.join(folder, "tree")
        self.build = os.path.join(folder, "build")
        self.jobs = jobs

    def reset(self, owned):
        """Makes the tree new."""
        shutil.rmtree(self.root, ignore_errors=True)
        # make follows a link of the top Makefile back to the source.
        owned = set(owned) | {"Makefile"}
        folders = {""}
        for path in owned:
            while path:
                path = os.path.dirname(path)
                folders.add(path)
        for folder in sorted(folders):
            os.makedirs(os.path.join(self.root, folder))
            if not os.path.isdir(os.path.join(self.source, folder)):
                continue
            for name in os.listdir(os.path.join(self.source, folder)):
                path = os.path.join(folder, name)
                if path not in folders and path not in owned:
                    os.symlink(os.path.join(self.source, path), os.path.join(self.root, path))
        for path in owned:
            if os.path.exists(os.path.join(self.source, path)):
                shutil.copy2(os.path.join(self.source, path), os.path.join(self.root, path))

    def remove_objects(self, owned):
        """Removes the objects of changed files, which make takes for newer than their restored sources."""
        for path in owned:
            for built in (re.sub(r"\.c$", ".o", path), os.path.join(os.path.dirname(path), "built-in.a")):
                if os.path.isfile(os.path.join(self.build, built)) and built != path:
                    os.remove(os.path.join(self.build, built))

    def run(self, *arguments, log=subprocess.PIPE):
        """make, with its messages in `log`."""
        os.makedirs(self.build, exist_ok=True)
        command = ["make", "-C", self.root, f"O={self.build}", "ARCH=x86_64", f"-j{self.jobs}", *arguments]
        return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, text=True, check=False)

    def make(self, *arguments):
        """Complaints of make."""
        done = self.run(*arguments)
        found = [line for line in done.stdout.split("\n") if COMPLAINT.search(line)]
        if done.returncode and not found:
            found = done.stdout.split("\n")[-20:] + [f"make {' '.join(arguments)} ended with status {done.returncode}"]
        return found

    def configure(self, config):
        """Applies the file `config` over allnoconfig, without options that the tree does not have."""
        return self.make(f"KCONFIG_ALLCONFIG={config}", "allnoconfig") + self.make("prepare")

    def refused(self, wanted):
        """The lines of a configuration with =y, =m or a value that the tree did not take."""
        with open(os.path.join(self.build, ".config"), encoding="utf-8") as file:
            have = options_of(file.read())
        return [line for option, line in options_of(wanted).items()
                if line.startswith("CONFIG_") and have.get(option) != line]

    def has(self, path):
        return os.path.exists(os.path.join(self.root, path))
