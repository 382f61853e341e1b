// SPDX-License-Identifier: MIT
// The C interface: configuration, ownership, nothing throws.
#pragma GCC visibility push(default)
#include "npu_model.h"
#pragma GCC visibility pop

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "qemu-device/model/src/chip.h"
#include "qemu-device/model/src/registers.h"

struct npu_model {
  npu_model(const npu::model::Config &config, const npu_model_board &board, void *opaque,
            std::unique_ptr<npu::model::Backend> backend)
      : chip(config, {board, opaque, faults}, std::move(backend)), registers(chip) {}

  npu::model::Faults faults;
  npu::model::Chip chip;
  npu::model::Registers registers;
};

namespace npu::model {
namespace {

struct FaultInfo {
  const char *name, *text;
};
constexpr FaultInfo kFaults[NPU_MODEL_FAULT_COUNT] = {
    {"hang", "next jobs that stand still until they are aborted"},
    {"stuck-abort", "next jobs that stand still and do not obey an abort"},
    {"stuck-core", "next jobs that stand still and do not obey a core reset"},
    {"stuck-device", "next jobs that stand still and do not obey a device reset"},
    {"hang-after", "commands that jobs which stand still begin before"},
    {"lost-interrupts", "next interrupts that are lost"},
    {"corrupt-id", "next completions with a wrong job id"},
    {"corrupt-status", "next completions with nonsense in all fields but id and phase"},
    {"corrupt-phase", "next completions with a wrong phase bit"},
    {"ecc-uncorrected", "next jobs whose first memory access meets an uncorrectable error"},
    {"ecc-corrected", "counts so many corrected memory errors at once"},
    {"temperature", "chip temperature, thousandths of a degree Celsius; 0: as modelled"},
    {"fatal", "1: STATUS.FATAL, until the next device reset"},
    {"dead", "1: reads are all ones, writes are ignored, no bus access, no interrupt"},
};
constexpr uint64_t kMaxTemperature = 200000;

bool fault_value_ok(unsigned fault, uint64_t value) {
  switch (fault) {
    case NPU_MODEL_FAULT_TEMPERATURE:
      return value <= kMaxTemperature;
    case NPU_MODEL_FAULT_FATAL:
    case NPU_MODEL_FAULT_DEAD:
      return value <= 1;
    default:
      return true;
  }
}

}  // namespace
}  // namespace npu::model

namespace npu::model {
namespace {

constexpr uint32_t kMaxLmem = 256u << 20;
constexpr uint64_t kMaxPackedBytes = uint64_t{1} << 30;
constexpr uint32_t kMaxVectors = 2048;  // of MSI-X

/// Why a chip cannot be made.
struct Refusal {
  int error = 0;
  std::string text;

  explicit operator bool() const { return error != 0; }
};

Refusal refuse(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
Refusal refuse(int error, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return {error, text};
}

/// A number of the configuration: zero leaves the default.
struct Number {
  const char *name;
  uint32_t given;
  uint32_t low, high;
  uint32_t *to;
};

Refusal take_numbers(const npu_model_config &c, Config &out) {
  constexpr uint32_t kAny = UINT32_MAX;
  const Number numbers[] = {
      {"cores", c.cores, 1, NPU_MAX_CORES, &out.cores},
      {"queues", c.queues, 1, NPU_MAX_QUEUES, &out.queues},
      {"asids", c.asids, 1, NPU_MAX_ASIDS, &out.asids},
      {"vectors", c.vectors, 1, kMaxVectors, &out.vectors},
      {"lmem_bytes", c.lmem_bytes, kPageBytes, kMaxLmem, &out.lmem_bytes},
      {"clock_khz", c.clock_khz, 1, kAny, &out.clock_khz},
      {"mac_ic", c.mac_ic, 1, kAny, &out.cost.mac_ic},
      {"mac_oc", c.mac_oc, 1, kAny, &out.cost.mac_oc},
      {"mac_pixels", c.mac_pixels, 1, kAny, &out.cost.mac_pixels},
      {"lmem_bw", c.lmem_bw, 1, kAny, &out.cost.lmem_bw},
      {"ew_lanes", c.ew_lanes, 1, kAny, &out.cost.ew_lanes},
      {"tiu_fixed", c.tiu_fixed, 1, kAny, &out.cost.tiu_fixed},
      {"gdma_fixed", c.gdma_fixed, 1, kAny, &out.cost.gdma_fixed},
      {"ddr_latency", c.ddr_latency, 1, kAny, &out.cost.ddr_latency},
      {"ddr_bw", c.ddr_bw, 1, kAny, &out.cost.ddr_bw},
      {"rate_16", c.rate_16, 1, kAny, &out.cost.rate_16},
      {"rate_8", c.rate_8, 1, kAny, &out.cost.rate_8},
  };
  for (const Number &n : numbers) {
    if (n.given == 0) continue;
    if (n.given < n.low || n.given > n.high)
      return refuse(-EINVAL, "%s is %u, has to be %u to %u", n.name, n.given, n.low, n.high);
    *n.to = n.given;
  }
  if (out.lmem_bytes % kPageBytes)
    return refuse(-EINVAL, "lmem_bytes is %u, has to be a multiple of %u", out.lmem_bytes, kPageBytes);
  return {};
}

Refusal take_config(const npu_model_config *c, Config &out) {
  if (!c) return refuse(-EINVAL, "no configuration");
  if (c->abi != NPU_MODEL_ABI) return refuse(-EINVAL, "abi is %u, this library has %u", c->abi, NPU_MODEL_ABI);
  if (!c->board || !c->board->dma_read || !c->board->dma_write || !c->board->interrupt)
    return refuse(-EINVAL, "board: dma_read, dma_write and interrupt have to be there");
  if (!c->board->now != !c->board->wake_at)
    return refuse(-EINVAL, "board: now and wake_at have to be there both or not at all");
  if (Refusal r = take_numbers(*c, out)) return r;
  if (!c->board->job_read != !c->board->job_write)
    return refuse(-EINVAL, "board: job_read and job_write have to be there both or not at all");
  if (!c->ddr != !c->ddr_bytes || reinterpret_cast<uintptr_t>(c->ddr) % kPageBytes)
    return refuse(-EINVAL, "ddr is %p, has to be page aligned, and NULL only without ddr_bytes", c->ddr);
  constexpr uint64_t kMaxDdr = NPU_PTE_ADDR + kPageBytes;
  if (c->ddr_bytes % kPageBytes || c->ddr_bytes > kMaxDdr)
    return refuse(-EINVAL, "ddr_bytes is %llu, has to be a multiple of %u up to 2^52",
                  static_cast<unsigned long long>(c->ddr_bytes), kPageBytes);
  out.ddr = static_cast<uint8_t *>(c->ddr);
  out.ddr_bytes = c->ddr_bytes;
  out.seed = c->board->now ? c->seed : 0;
  return {};
}

void tell_mismatch(void *, const char *text) { report_mismatch(text); }

Refusal make_backend(const char *name, uint64_t ddr_bytes, std::unique_ptr<Backend> &out) {
  const std::string wanted = name && *name ? name : "auto";
  if (wanted == "reference") {
    out = std::make_unique<Reference>();
    return {};
  }
  if (wanted != "auto" && wanted != "onednn" && wanted != "shadow")
    return refuse(-EINVAL, "backend \"%s\": has to be auto, reference, onednn or shadow", wanted.c_str());
  std::string why;
  // Constant operands lie in DDR, if there is one: more copies than that are of pages that are mapped several times.
  out = make_onednn_backend(why, ddr_bytes ? std::min(kMaxPackedBytes, ddr_bytes) : kMaxPackedBytes);
  if (!out && wanted != "auto") return refuse(-ENOENT, "backend \"%s\": %s", wanted.c_str(), why.c_str());
  if (!out) out = std::make_unique<Reference>();
  if (wanted == "shadow") out = make_shadow_backend(std::move(out), tell_mismatch, nullptr);
  return {};
}

Refusal create(const npu_model_config *c, npu_model *&out) {
  Config config;
  if (Refusal r = take_config(c, config)) return r;
  std::unique_ptr<Backend> backend;
  if (Refusal r = make_backend(c->backend, config.ddr_bytes, backend)) return r;
  out = new npu_model(config, *c->board, c->opaque, std::move(backend));
  return {};
}

}  // namespace
}  // namespace npu::model

extern "C" {

struct npu_model *npu_model_create(const struct npu_model_config *config, int *error, char *message,
                                   size_t message_bytes) {
  npu_model *model = nullptr;
  npu::model::Refusal refusal;
  try {
    refusal = npu::model::create(config, model);
  } catch (const std::bad_alloc &) {
    refusal = {-ENOMEM, "out of memory"};
  }
  if (error) *error = refusal.error;
  if (message && message_bytes) std::snprintf(message, message_bytes, "%s", refusal.text.c_str());
  return model;
}

void npu_model_destroy(struct npu_model *model) { delete model; }

unsigned int npu_model_thread_count(const struct npu_model *model) { return model->chip.thread_count(); }

void npu_model_thread_main(struct npu_model *model, unsigned int index) { model->chip.thread_main(index); }

int npu_model_save(struct npu_model *model, int (*put)(void *opaque, const void *data, size_t bytes), void *opaque,
                   char *message, size_t message_bytes) {
  std::vector<uint8_t> bytes;
  std::string why;
  try {
    why = model->chip.save(bytes, [&](npu::model::Archive &a) { a(model->registers); });
  } catch (const std::bad_alloc &) {
    why = "out of memory";
  }
  if (why.empty()) return put(opaque, bytes.data(), bytes.size());
  if (message && message_bytes) std::snprintf(message, message_bytes, "%s", why.c_str());
  return -EBUSY;
}

int npu_model_load(struct npu_model *model, const void *data, size_t bytes, char *message, size_t message_bytes) {
  std::string why;
  try {
    why = model->chip.load({static_cast<const uint8_t *>(data), bytes},
                           [&](npu::model::Archive &a) { a(model->registers); });
  } catch (const std::exception &) {
    why = "out of memory";
    model->chip.reset();
  }
  model->chip.advance();
  if (why.empty()) return 0;
  if (message && message_bytes) std::snprintf(message, message_bytes, "%s", why.c_str());
  return -EINVAL;
}

void npu_model_stop(struct npu_model *model) {
  model->chip.stop();
  model->chip.expect();
}

void npu_model_pause(struct npu_model *model, bool on) { model->chip.pause(on); }

uint64_t npu_model_read(struct npu_model *model, uint64_t offset, unsigned int size) {
  if (model->faults.dead()) return size == 4 ? UINT32_MAX : UINT64_MAX;
  model->chip.arrive();
  const uint64_t value = model->registers.read(offset, size);
  model->chip.expect();
  return value;
}

void npu_model_write(struct npu_model *model, uint64_t offset, uint64_t value, unsigned int size) {
  if (model->faults.dead()) return;
  model->chip.arrive();
  model->registers.write(offset, value, size);
  model->chip.expect();
}

void npu_model_advance(struct npu_model *model) { model->chip.advance(); }

void npu_model_reset(struct npu_model *model) {
  model->chip.arrive();
  model->chip.reset();
  model->chip.advance();
}

const char *npu_model_fault_name(unsigned int fault) {
  return fault < NPU_MODEL_FAULT_COUNT ? npu::model::kFaults[fault].name : nullptr;
}

const char *npu_model_fault_text(unsigned int fault) {
  return fault < NPU_MODEL_FAULT_COUNT ? npu::model::kFaults[fault].text : nullptr;
}

int npu_model_set_fault(struct npu_model *model, unsigned int fault, uint64_t value) {
  if (fault >= NPU_MODEL_FAULT_COUNT || !npu::model::fault_value_ok(fault, value)) return -EINVAL;
  model->chip.arrive();
  model->chip.set_fault(fault, value);
  model->chip.expect();
  return 0;
}

uint64_t npu_model_fault(const struct npu_model *model, unsigned int fault) {
  return fault < NPU_MODEL_FAULT_COUNT ? model->faults.get(fault) : 0;
}

void npu_model_check_races(struct npu_model *model, bool on) { model->chip.check_races(on); }

const char *npu_model_backend(const struct npu_model *model) { return model->chip.backend().name(); }

}  // extern "C"
