# SPDX-License-Identifier: MIT
"""Builds the newest kernel with all series applied, for the emulated board.

usage: python3 -m upstream.kernel SOURCE FOLDER MODULES FRAGMENT...

SOURCE is the kernel's source, FOLDER gets tree, objects and npu.env, MODULES copies of the driver's modules. Later
fragments of the configuration override earlier ones. scripts/kernel-upstream.sh calls it.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import types

import upstream_series
from .description import Description, DescriptionError
from .mail import apply_all
from .tree import Tree, files_of, options_of

# No mail leaves the folder.
SENDER = "The sender <sender@example.org>"
IMAGE = "vmlinux"


def digest(mails):
    """Names the changes of a list of mails; the sender has no part in it."""
    summary = hashlib.sha256()
    for mail in mails:
        with open(mail, "rb") as file:
            summary.update(file.read().split(b"\n---\n", 1)[1])
    return summary.hexdigest()


def state_of(tree, paths):
    """{path: (digest, time)} of files of the tree."""
    state = {}
    for path in paths:
        full = os.path.join(tree.root, path)
        if os.path.isfile(full):
            with open(full, "rb") as file:
                state[path] = (hashlib.sha256(file.read()).hexdigest(), os.stat(full).st_mtime_ns)
    return state


def apply(tree, mails):
    """Makes the tree with the mails applied. A file that is as before keeps its time, so that make compiles no more
    than what has changed."""
    owned = {path for mail in mails for path in files_of(mail)}
    before = state_of(tree, owned)
    tree.reset(owned)
    apply_all(mails, tree.root)
    for path, (content, _) in state_of(tree, owned).items():
        if before.get(path, ("", 0))[0] == content:
            os.utime(os.path.join(tree.root, path), ns=(before[path][1],) * 2)


def fail(what, log):
    with open(log, encoding="utf-8", errors="replace") as file:
        print(*file.read().splitlines()[-25:], sep="\n", file=sys.stderr)
    raise DescriptionError(f"{what} failed; whole output: {log}")


def configure(tree, folder, fragments):
    """Merges the fragments; an option that Kconfig dropped would be a part that silently is not there."""
    merged = {}
    for fragment in fragments:
        with open(fragment, encoding="utf-8") as file:
            merged.update(options_of(file.read()))
    text = "".join(line + "\n" for line in merged.values())
    path = os.path.join(folder, "options")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    log = os.path.join(folder, "config.log")
    with open(log, "w", encoding="utf-8") as file:
        done = tree.run(f"KCONFIG_ALLCONFIG={path}", "allnoconfig", log=file)
    if done.returncode:
        fail("configuring the kernel", log)
    refused = tree.refused(text)
    if refused:
        raise DescriptionError(f"the kernel's configuration does not take: {' '.join(refused)}; see {path} and "
                               f"{tree.build}/.config")


def compile_all(tree, folder):
    """The image and the modules. Returns the folder of the installed modules."""
    log = os.path.join(folder, "build.log")
    root = os.path.join(folder, "modules")
    shutil.rmtree(root + ".new", ignore_errors=True)
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # depmod
    for number, arguments in enumerate(((IMAGE, "modules"), (f"INSTALL_MOD_PATH={root}.new", "modules_install"))):
        with open(log, "a" if number else "w", encoding="utf-8") as file:
            done = tree.run(*arguments, log=file)
        if done.returncode:
            fail("building the kernel", log)
    shutil.rmtree(root, ignore_errors=True)
    os.rename(root + ".new", root)
    return os.path.join(root, "lib", "modules", release(tree))


def release(tree):
    with open(os.path.join(tree.build, "include", "config", "kernel.release"), encoding="utf-8") as file:
        return file.read().strip()


def write_env(tree, folder, modules):
    values = {
        "KDIR": tree.build, "KIMAGE": os.path.join(tree.build, IMAGE), "KVERSION": release(tree), "KMODULES": modules,
        "KCONFIG": os.path.join(tree.build, ".config"), "KSOURCE": tree.root,
        "CHECKPATCH": os.path.join(tree.source, "scripts", "checkpatch.pl"),
    }
    path = os.path.join(folder, "npu.env")
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.writelines(f"{key}={value}\n" for key, value in values.items())
    os.replace(path + ".new", path)


def copy_modules(tree, description, folder):
    """qnpu.ko as qnpu-upstream.ko, and so on."""
    os.makedirs(folder, exist_ok=True)
    built = os.path.join(tree.build, description.folder)
    for name in sorted(os.listdir(built)):
        stem, extension = os.path.splitext(name)
        if extension == ".ko":
            copy = os.path.join(folder, f"{stem}-upstream.ko")
            shutil.copyfile(os.path.join(built, name), copy + ".new")
            os.replace(copy + ".new", copy)


def build(source, folder, modules, fragments):
    description = Description()
    tree = Tree(source, folder, os.environ.get("NPU_JOBS") or os.cpu_count())
    with tempfile.TemporaryDirectory(prefix="upstream.") as out:
        done = upstream_series.write(types.SimpleNamespace(out=out, kernel=source, sender=SENDER))
        mails = [mail for _, paths in done for mail in paths]
        applied = os.path.join(folder, "applied")
        wanted = digest(mails)
        found = None
        if os.path.exists(applied):
            with open(applied, encoding="utf-8") as file:
                found = file.read()
        if found != wanted:
            if found:
                os.remove(applied)
            apply(tree, mails)
            configure(tree, folder, fragments)
            write_env(tree, folder, compile_all(tree, folder))
            with open(applied, "w", encoding="utf-8") as file:
                file.write(wanted)
    copy_modules(tree, description, modules)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    source, folder, modules, *fragments = sys.argv[1:]
    try:
        build(source, folder, modules, fragments)
    except (DescriptionError, subprocess.SubprocessError) as error:
        sys.exit(f"upstream.kernel: {error}")


if __name__ == "__main__":
    main()
