// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/registers.h"

#include <algorithm>
#include <span>

namespace npu::model {

namespace {

/// A register of a block: how it is read and written, `i` being the block's number. A missing function reads zero or
/// ignores the write.
struct Reg {
  uint32_t offset;
  unsigned bits;
  uint64_t (*get)(Chip &c, unsigned i);
  void (*set)(Chip &c, unsigned i, uint64_t v);
};

/// Equal blocks of registers, one each `stride` bytes.
struct Block {
  uint32_t base;
  uint32_t stride;
  unsigned (*count)(const Config &);
  std::span<const Reg> regs;
};

#define GET(value) [](Chip &c, unsigned i) -> uint64_t { return static_cast<void>(c), static_cast<void>(i), (value); }
#define SET(action) [](Chip &c, unsigned i, uint64_t v) { static_cast<void>(i), (action); }
#define READ_ONLY(value) GET(value), nullptr
#define COUNTER(field) GET(c.core(i).field.load(std::memory_order_relaxed)), nullptr
#define QUEUE(field) GET(c.queue_config(i, &QueueConfig::field)), SET(c.set_queue_config(i, &QueueConfig::field, v))

uint32_t low32(uint64_t v) { return static_cast<uint32_t>(v); }

uint64_t read_control(Chip &c, unsigned) {
  return (c.enabled() ? NPU_CTRL_ENABLE : 0) | (c.resetting() ? NPU_CTRL_RESET : 0);
}

void write_control(Chip &c, unsigned, uint64_t v) {
  if (v & NPU_CTRL_RESET)
    c.reset();
  else
    c.enable(v & NPU_CTRL_ENABLE);
}

void test_interrupt(Chip &c, unsigned, uint64_t v) {
  if (v < c.config().vectors) c.board().interrupt(low32(v));
}

const Reg kDevice[] = {
    {NPU_REG_ID, 32, READ_ONLY(NPU_CHIP_ID)},
    {NPU_REG_HW_VERSION, 32, READ_ONLY(NPU_HW_VERSION)},
    {NPU_REG_ISA_VERSION, 32, READ_ONLY(NPU_ISA_VERSION)},
    {NPU_REG_FEATURES, 32, READ_ONLY(c.features())},
    {NPU_REG_CORES, 32, READ_ONLY(c.config().cores)},
    {NPU_REG_QUEUES, 32, READ_ONLY(c.config().queues)},
    {NPU_REG_ASIDS, 32, READ_ONLY(c.config().asids)},
    {NPU_REG_VA_BITS, 32, READ_ONLY(NPU_VA_BITS)},
    {NPU_REG_LMEM_BYTES, 32, READ_ONLY(c.config().lmem_bytes)},
    {NPU_REG_SEMAPHORES, 32, READ_ONLY(NPU_MAX_SEMAPHORES)},
    {NPU_REG_DDR_BYTES, 64, READ_ONLY(c.config().ddr_bytes)},
    {NPU_REG_CLOCK_KHZ, 32, READ_ONLY(c.config().clock_khz)},
    {NPU_REG_MAX_RING_LOG2, 32, READ_ONLY(kMaxRingLog2)},
    {NPU_REG_VECTORS, 32, READ_ONLY(c.config().vectors)},
    {NPU_REG_MAC_IC, 32, READ_ONLY(c.config().cost.mac_ic)},
    {NPU_REG_MAC_OC, 32, READ_ONLY(c.config().cost.mac_oc)},
    {NPU_REG_MAC_PIXELS, 32, READ_ONLY(c.config().cost.mac_pixels)},
    {NPU_REG_LMEM_BW, 32, READ_ONLY(c.config().cost.lmem_bw)},
    {NPU_REG_EW_LANES, 32, READ_ONLY(c.config().cost.ew_lanes)},
    {NPU_REG_TIU_FIXED, 32, READ_ONLY(c.config().cost.tiu_fixed)},
    {NPU_REG_GDMA_FIXED, 32, READ_ONLY(c.config().cost.gdma_fixed)},
    {NPU_REG_DDR_LATENCY, 32, READ_ONLY(c.config().cost.ddr_latency)},
    {NPU_REG_DDR_BW, 32, READ_ONLY(c.config().cost.ddr_bw)},
    {NPU_REG_RATE_16, 32, READ_ONLY(c.config().cost.rate_16)},
    {NPU_REG_RATE_8, 32, READ_ONLY(c.config().cost.rate_8)},
    {NPU_REG_CTRL, 32, read_control, write_control},
    {NPU_REG_STATUS, 32, READ_ONLY(c.status())},
    {NPU_REG_CORE_RESET, 32, nullptr, SET(c.core_reset(low32(v)))},
    {NPU_REG_CORE_BUSY, 32, READ_ONLY(c.core_busy())},
    {NPU_REG_PROGRESS, 64, READ_ONLY(c.progress())},
    {NPU_REG_TIME_NS, 64, READ_ONLY(c.board().time_ns())},
    {NPU_REG_EVENT_STATUS, 32, GET(c.events().status()), SET(c.events().clear(low32(v)))},
    {NPU_REG_EVENT_ENABLE, 32, GET(c.events().enabled()), SET(c.events().enable(low32(v)))},
    {NPU_REG_IRQ_TEST, 32, nullptr, test_interrupt},
    {NPU_REG_ASID_TABLE, 64, GET(c.mmu().asid_table()),
     SET(c.mmu().set_asid_table(v &(~uint64_t{kPageBytes - 1} | NPU_ASID_TABLE_SYSTEM)))},
    {NPU_REG_INV_ADDR, 64, GET(c.mmu().inv_addr.load()), SET(c.mmu().inv_addr.store(v))},
    {NPU_REG_INV_BYTES, 64, GET(c.mmu().inv_bytes.load()), SET(c.mmu().inv_bytes.store(v))},
    {NPU_REG_INV_ASID, 32, nullptr, SET(c.invalidate(low32(v)))},
    {NPU_REG_INV_ISSUED, 32, READ_ONLY(c.invalidations())},
    {NPU_REG_INV_DONE, 32, READ_ONLY(c.mmu().done())},
    {NPU_REG_TEMP_MC, 32, READ_ONLY(static_cast<uint32_t>(c.sensors().temperature_mc()))},
    {NPU_REG_POWER_MW, 32, READ_ONLY(c.sensors().power_mw())},
    {NPU_REG_VOLTAGE_MV, 32, READ_ONLY(c.sensors().voltage_mv())},
    {NPU_REG_CUR_CLOCK_KHZ, 32, READ_ONLY(c.sensors().clock_khz())},
    {NPU_REG_ECC_CORRECTED, 32, READ_ONLY(c.ecc_corrected())},
    {NPU_REG_ECC_UNCORRECTED, 32, READ_ONLY(c.ecc_uncorrected())},
    {NPU_REG_FAN_RPM, 32, READ_ONLY(c.sensors().fan_rpm())},
    {NPU_REG_CLOCK_SELECT, 32, GET(c.sensors().selected()), SET(c.sensors().select(low32(v)))},
};

const Reg kCore[] = {
    {NPU_CORE_BUSY_CYCLES, 64, COUNTER(busy_cycles)},
    {NPU_CORE_TIU_CYCLES, 64, COUNTER(engine_cycles[NPU_ENGINE_TIU])},
    {NPU_CORE_GDMA_CYCLES, 64, COUNTER(engine_cycles[NPU_ENGINE_GDMA])},
    {NPU_CORE_JOBS, 64, COUNTER(jobs)},
    {NPU_CORE_JOB_ID, 64, COUNTER(job_id)},
    {NPU_CORE_QUEUE, 32, COUNTER(queue)},
    {NPU_CORE_TIU_COMMAND, 32, COUNTER(retired[NPU_ENGINE_TIU])},
    {NPU_CORE_GDMA_COMMAND, 32, COUNTER(retired[NPU_ENGINE_GDMA])},
    {NPU_CORE_PROGRESS, 64, COUNTER(progress)},
};

const Reg kBusy[] = {
    {NPU_BUSY_NS, 64, READ_ONLY(c.busy_ns(i))},
};

const Reg kQueue[] = {
    {NPU_QUEUE_SQ_BASE, 64, QUEUE(sq_base)},
    {NPU_QUEUE_CQ_BASE, 64, QUEUE(cq_base)},
    {NPU_QUEUE_FENCE_ADDR, 64, QUEUE(fence_addr)},
    {NPU_QUEUE_SQ_LOG2, 32, QUEUE(sq_log2)},
    {NPU_QUEUE_CQ_LOG2, 32, QUEUE(cq_log2)},
    {NPU_QUEUE_ASID, 32, QUEUE(asid)},
    {NPU_QUEUE_PRIORITY, 32, QUEUE(priority)},
    {NPU_QUEUE_CORE_MASK, 32, QUEUE(core_mask)},
    {NPU_QUEUE_VECTOR, 32, QUEUE(vector)},
    {NPU_QUEUE_CTRL, 32, GET(c.queue_control(i) ? NPU_QUEUE_CTRL_ENABLE : 0),
     SET(c.set_queue_control(i, v &NPU_QUEUE_CTRL_ENABLE))},
    {NPU_QUEUE_STATUS, 32, READ_ONLY(c.queue_status(i))},
    {NPU_QUEUE_SQ_HEAD, 32, READ_ONLY(c.sq_head(i))},
    {NPU_QUEUE_CQ_TAIL, 32, READ_ONLY(c.cq_tail(i))},
    {NPU_QUEUE_ABORT_JOB, 64, nullptr, SET(c.abort_job(i, v))},
};

const Reg kDoorbell[] = {
    {NPU_DOORBELL_SQ_TAIL, 32, nullptr, SET(c.submit(i, low32(v)))},
    {NPU_DOORBELL_CQ_HEAD, 32, nullptr, SET(c.consumed(i, low32(v)))},
};

#undef GET
#undef SET
#undef READ_ONLY
#undef COUNTER
#undef QUEUE

/// Highest base first: a block lies between its base and the one before.
const Block kBlocks[] = {
    {NPU_DOORBELL_BASE, NPU_DOORBELL_STRIDE, [](const Config &c) { return c.queues; }, kDoorbell},
    {NPU_QUEUE_BASE, NPU_QUEUE_STRIDE, [](const Config &c) { return c.queues; }, kQueue},
    {NPU_BUSY_BASE, NPU_BUSY_STRIDE, [](const Config &c) { return c.cores; }, kBusy},
    {NPU_CORE_BASE, NPU_CORE_STRIDE, [](const Config &c) { return c.cores; }, kCore},
    {0, NPU_CORE_BASE, [](const Config &) { return 1u; }, kDevice},
};

/// The part of a register that an access means.
struct Access {
  const Reg *reg = nullptr;
  unsigned index = 0;
  bool high = false;  ///< the high half of a 64-bit register
};

Access decode(const Config &config, uint64_t offset, unsigned size) {
  if ((size != 4 && size != 8) || offset % size || offset >= NPU_BAR_REGS_BYTES) return {};
  const Block &b =
      *std::find_if(std::begin(kBlocks), std::end(kBlocks), [&](const Block &x) { return offset >= x.base; });
  const uint64_t at = offset - b.base, index = at / b.stride, inside = at % b.stride;
  if (index >= b.count(config)) return {};
  // The last register at or below the access; the tables ascend.
  const auto next =
      std::upper_bound(b.regs.begin(), b.regs.end(), inside, [](uint64_t v, const Reg &r) { return v < r.offset; });
  if (next == b.regs.begin()) return {};
  const Reg &r = *std::prev(next);
  const bool high = inside != r.offset;
  if (r.bits == 32 ? high || size != 4 : high && (size != 4 || inside != r.offset + 4)) return {};
  return {&r, static_cast<unsigned>(index), high};
}

}  // namespace

Registers::Registers(Chip &chip) : chip_(chip), low_(new std::atomic<uint32_t>[NPU_DOORBELL_BASE / 4]()) {}

uint64_t Registers::read(uint64_t offset, unsigned size) {
  const Access a = decode(chip_.config(), offset, size);
  if (!a.reg || !a.reg->get) return 0;
  const uint64_t v = a.reg->get(chip_, a.index);
  if (a.high) return v >> 32;
  return size == 4 ? low32(v) : v;
}

void Registers::write(uint64_t offset, uint64_t value, unsigned size) {
  const Access a = decode(chip_.config(), offset, size);
  if (!a.reg || !a.reg->set || chip_.resetting()) return;
  if (size == 4) value = low32(value);
  if (a.reg->bits == 64 && size == 4) {
    std::atomic<uint32_t> &low = low_[(a.high ? offset - 4 : offset) / 4];
    if (!a.high) {
      low.store(low32(value));
      return;
    }
    value = value << 32 | low.load();
  }
  a.reg->set(chip_, a.index, value);
}

void Registers::visit_state(Archive &a) {
  for (size_t i = 0; i < NPU_DOORBELL_BASE / 4; ++i) a(low_[i]);
}

}  // namespace npu::model
