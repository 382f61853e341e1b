// SPDX-License-Identifier: MIT
// Random networks of all operators that npuc takes: compiled for three sizes of local memory, run on the chip model,
// and compared with the evaluator and, where NPU_ONNXRUNTIME names its library, with ONNX Runtime.
// docs/develop/testing.md.
#include <getopt.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/fuzz/nets/apart.h"
#include "tests/fuzz/nets/save.h"
#include "tests/fuzz/nets/shrink.h"

namespace npu::fuzz {
namespace {

constexpr char kUsage[] =
    "usage: fuzz_nets [--quantized|--calibrated|--reals] [--seeds FIRST[-LAST]]... [--fresh COUNT]\n"
    "                 [--salt TEXT] [--seconds N] [--out DIR | --save DIR]\n"
    "  --quantized  networks of operators between nodes that quantize, compared bit for bit\n"
    "  --calibrated networks with masks and small parts, of which npuc makes integers by samples\n"
    "  --reals      networks with numbers at the limits of 16 bits and masks, compiled with --reals fp16 and bf16\n"
    "  --seeds      networks of these seeds\n"
    "  --fresh      so many networks more, of seeds that follow from the salt\n"
    "  --seconds    fresh ones until time is up\n"
    "  --out        where networks that failed are written (default: here)\n"
    "  --save       checks nothing, and writes each network that ONNX Runtime understands as the compiler does, with "
    "its\n"
    "               inputs, into a folder of its own below this one\n";

constexpr size_t kBatch = 250, kMostFindings = 5;
constexpr int kShrinkTrials = 3000;
constexpr int kSlowTrials = 8;  ///< each may take as long as a network may

struct Arguments {
  std::vector<uint64_t> seeds;
  uint64_t fresh = 0, salt = 0;
  double seconds = 0;
  NetKind kind = NetKind::Float;
  std::string out = ".", save;
};

bool add_seeds(const std::string &text, Arguments &a) {
  unsigned long long first = 0, last = 0;
  char rest = 0;
  const int n = std::sscanf(text.c_str(), "%llu-%llu %c", &first, &last, &rest);
  if (n == 1) last = first;
  if (n < 1 || n > 2 || last < first || last - first > 100000000) return false;
  for (unsigned long long s = first; s <= last; ++s) a.seeds.push_back(s);
  return true;
}

/// FNV-1a.
uint64_t hash_of(const std::string &text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return h;
}

bool parse(int argc, char **argv, Arguments &a) {
  static const option kOptions[] = {{"seeds", 1, nullptr, 's'},      {"fresh", 1, nullptr, 'f'},
                                    {"salt", 1, nullptr, 'a'},       {"seconds", 1, nullptr, 't'},
                                    {"out", 1, nullptr, 'o'},        {"quantized", 0, nullptr, 'q'},
                                    {"calibrated", 0, nullptr, 'c'}, {"reals", 0, nullptr, 'r'},
                                    {"save", 1, nullptr, 'w'},       {nullptr, 0, nullptr, 0}};
  bool ok = true;
  for (int c; (c = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    if (c == 's') ok = ok && add_seeds(optarg, a);
    if (c == 'f') a.fresh = std::strtoull(optarg, nullptr, 10);
    if (c == 'a') a.salt = hash_of(optarg);
    if (c == 't') a.seconds = std::strtod(optarg, nullptr);
    if (c == 'o') a.out = optarg;
    if (c == 'w') a.save = optarg;
    if (c == 'q') a.kind = NetKind::Quantized;
    if (c == 'c') a.kind = NetKind::Calibrated;
    if (c == 'r') a.kind = NetKind::Reals;
    ok = ok && c != '?';
  }
  return ok && optind == argc && (!a.seeds.empty() || a.fresh || a.seconds > 0);
}

const char *name_of(NetKind kind) {
  switch (kind) {
    case NetKind::Float:
      break;
    case NetKind::Quantized:
      return "quantized";
    case NetKind::Calibrated:
      return "calibrated";
    case NetKind::Reals:
      return "reals";
  }
  return "";
}

/// The option that makes networks of a kind.
std::string option_of(NetKind kind) { return kind == NetKind::Float ? "" : "--" + std::string(name_of(kind)) + " "; }

/// Shrinks a finding, writes its network and says how to see it again.
void report(uint64_t seed, const Finding &f, const Arguments &a) {
  std::printf("\nseed %llu: %s\n", static_cast<unsigned long long>(seed), f.text.c_str());
  std::fflush(stdout);
  Finding last = f;
  const auto fails = [&](const Plan &plan) {
    Counts ignored;
    for (const Found &found : check_apart({plan}, f.kind.starts_with("onnxruntime"), ignored))
      if (found.finding.kind == f.kind) {
        last = found.finding;
        return true;
      }
    return false;
  };
  const Made made =
      make_network(shrink(random_plan(seed, a.kind), fails, f.kind == kSlow ? kSlowTrials : kShrinkTrials));
  const std::string path = a.out + "/fuzz-nets-" + std::to_string(seed) + ".onnx";
  std::ofstream(path, std::ios::binary) << made.model;
  std::printf("shrunk: %s\n%sthe network: %s\nagain: fuzz_nets %s--seeds %llu\n", last.text.c_str(),
              describe(made.model).c_str(), path.c_str(), option_of(a.kind).c_str(),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
}

class Run {
 public:
  explicit Run(const Arguments &a) : a_(a), random_(a.salt) {}

  int all() {
    size_t next = 0;
    for (std::vector<uint64_t> seeds = batch(next); !seeds.empty() && findings_ < kMostFindings; seeds = batch(next)) {
      if (!a_.save.empty()) {
        if (!save(seeds)) return 1;
        continue;
      }
      std::vector<Plan> plans;
      for (uint64_t seed : seeds) plans.push_back(random_plan(seed, a_.kind));
      for (const Found &found : check_apart(plans, true, counts_)) {
        if (found.finding.kind == "usage") {
          std::fprintf(stderr, "fuzz_nets: %s\n", found.finding.text.c_str());
          return 2;
        }
        if (findings_++ < kMostFindings) report(seeds[found.index], found.finding, a_);
      }
    }
    if (!a_.save.empty()) return 0;
    const bool runtime = std::getenv("NPU_ONNXRUNTIME") && *std::getenv("NPU_ONNXRUNTIME");
    const auto number = [](int64_t n) { return std::to_string(n); };
    const std::string text = number(counts_.networks) + " networks (" + number(counts_.nodes) + " nodes), " +
                             number(counts_.programs) + " programs, of which " + number(counts_.runs) +
                             " differ and were run; ";
    std::printf("%s%s; findings: %zu\n", text.c_str(),
                runtime ? (number(counts_.compared) + " compared with ONNX Runtime").c_str()
                        : "NPU_ONNXRUNTIME is not set: none was compared with ONNX Runtime",
                findings_);
    return findings_ || !counts_.runs ? 1 : 0;
  }

 private:
  bool save(const std::vector<uint64_t> &seeds) const {
    for (const uint64_t seed : seeds) {
      const Made made = make_network(random_plan(seed, a_.kind));
      if (!made.onnxruntime) continue;
      const std::string folder =
          a_.save + "/" + (a_.kind == NetKind::Float ? "" : name_of(a_.kind) + std::string("-")) + std::to_string(seed);
      const Status saved = save_network(made, folder);
      if (saved.ok()) continue;
      std::fprintf(stderr, "fuzz_nets: seed %llu: %s\n", static_cast<unsigned long long>(seed),
                   saved.message().c_str());
      return false;
    }
    return true;
  }

  /// The next seeds: the given ones, then fresh ones as long as they are wanted.
  std::vector<uint64_t> batch(size_t &next) {
    std::vector<uint64_t> out;
    while (next < a_.seeds.size() && out.size() < kBatch) out.push_back(a_.seeds[next++]);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
    for (; out.size() < kBatch && (fresh_ < a_.fresh || passed.count() < a_.seconds); ++fresh_)
      out.push_back(random_.next() >> 16);  // short enough to be typed
    return out;
  }

  const Arguments &a_;
  Random random_;
  Counts counts_;
  uint64_t fresh_ = 0;
  size_t findings_ = 0;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace
}  // namespace npu::fuzz

int main(int argc, char **argv) {
  npu::fuzz::Arguments arguments;
  if (!npu::fuzz::parse(argc, argv, arguments)) {
    std::fputs(npu::fuzz::kUsage, stderr);
    return 2;
  }
  return npu::fuzz::Run(arguments).all();
}
