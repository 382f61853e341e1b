#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs a plan of suites inside the emulated board; the last line is "N passed, N failed".
#
#   run.sh PLAN
#
# check.py and programs.py write plans and boot the board: see there. A line of a plan is NAME<TAB>FLAGS<TAB>COMMAND, or
# a comment that begins with # and is printed. FLAGS, separated by commas, or "-":
#   reports  on a SoC, the cache watch may have reports after the suite
#   host     the host counts the tests of this suite: here only its status counts
#
# After each suite stands a line "== NAME: N passed, N failed, N s". NPU_TESTS=PATTERN runs only the tests with such
# names in cmocka programs (* and ?); with NPU_ROUNDS=N each suite runs N times, or until it fails.
# Needs root, and the module loaded or its path in $NPU_KO. On a kernel with KCSAN a suite fails if it causes a report
# of a data race in a module. Counters of gcov are copied to the folder gcov beside the plan.

passed=0
failed=0
soc=$(find /sys/bus/platform/devices/ -name '*.npu')
output=/tmp/npu-test.log

# counts FILE: passed and failed tests by the closing lines of cmocka and GoogleTest (one for each group of tests), of
# unittest, and of scripts ("N passed, N failed").
counts() {
	awk '
	/^\[  PASSED  \] [0-9]+ test/ { p += $4 }
	/^\[  FAILED  \] [0-9]+ test/ { f += $4 }
	/^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3 }
	/^Ran [0-9]+ tests? in / { ran = $2 }
	/^OK|^FAILED \(/ && ran {
		bad = 0
		line = $0
		while (match(line, /(failures|errors|unexpected successes)=[0-9]+/)) {
			split(substr(line, RSTART, RLENGTH), word, "=")
			bad += word[2]
			line = substr(line, RSTART + RLENGTH)
		}
		skipped = match($0, /skipped=[0-9]+/) ? substr($0, RSTART + 8, RLENGTH - 8) : 0
		f += bad
		p += ran - bad - skipped
		ran = 0
	}
	END { print p + 0, f + 0 }' "$1"
}

# On a SoC: the cache watch has nothing to report of what our programs, libraries and driver do. Memory without an owner
# is that of an exporter like udmabuf, which does not maintain caches at first.
forget_reports() { for file in /sys/kernel/debug/accel/*/cache_watch; do [ ! -e "$file" ] || echo 0 >"$file"; done; }
reports() { grep -h '^kind=' /sys/kernel/debug/accel/*/cache_watch 2>/dev/null | grep -v ' place=unknown '; }

# Titles of reports of data races that name a function of a module.
races() { dmesg | grep 'BUG: KCSAN: .* \[[[:alnum:]_]*\]'; }
seen=0

# Reports that are new since the last call; fails where there are any.
no_new_races() {
	count=$(races | wc -l)
	[ "$count" -gt $seen ] || return 0
	echo "KCSAN has $((count - seen)) reports:"
	races | tail -n $((count - seen))
	seen=$count
	return 1
}

# After each suite, so that a board that dies leaves the counters of those before. The name of an object's file is that
# of its source: no two are the same.
keep_counters() {
	counters=$(find /sys/kernel/debug/gcov -name '*.gcda' 2>/dev/null)
	[ -n "$counters" ] || return 0
	mkdir -p "${plan%/*}/gcov"
	for file in $counters; do cat "$file" >"${plan%/*}/gcov/${file##*/}"; done
}

# run NAME FLAGS COMMAND: once. A program that dies, hangs or runs no test has failed, whatever it printed before.
run() {
	name=$1 flags=,$2,
	echo "== $name"
	[ -z "$soc" ] || forget_reports
	begun=$(date +%s)
	timeout 5400 sh -c "exec $3" >$output 2>&1 </dev/null 4<&-
	status=$?
	cat $output
	case $flags in
	*,host,*) p=0 f=0 ;;
	*)
		read -r p f <<-END
			$(counts $output)
		END
		[ $((p + f)) -gt 0 ] || f=1
		;;
	esac
	[ "$f" -gt 0 ] || [ $status -eq 0 ] || f=1
	case $flags in
	*,reports,*) ;;
	*)
		if [ -n "$soc" ] && reports >/tmp/npu-reports; then
			echo "the cache watch has $(wc -l </tmp/npu-reports) reports:" && head -n 5 /tmp/npu-reports
			f=$((f + 1))
		fi
		;;
	esac
	[ ! -e /sys/kernel/debug/kcsan ] || no_new_races || f=$((f + 1))
	keep_counters
	passed=$((passed + p))
	failed=$((failed + f))
	[ "$f" -eq 0 ] || echo "FAILED: $name (status $status)"
	echo "== $name: $p passed, $f failed, $(($(date +%s) - begun)) s"
}

plan=${1:-}
[ -r "$plan" ] || { echo "run.sh: cannot read the plan '$plan' (tests/guest/check.py writes it)" && exit 2; }
tab=$(printf '\t')
while IFS=$tab read -r name flags command <&4; do
	case $name in
	"") continue ;;
	"#"*) echo "== ${name#??}" && continue ;;
	esac
	before=$failed
	for _ in $(seq "${NPU_ROUNDS:-1}"); do
		run "$name" "$flags" "$command"
		[ $failed -eq $before ] || break
	done
done 4<"$plan"

# A board with KCSAN that watched nothing has found no race either.
! grep -q '^enabled: 1' /sys/kernel/debug/kcsan 2>/dev/null || {
	watched=$(awk '/^setup_watchpoints:/ { print $2 }' /sys/kernel/debug/kcsan)
	echo "KCSAN watched $watched accesses"
	[ "$watched" -gt 0 ] || failed=$((failed + 1))
}

# A warning of the kernel is a failure, even if every test passed. Data races have been counted.
echo "== kernel log"
if dmesg | grep -v 'BUG: KCSAN:' | grep -E 'WARNING:|BUG:|KASAN|possible circular|INFO: task .* blocked'; then
	failed=$((failed + 1))
	echo "== kernel log: 0 passed, 1 failed, 0 s"
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
