// SPDX-License-Identifier: MIT
// Which transport: NPU_DEVICE=drm|sim|auto.
#include "libnpu/src/transports.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/status.h"
#include "libnpu/src/internal.h"
#include "npu_beside_internal.h"

namespace npu {
namespace {

constexpr size_t kWhy = 256;

struct Sim {
  const npu_transport *table = nullptr;
  Status loaded;
};

/// Loaded once, for ever: its threads may run until the process ends.
const Sim &sim() {
  static const Sim *const loaded = [] {
    auto *s = new Sim;
    const std::string path = beside(reinterpret_cast<const void *>(&npu_device_count), "libnpu-sim.so");
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      s->loaded = Status::error(-ENODEV, "the simulator cannot be loaded: " + std::string(dlerror()));
      return s;
    }
    const auto entry = reinterpret_cast<npu_transport_entry>(dlsym(library, NPU_SIM_ENTRY));
    const npu_transport *table = entry ? entry() : nullptr;
    if (table && table->abi == kNpuTransportAbi && table->bytes >= sizeof(npu_transport)) {
      s->table = table;
    } else {
      s->loaded = Status::error(-ENODEV, path + " belongs to another version of libnpu");
    }
    return s;
  }();
  return *loaded;
}

/// The transport that the program requires: "drm", "sim" or nullptr.
std::atomic<const char *> required_by_program;
/// Whoever has had a card must not be given a simulated one when it goes away.
std::atomic<bool> had_card;

/// "drm" or "sim" as a constant; nullptr: neither.
const char *known_name(const std::string &name) { return name == "drm" ? "drm" : name == "sim" ? "sim" : nullptr; }

/// What NPU_DEVICE, NPU_REQUIRE and npu_require_transport() want together.
int find_wish(std::string &wish) {
  const char *text = getenv("NPU_DEVICE"), *require = getenv("NPU_REQUIRE");
  wish = text && *text ? text : "auto";
  if (wish != "auto" && !known_name(wish))
    return fail(-EINVAL, "NPU_DEVICE=%s: expected drm, sim or auto", wish.c_str());
  if (require && *require && !known_name(require)) return fail(-EINVAL, "NPU_REQUIRE=%s: expected drm or sim", require);
  const struct {
    const char *name, *who;
  } all[] = {{require && *require ? known_name(require) : nullptr, "NPU_REQUIRE"},
             {required_by_program.load(), "npu_require_transport()"}};
  const char *chosen_by = "NPU_DEVICE";
  for (const auto &[name, who] : all) {
    if (!name) continue;
    if (wish != "auto" && wish != name)
      return fail(-EINVAL, "%s wants transport %s, but %s allows %s only", chosen_by, wish.c_str(), who, name);
    if (wish == "auto") chosen_by = who;
    wish = name;
  }
  return 0;
}

/// Once in a process: programs must not take the simulator for a card.
void tell_of_the_simulator() {
  static std::atomic_flag told;
  const char *quiet = getenv("NPU_QUIET");
  if ((quiet && !strcmp(quiet, "1")) || told.test_and_set()) return;
  tell(NPU_LOG_WARNING,
       "no NPU card (/dev/accel/accel* of the qnpu driver): using the simulator; NPU_DEVICE=sim chooses it, "
       "NPU_REQUIRE=drm makes this an error, NPU_QUIET=1 silences it");
}

}  // namespace

int choose_transport(const npu_transport **transport, int *count) {
  std::string wish;
  if (int err = find_wish(wish)) return err;
  *count = 0;
  if (wish != "sim") {
    char why[kWhy] = "";
    *transport = npu_drm_transport();
    const int found = (*transport)->count(why, sizeof(why));
    if (found < 0) return fail(found, "%s", why);
    *count = found;
    if (found) had_card.store(true, std::memory_order_relaxed);
    if (found || wish == "drm" || had_card.load(std::memory_order_relaxed)) return 0;
  }
  const Sim &s = sim();
  if (s.table) {
    *transport = s.table;
    char why[kWhy] = "";
    *count = s.table->count(why, sizeof(why));
    if (*count < 0) return fail(*count, "%s", why);
    if (wish == "auto" && *count) tell_of_the_simulator();
    return 0;
  }
  if (wish == "sim") return fail(s.loaded.code(), "%s", s.loaded.message().c_str());
  log(NPU_LOG_DEBUG, "%s", s.loaded.message().c_str());
  return 0;
}

int require_transport(const char *name) {
  const char *known = name ? known_name(name) : nullptr;
  if (name && !known) return fail(-EINVAL, "npu_require_transport: \"%s\": expected drm or sim", name);
  required_by_program = known;
  return 0;
}

}  // namespace npu
