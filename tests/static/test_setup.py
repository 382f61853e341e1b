#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests the scripts that set up and build, with programs in the place of apt, CMake and ninja that record their calls:
copied and moved checkouts, builds at the same time, missing packages, no network, no space, and interruptions.

usage: test_setup.py   the last line is "N passed, N failed"
"""
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CMAKE = """#!/bin/sh
echo "cmake $*" >>"$CALLS"
cat >"$4/CMakeCache.txt" <<CACHE
CMAKE_HOME_DIRECTORY:INTERNAL=$2
CMAKE_CACHEFILE_DIR:INTERNAL=$4
BUILD_TESTING:BOOL=$(case "$*" in *BUILD_TESTING=ON*) echo ON ;; *) echo OFF ;; esac)
CACHE
touch "$4/build.ninja"
"""
NINJA = """#!/bin/sh
echo "ninja $*" >>"$CALLS"
case "$*" in *" -t "*) exit ;; esac
[ -z "$HELD" ] || while [ -e "$HELD" ]; do sleep 0.05; done
"""


class Scripts(unittest.TestCase):
    """A checkout that has nothing but the scripts."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.calls = os.path.join(self.folder, "calls")
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.bin)
        self.program("cmake", CMAKE)
        self.program("ninja", NINJA)
        self.top = self.checkout("one")

    def program(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def checkout(self, name):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        shutil.copytree(os.path.join(TOP, "scripts"), os.path.join(path, "scripts"))
        return path

    def start(self, top, script, *arguments, **variables):
        environment = {**os.environ, "PATH": self.bin + ":" + os.environ["PATH"], "CALLS": self.calls, "HELD": "",
                       "XDG_CACHE_HOME": os.path.join(self.folder, "cache"), **variables}
        for name in ("NPU_BUILD", "NPU_JOBS", "CONFIG", "UNITY", "http_proxy", "https_proxy", "HTTPS_PROXY"):
            if name not in variables:
                environment.pop(name, None)
        return subprocess.Popen([os.path.join(top, "scripts", script), *arguments], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def run_script(self, top, script, *arguments, status=0, **variables):
        process = self.start(top, script, *arguments, **variables)
        output = process.communicate(timeout=300)[0]
        self.assertEqual(status, process.returncode, output)
        return output

    def recorded(self, program):
        """The calls of a program since the last look."""
        if not os.path.exists(self.calls):
            return []
        with open(self.calls, encoding="utf-8") as file:
            lines = file.read().splitlines()
        os.remove(self.calls)
        return [line for line in lines if line.startswith(program + " ")]


class Configure(Scripts):
    """scripts/configure.sh and scripts/build.sh."""

    def test_a_tree_is_configured_once(self):
        self.run_script(self.top, "build.sh", "programs")
        self.assertEqual(1, len(self.recorded("cmake")))
        self.run_script(self.top, "build.sh", "programs")
        self.assertEqual([], self.recorded("cmake"))
        self.run_script(self.top, "build.sh", "all")
        self.assertRegex(self.recorded("cmake")[0], "BUILD_TESTING=ON")
        self.run_script(self.top, "build.sh", "programs")
        self.assertEqual([], self.recorded("cmake"))

    def test_a_symbolic_link_to_the_checkout_is_the_checkout(self):
        self.run_script(self.top, "build.sh", "programs")
        self.recorded("cmake")
        link = os.path.join(self.folder, "link")
        os.symlink(self.top, link)
        self.run_script(link, "build.sh", "programs")
        self.assertEqual([], self.recorded("cmake"))

    def test_a_copied_and_a_moved_checkout_are_configured_from_nothing(self):
        self.run_script(self.top, "build.sh", "programs")
        copy, moved = os.path.join(self.folder, "copy"), os.path.join(self.folder, "moved")
        shutil.copytree(self.top, copy)
        shutil.move(self.top, moved)
        for place in (copy, moved):
            self.recorded("cmake")
            with open(os.path.join(place, "build", "old.o"), "w", encoding="utf-8"):
                pass
            self.assertIn("copied or moved from", self.run_script(place, "build.sh", "programs"))
            self.assertRegex(self.recorded("cmake")[0], f"-S {place} ")
            self.assertFalse(os.path.exists(os.path.join(place, "build", "old.o")))

    def test_the_build_folder_of_another_checkout_is_left_alone(self):
        self.run_script(self.top, "build.sh", "programs")
        other, build = self.checkout("two"), os.path.join(self.top, "build")
        output = self.run_script(other, "build.sh", "programs", status=1, NPU_BUILD=build)
        self.assertIn(f"{build} is the build folder of another checkout, {self.top}", output)
        self.assertTrue(os.path.exists(os.path.join(build, "build.ninja")))

    def check_waiting(self, *second):
        """While a build holds build/, the second script waits for it, and succeeds afterwards."""
        held = os.path.join(self.folder, "held")
        with open(held, "w", encoding="utf-8"):
            pass
        first = self.start(self.top, "build.sh", "programs", HELD=held)
        self.wait_for_ninja()
        second = self.start(self.top, *second, NPU_BUILD=os.path.join(self.top, "build"))
        line = second.stdout.readline()
        os.remove(held)
        self.assertEqual(0, first.wait(300))
        first.stdout.close()
        output = second.communicate(timeout=300)[0]
        self.assertEqual(0, second.returncode, line + output)
        self.assertRegex(line, f"waiting for the build of process {first.pid} ")

    def test_two_builds_of_one_folder_wait_for_each_other(self):
        self.check_waiting("build.sh", "programs")

    def test_a_fuzzer_is_built_when_no_other_build_is_at_work(self):
        os.makedirs(os.path.join(self.top, "build", "bin"))
        os.symlink("/bin/true", os.path.join(self.top, "build", "bin", "fuzz_nets"))
        self.check_waiting("fuzz.sh", "nets")
        jobs = len(os.sched_getaffinity(0)) + 1
        self.assertIn(f"ninja -C {self.top}/build -j{jobs} fuzz_nets", self.recorded("ninja"))

    def test_one_build_with_a_sanitizer_in_a_folder(self):
        """Also while its tests run."""
        held = os.path.join(self.folder, "held")
        with open(held, "w", encoding="utf-8"):
            pass
        self.program("ctest", '#!/bin/sh\necho ctest runs\nwhile [ -e "$HELD" ]; do sleep 0.05; done\n')
        self.program("ninja", "#!/bin/sh\n")
        first = self.start(self.top, "sanitize.sh", "thread", HELD=held)
        for line in first.stdout:
            if line == "ctest runs\n":
                break
        second = self.start(self.top, "sanitize.sh", "thread")
        self.assertRegex(second.stdout.readline(), f"waiting for the build of process {first.pid} ")
        os.remove(held)
        for process in (first, second):
            process.communicate(timeout=300)

    def test_a_killed_build_holds_nothing(self):
        held = os.path.join(self.folder, "held")
        with open(held, "w", encoding="utf-8"):
            pass
        first = self.start(self.top, "build.sh", "programs", HELD=held)
        self.wait_for_ninja()
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
        self.assertNotIn("waiting", self.run_script(self.top, "build.sh", "programs"))


    def wait_for_ninja(self):
        """Until the build of `programs` holds the folder."""
        wanted, text = f"ninja -C {self.top}/build -j{len(os.sched_getaffinity(0)) + 1} programs", ""
        while wanted not in text:
            time.sleep(0.05)
            if os.path.exists(self.calls):
                with open(self.calls, encoding="utf-8") as file:
                    text = file.read()


class Make(Scripts):
    """The Makefile's own commands on the build folder."""

    def make(self, top, *arguments, **variables):
        shutil.copy(os.path.join(TOP, "Makefile"), top)
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("NPU_BUILD", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        environment.update(variables)
        done = subprocess.run(["make", "-C", top, *arguments], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
        self.assertEqual(0, done.returncode, done.stdout)
        return done.stdout

    def test_clean_in_a_folder_with_a_space_removes_its_own_build_folders(self):
        top = self.checkout("one two")
        own = [os.path.join(top, name) for name in ("build", "build-asan", "build-tsan")]
        other = [self.top, os.path.join(top, "scripts"), os.path.join(self.folder, "two")]
        for path in own + [other[-1]]:
            os.mkdir(path)
        self.make(top, "clean")
        self.assertEqual([], [path for path in own if os.path.exists(path)])
        self.assertEqual([], [path for path in other if not os.path.exists(path)])

    def test_the_build_folder_of_the_environment_is_used(self):
        build = os.path.join(self.folder, "my build")
        os.mkdir(build)
        os.mkdir(os.path.join(self.top, "build"))
        for target, command in (("install", f'cmake --install "{build}" '),
                                ("conformance", f'conformance.py "{build}/bin/npu_conformance_test"'),
                                ("onnxruntime", f'cmake "{build}"')):
            self.assertIn(command, self.make(self.top, "-n", target, NPU_BUILD=build))
        self.make(self.top, "clean", NPU_BUILD=build)
        self.assertFalse(os.path.exists(build))
        self.assertTrue(os.path.exists(os.path.join(self.top, "build")))


class Setup(Scripts):
    """scripts/setup.sh."""

    def setUp(self):
        super().setUp()
        self.program("dpkg-query", "#!/bin/sh\necho 'ii  cmake'\n")
        self.program("apt-get", '#!/bin/sh\necho "apt-get $*" >>"$CALLS"\n'
                     "case \"$*\" in *--print-uris*) echo \"'http://127.0.0.1:9/debian x' 1\" ;; esac\n")
        self.program("apt-config", "#!/bin/sh\n")

    def test_without_root_the_packages_and_one_command_are_named(self):
        self.program("id", "#!/bin/sh\necho 1000\n")
        os.remove(os.path.join(self.bin, "apt-get"))
        hidden = ":".join(part for part in os.environ["PATH"].split(":")
                          if not os.path.exists(os.path.join(part, "sudo")))
        output = self.run_script(self.top, "setup.sh", "sim", status=1, PATH=self.bin + ":" + hidden)
        self.assertRegex(output, r"run as root: apt-get install --no-install-recommends .*ninja-build")
        self.assertNotRegex(output, "apt-get install .*[^-]cmake ")

    def test_without_a_network_nothing_is_begun(self):
        self.program("id", "#!/bin/sh\necho 0\n")
        output = self.run_script(self.top, "setup.sh", "sim", status=1)
        self.assertRegex(output, "the network is needed to install packages, and 127.0.0.1, port 9, cannot be reached")
        self.assertFalse([call for call in self.recorded("apt-get") if "install" in call])

    def test_where_apt_has_a_proxy_that_is_tried(self):
        self.program("id", "#!/bin/sh\necho 0\n")
        self.program("apt-config", "#!/bin/sh\necho 'Acquire::http::Proxy \"http://user:word@127.0.0.2:9\";'\n")
        self.assertIn("127.0.0.2, port 9, cannot be reached", self.run_script(self.top, "setup.sh", "sim", status=1))

    def test_what_a_check_needs_is_in_its_set(self):
        output = self.run_script(self.top, "setup.sh", "--list", "full")
        for package in ("ninja-build", "clang-format", "clang-tidy", "sparse", "coccinelle"):
            self.assertRegex(output, f"(?m)^{package} ")

    def test_unknown_sets(self):
        self.assertRegex(self.run_script(self.top, "setup.sh", "smi", status=1), "unknown set of packages: smi")

    def test_missing_lists_and_installs_nothing(self):
        output = self.run_script(self.top, "setup.sh", "--missing", "sim", status=1)
        self.assertIn("ninja-build", output)
        self.assertEqual([], self.recorded("apt-get"))


class Index(Scripts):
    """The package index in the cache."""

    def setUp(self):
        super().setUp()
        self.program("apt-config", "#!/bin/sh\n")
        script = os.path.join(self.top, "scripts", "refresh.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write('#!/bin/bash\nNPU_STEP=index\n. "$(dirname "$0")/lib.sh"\nhost_release() { echo bookworm; }\n'
                       'apt_refresh\n')
        os.chmod(script, 0o755)

    def test_without_a_network_the_index_is_not_read(self):
        self.program("apt-get", """#!/bin/sh
echo "apt-get $*" >>"$CALLS"
echo "Debian|bookworm|http://127.0.0.1:9/debian"
echo "Debian|bookworm-security|http://127.0.0.1:9/security"
""")
        output = self.run_script(self.top, "refresh.sh", status=1)
        self.assertRegex(output, "the network is needed to read the package index, and 127.0.0.1, port 9, cannot be")
        self.assertFalse([call for call in self.recorded("apt-get") if "update" in call])

    def test_processes_that_need_the_index_at_once_read_it_once(self):
        """apt-get fails where another one is at work in the same folders, as the real one does."""
        self.program("apt-get", """#!/bin/sh
case "$*" in
    *indextargets*)
        echo "Debian|bookworm|file:/debian"
        echo "Debian|bookworm-security|file:/security"
        ;;
    *update*)
        echo "apt-get update" >>"$CALLS"
        mkdir "$CALLS.busy" || exit 100
        while [ -e "$HELD" ]; do sleep 0.05; done
        rmdir "$CALLS.busy"
        ;;
esac
""")
        held = os.path.join(self.folder, "held")
        with open(held, "w", encoding="utf-8"):
            pass
        first = self.start(self.top, "refresh.sh", HELD=held)
        while not os.path.exists(self.calls + ".busy"):
            if first.poll() is not None:
                self.fail(first.communicate()[0])
            time.sleep(0.05)
        second = self.start(self.top, "refresh.sh", HELD=held)
        # It waits where another process holds the lock that it wants, or it has failed.
        while second.poll() is None and not self.waits_for_a_lock(second.pid):
            time.sleep(0.05)
        os.remove(held)
        for process in (first, second):
            output = process.communicate(timeout=60)[0]
            self.assertEqual(0, process.returncode, output)
        self.assertEqual(1, len(self.recorded("apt-get")))

    @staticmethod
    def waits_for_a_lock(leader):
        """Whether flock of this process's group waits."""
        with open("/proc/locks", encoding="utf-8") as file:
            waiting = [int(line.split()[5]) for line in file if "->" in line]
        return any(os.path.exists(f"/proc/{pid}") and os.getpgid(pid) == leader for pid in waiting)


class Qemu(Scripts):
    """qemu-device/qemu/build.sh, with a source that has nothing but what the script looks at."""

    SCRIPT = "../qemu-device/qemu/build.sh"

    def setUp(self):
        super().setUp()
        for name in (self.SCRIPT[3:], "qemu-device/qemu/meson.build", "qemu-device/qemu/devices-x86_64.mak",
                     "qemu-device/qemu/npu.c", "qemu-device/qemu/patches/npu-folder.patch",
                     "qemu-device/qemu/patches/soc-node.patch", "qemu-device/model/include/npu_model.h",
                     "qemu-device/model/libnpumodel.map", "uapi/hw/npu_regs.h"):
            os.makedirs(os.path.dirname(os.path.join(self.top, name)), exist_ok=True)
            shutil.copy(os.path.join(TOP, name), os.path.join(self.top, name))
        self.base = os.path.join(self.folder, "cache", "npu", "qemu")
        os.makedirs(os.path.join(self.base, "meson"))
        with open(os.path.join(self.base, "meson", ".complete"), "w", encoding="utf-8"):
            pass
        for name in ("pkg-config", "xz"):
            self.program(name, "#!/bin/sh\n")
        self.program("gcc", '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ntouch "$2"\n')
        self.program("strip", '#!/bin/sh\ncp "$4" "$3"\n')
        self.program("patch", '#!/bin/sh\n[ ! -e "$CALLS.bad" ]\n')
        self.program("ninja", '#!/bin/sh\n[ ! -e "$CALLS.bad" ] && touch "$2/$4" && chmod +x "$2/$4"\n')

    def archive(self, version):
        """The source archive of a version of QEMU, as variables of the script."""
        tree = os.path.join(self.folder, "qemu-" + version)
        for folder in ("configs/devices/x86_64-softmmu", "hw/misc"):
            os.makedirs(os.path.join(tree, folder))
        for name, text in (("VERSION", version), ("configure", "#!/bin/sh\ntouch build.ninja\n")):
            with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
                file.write(text)
        os.chmod(os.path.join(tree, "configure"), 0o755)
        with tarfile.open(tree + ".tar", "w") as file:
            file.add(tree, arcname=os.path.basename(tree))
        with open(tree + ".tar", "rb") as file:
            return {"NPU_QEMU_TARBALL": tree + ".tar", "NPU_QEMU_SHA256": hashlib.sha256(file.read()).hexdigest()}

    def change(self, name):
        with open(os.path.join(self.top, "qemu-device", "qemu", name), "a", encoding="utf-8") as file:
            file.write("\n")

    def break_programs(self, bad):
        """From now on patch and ninja fail, or not."""
        if bad:
            with open(self.calls + ".bad", "w", encoding="utf-8"):
                pass
        else:
            os.remove(self.calls + ".bad")

    def test_a_build_that_failed_hides_no_binary(self):
        source = self.archive("10.0.99")
        built = self.run_script(self.top, self.SCRIPT, **source).splitlines()[-1]
        self.assertTrue(os.access(built, os.X_OK), built)
        for name in ("npu.c", "patches/npu-folder.patch"):
            path = os.path.join(self.top, "qemu-device", "qemu", name)
            shutil.copy(path, path + ".before")
            self.change(name)
            self.break_programs(True)
            self.assertIn("failed with status", self.run_script(self.top, self.SCRIPT, status=1))
            self.break_programs(False)
            os.replace(path + ".before", path)
            self.assertEqual(built + "\n", self.run_script(self.top, self.SCRIPT, "--print"))
        # The patches of the source are in doubt now, so another one is unpacked.
        self.change("npu.c")
        output = self.run_script(self.top, self.SCRIPT, **source)
        self.assertIn("unpacking", output)
        self.change("npu.c")
        output = self.run_script(self.top, self.SCRIPT, NPU_QEMU_TARBALL="/nowhere")
        self.assertNotIn("patching", output)

    def test_a_cache_with_a_space_in_its_path(self):
        cache = os.path.join(self.folder, "my cache")
        output = self.run_script(self.top, self.SCRIPT, status=1, XDG_CACHE_HOME=cache, **self.archive("10.0.99"))
        self.assertIn(f"QEMU cannot be built in a folder with a space or a colon: {cache}/npu/qemu", output)
        self.assertFalse(os.path.exists(cache))

    def test_no_space(self):
        self.program("df", "#!/bin/sh\necho Avail\necho 1000\n")
        output = self.run_script(self.top, self.SCRIPT, status=1)
        self.assertRegex(output, "only 0 MB are free in .*/cache/npu, and 500 MB are needed")

    def test_the_source_of_another_version(self):
        output = self.run_script(self.top, self.SCRIPT, status=1, **self.archive("9.2.0"))
        self.assertIn("qemu-9.2.0.tar has QEMU 9.2.0; the device is for QEMU 10.0.x", output)
        self.assertEqual([], [name for name in os.listdir(self.base) if name.startswith("tree")])


class Environment(Scripts):
    """Variables that a user's shell may have."""

    def test_a_locale_changes_neither_words_nor_order(self):
        path = os.path.join(self.top, "scripts", "locale.sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write('NPU_STEP=locale\n. "$(dirname "$0")/lib.sh"\necho "$LC_ALL ${LANGUAGE-unset}"\n')
        done = subprocess.run(["bash", path], env={**os.environ, "LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"}, text=True,
                              check=True, stdout=subprocess.PIPE)
        self.assertEqual("C.UTF-8 unset\n", done.stdout)

    def test_cdpath(self):
        self.run_script(self.top, "build.sh", "programs", CDPATH=".")
        self.assertIn(f"-C {self.top}/build ", self.recorded("ninja")[-1])

    def test_a_relative_build_folder(self):
        folder = os.path.join(self.folder, "elsewhere")
        self.run_script(self.top, "build.sh", "programs", NPU_BUILD=os.path.relpath(folder))
        self.assertIn(f"-C {folder} ", self.recorded("ninja")[-1])

    def test_values_that_are_refused(self):
        for name, value in (("NPU_JOBS", "0"), ("NPU_JOBS", "-1"), ("NPU_JOBS", "x"), ("CONFIG", "nope"),
                            ("UNITY", "yes"), ("XDG_CACHE_HOME", "cache")):
            with self.subTest(name=name, value=value):
                output = self.run_script(self.top, "build.sh", "programs", status=1, **{name: value})
                self.assertIn(f"error: {name} is '{value}'", output)
        self.assertEqual([], [call for call in self.recorded("ninja") if " -t " not in call])

    def test_minutes_of_a_fuzzer(self):
        self.assertIn("error: MINUTES is 'x'", self.run_script(self.top, "fuzz.sh", "nets", status=1, MINUTES="x"))

    def test_jobs(self):
        self.run_script(self.top, "build.sh", "programs", NPU_JOBS="7")
        self.assertIn(" -j7 ", self.recorded("ninja")[-1])

    def test_tests_for_arm64_hosts_without_a_build(self):
        output = self.run_script(self.top, "build-arm64.sh", "--test", status=1)
        self.assertIn("nothing is built for arm64 hosts\n", output)
        self.assertIn("run: make build-arm64-host", output)

    def test_a_build_folder_with_a_space(self):
        os.makedirs(os.path.join(self.top, "kernel"))
        with open(os.path.join(self.top, "kernel", "Makefile"), "w", encoding="utf-8"):
            pass
        folder = os.path.join(self.folder, "my build")
        self.program("df", "#!/bin/sh\necho Avail\necho 99999999\n")
        output = self.run_script(self.top, "demo.sh", "pc", status=1, NPU_BUILD=folder)
        self.assertIn(f"the driver cannot be built in a folder with a space or a colon: {folder}", output)

    def test_an_incomplete_record_of_a_kernel_is_made_again(self):
        folder = os.path.join(self.folder, "cache", "npu", "kernel-stock", "6.12.1-amd64")
        os.makedirs(folder)
        with open(os.path.join(folder, "npu.env"), "w", encoding="utf-8"):
            pass
        output = self.run_script(self.top, "kernel-stock.sh", "--env", status=1)
        self.assertIn("the stock kernel is not in the cache", output)


class Space(Scripts):
    """Scripts that fill a disk, on one that is full: they end before they begin anything."""

    COMMANDS = (("demo.sh", "sim"), ("build.sh", "all"), ("build.sh", "programs"), ("kernel-stock.sh",),
                ("kernel-debug.sh",), ("kernel-newest.sh",), ("sysroot-arm64.sh",))

    def test_no_space(self):
        self.program("df", "#!/bin/sh\necho Avail\necho 1000\n")
        for name in ("bison", "flex", "bc", "aarch64-linux-gnu-as"):  # not in every set of packages
            self.program(name, "#!/bin/sh\n")
        for command in self.COMMANDS:
            with self.subTest(command):
                output = self.run_script(self.top, *command, status=1)
                self.assertRegex(output, "only 0 MB are free in .*, and [0-9]+ MB are needed")


class Demo(Scripts):
    """scripts/demo.sh, before it begins anything."""

    def test_options_of_a_board_without_one(self):
        self.assertIn("options of npu-vm are for boards: --time exact",
                      self.run_script(self.top, "demo.sh", "sim", "--time", "exact", status=1))

    def test_an_unknown_board(self):
        self.assertRegex(self.run_script(self.top, "demo.sh", "vrit", status=1), "vrit")

    def test_an_interruption_ends_all_tasks(self):
        self.program("ninja", '#!/bin/sh\ncase "$*" in *" -t "*) exit ;; esac\n'
                     'echo "ninja $*" >>"$CALLS"\necho $$ >"$CALLS.pid"\nsleep 1000\n')
        process = self.start(self.top, "demo.sh", "sim")
        while not os.path.exists(self.calls + ".pid") or not os.path.getsize(self.calls + ".pid"):
            if process.poll() is not None:
                self.fail(process.communicate()[0])
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        output = process.communicate(timeout=60)[0]
        self.assertEqual(130, process.returncode, output)
        self.assertIn("interrupted; the next run continues here", output)
        with open(self.calls + ".pid", encoding="utf-8") as file:
            child = file.read().strip()
        for _ in range(600):
            if not os.path.exists(f"/proc/{child}"):
                break
            time.sleep(0.1)
        self.assertFalse(os.path.exists(f"/proc/{child}"))


if __name__ == "__main__":
    program = unittest.main(exit=False).result
    bad = len(program.failures) + len(program.errors)
    print(f"{program.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
