// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/apart.h"

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace npu::fuzz {
namespace {

/// Of processor time; the slowest networks that are known take 7.
constexpr unsigned kSeconds = 120;
/// Of real time, however busy the machine is: whatever takes longer waits for something that does not come.
constexpr unsigned kHangs = 900;

constexpr int64_t Counts::*kCounts[] = {&Counts::networks, &Counts::nodes, &Counts::programs, &Counts::runs,
                                        &Counts::compared};

/// A line of its own in a pipe: text has its newlines replaced.
void say(int to, const std::string &word, size_t index, std::string text) {
  for (char &c : text)
    if (c == '\n') c = '\r';
  const std::string line = word + " " + std::to_string(index) + " " + text + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = write(to, line.data() + at, line.size() - at);
    if (n <= 0) std::abort();
    at += static_cast<size_t>(n);
  }
}

[[noreturn]] void child(int to, const std::vector<Plan> &plans, size_t first, bool use_runtime) {
  std::unique_ptr<OnnxRuntime> runtime;
  const Status opened = use_runtime ? OnnxRuntime::open(runtime) : Status();
  if (!opened.ok()) say(to, "found", first, "usage " + opened.message());
  Counts counts;
  for (size_t i = first; i < plans.size() && opened.ok(); ++i) {
    say(to, "begin", i, "");
    alarm(kHangs);
    const itimerval processor = {.it_interval = {}, .it_value = {.tv_sec = kSeconds, .tv_usec = 0}};
    setitimer(ITIMER_PROF, &processor, nullptr);
    const Finding f = check_network(make_network(plans[i]), runtime.get(), counts);
    if (!f.kind.empty()) say(to, "found", i, f.kind + " " + f.text);
    std::string numbers;
    for (int64_t Counts::*field : kCounts) numbers += std::to_string(counts.*field) + " ";
    say(to, "counts", i, numbers);
  }
  say(to, "end", 0, "");
  std::fflush(nullptr);
  _exit(0);
}

std::string read_all(int from) {
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<size_t>(n));
  return out;
}

/// What a child has said; the plan that it was at when it stopped, or the number of plans.
size_t take(const std::string &said, size_t plans, std::vector<Found> &found, Counts &counts) {
  std::istringstream lines(said);
  size_t at = plans;
  Counts c;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, kind;
    size_t index = 0;
    words >> word >> index;
    if (word == "begin") at = index;
    if (word == "end") at = plans;
    for (int64_t Counts::*field : kCounts)
      if (word == "counts") words >> c.*field;
    if (word != "found") continue;
    words >> kind;
    std::string text;
    std::getline(words >> std::ws, text);
    for (char &ch : text)
      if (ch == '\r') ch = '\n';
    found.push_back({index, {kind, text}});
  }
  for (int64_t Counts::*field : kCounts) counts.*field += c.*field;
  return at;
}

Finding how_it_ended(int signal, int status) {
  if (signal == SIGPROF)
    return {kSlow, "it takes more than " + std::to_string(kSeconds) + " seconds of processor time"};
  if (signal == SIGALRM) return {kSlow, "it has not ended after " + std::to_string(kHangs) + " seconds"};
  if (signal) return {"crash", std::string("it ends by a signal: ") + strsignal(signal)};
  return {"crash", "it ends with status " + std::to_string(WEXITSTATUS(status))};
}

}  // namespace

std::vector<Found> check_apart(const std::vector<Plan> &plans, bool runtime, Counts &counts) {
  std::vector<Found> found;
  for (size_t first = 0; first < plans.size();) {
    int ends[2];
    std::fflush(nullptr);
    if (pipe(ends) != 0) std::abort();
    const pid_t pid = fork();
    if (pid < 0) std::abort();
    if (pid == 0) {
      close(ends[0]);
      child(ends[1], plans, first, runtime);
    }
    close(ends[1]);
    const std::string said = read_all(ends[0]);
    close(ends[0]);
    int status = 0;
    if (waitpid(pid, &status, 0) != pid) std::abort();
    const size_t at = take(said, plans.size(), found, counts);
    if (at < plans.size()) {
      const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      found.push_back({at, how_it_ended(signal, status)});
    } else if (status != 0) {
      // Not at a network: on the way in or out.
      found.push_back({first, {"crash", "the process fails outside of a network"}});
    }
    first = at + 1;
  }
  return found;
}

}  // namespace npu::fuzz
