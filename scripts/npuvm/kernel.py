# SPDX-License-Identifier: MIT
"""The kernel that a board boots, and the modules that go into its initial file system."""

import lzma
import os
import re
import subprocess

from . import BoardError, installed

# What the guest's own plumbing needs where the kernel has it as modules: shared folders.
_PLUMBING = ("9p", "9pnet_virtio")


# Kernels that a script builds besides the one of its name: NAME -> (script, its arguments).
_VARIANTS = {
    "kcsan": ("debug", ("--checker", "kcsan")),
    "gcov": ("debug", ("--checker", "kcsan")),
}


class Kernel:
    """A kernel described by an env file: the package's, or the one that scripts/kernel-NAME.sh prints."""

    def __init__(self, name, top, architecture):
        self.name = name
        self._architecture = architecture
        self._kind, _, self._pages = name.partition("-")
        values = read_env(installed.kernel_env(top, name, architecture) or self._env_of_checkout(top))
        self.image = values["KIMAGE"]
        self.version = values["KVERSION"]
        self._modules = values["KMODULES"]

    def _env_of_checkout(self, top):
        kind, variant = _VARIANTS.get(self._kind, (self._kind, ()))
        script = os.path.join(top, "scripts", f"kernel-{kind}.sh")
        choice = list(variant)
        choice += ["--arch", self._architecture.debian] if self._architecture.suffix else []
        choice += ["--pages", self._pages] if self._pages else []
        found = subprocess.run([script, *choice, "--env"], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            target = self._target().replace("gcov", "kcsan")  # one kernel serves both
            raise BoardError(f"the {self.name} kernel is not there; run: make kernel-{target}")
        return found.stdout.strip()

    def driver_path(self, build):
        return os.path.join(build, "kernel", self._architecture.folder,
                            "qnpu.ko" if self.name == "stock" else f"qnpu-{self.name}.ko")

    @staticmethod
    def watch_path(driver):
        """The module beside the driver that resolves reports of the cache watch."""
        folder, name = os.path.split(driver)
        return os.path.join(folder, name.replace("qnpu", "qnpu_watch", 1))

    def driver_target(self):
        if self._kind == "upstream":
            return "kernel-upstream"  # its tree has the driver
        return "module" + self._target()[len("stock"):] if self._kind == "stock" else f"module-{self._target()}"

    def _target(self):
        """The end of the names of targets of make."""
        return self._kind + self._architecture.suffix + (f" PAGES={self._pages}" if self._pages else "")

    def module_files(self, driver, extra):
        """Paths of all modules to insert before the driver, in order; empty where they are built in."""
        if not self._modules:
            return []
        table = _dependencies(os.path.join(self._modules, "modules.dep"))
        wanted, wishes = list(_PLUMBING) + list(extra), []
        if driver and os.path.exists(driver):
            wanted, wishes = wanted + _depends_of(driver), _wishes_of(driver)
        builtin = _builtin(os.path.join(self._modules, "modules.builtin"))
        ordered = []
        for name in wanted + wishes:
            name = name.replace("-", "_")
            if name in table:
                for path in table[name]:
                    if path not in ordered:
                        ordered.append(path)
            elif name not in builtin and name not in wishes:
                raise BoardError(f"kernel {self.version} has no module {name}")
        return [os.path.join(self._modules, path) for path in ordered]


def module_content(path):
    """The plain ELF file; the guest's insmod reads no compressed ones."""
    opener = lzma.open if path.endswith(".xz") else open
    with opener(path, "rb") as file:
        return file.read()


def read_env(path):
    """What an env file of the scripts says."""
    values = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            key, _, value = line.rstrip("\n").partition("=")
            values[key] = value
    return values


def _module_name(path):
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def _dependencies(path):
    """Module name -> files in the order of insertion (modules.dep lists the nearest dependency first)."""
    table = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            module, _, needs = line.partition(":")
            table[_module_name(module)] = list(reversed(needs.split())) + [module]
    return table


def _builtin(path):
    with open(path, encoding="utf-8") as file:
        return {_module_name(line.strip()) for line in file}


def _depends_of(driver):
    """The modules that must be inserted first."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    answer = subprocess.run(["modinfo", "-F", "depends", driver], capture_output=True, text=True,
                            check=False, env={**os.environ, "PATH": path})
    if answer.returncode != 0:
        raise BoardError(f"{driver} is not a kernel module: {answer.stderr.strip()}")
    return [name for name in answer.stdout.strip().split(",") if name]


def _wishes_of(driver):
    """Modules with which the driver does more (softdep: pre). As for modprobe, one that is not there is no error."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    answer = subprocess.run(["modinfo", "-F", "softdep", driver], capture_output=True, text=True,
                            check=False, env={**os.environ, "PATH": path})
    return re.findall(r"pre: (\S+)", answer.stdout)
