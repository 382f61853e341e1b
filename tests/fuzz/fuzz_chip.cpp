// SPDX-License-Identifier: MIT
// libFuzzer target: whatever software writes to registers, rings, page tables and command streams, also while they are
// in use, the chip stays inside its memory and can be stopped.
//
// An input is a program for a driver in the wrong hands (chip_ops.h). Each gets a chip of its own, whose threads run
// beside the program. The board answers only for its own system memory. Memory is shared with the chip as it is on a
// card: words are written one by one, and under TSan suppressions (chip_thread.supp) leave data to the program's risk.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "npu_isa.hpp"
#include "npu_model.h"
#include "npu_regs.h"
#include "tests/fuzz/chip_ops.h"

namespace npu::fuzz {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kCardBytes = 4 << 20, kSystemBytes = 1 << 20, kBusBase = 0x10000;
constexpr uint32_t kCores = 2, kAsids = 4, kLmem = 16 << 10;

// Card memory: the ASID table, four levels of tables, then data. ASIDs 0 and 1 share the tables, 2 and 3 have none.
constexpr uint64_t kTables = 5;         // pages
constexpr uint64_t kData = 16 * kPage;  // what page 0 of the address space is mapped to
constexpr unsigned kCardPages = 128;    // of the address space; then as many of system memory, then const ones
constexpr uint64_t kStreamBytes = kSlots * NPU_CMD_BYTES;

// System memory: for each queue a page each of submissions, completions, fence and descriptor.
constexpr uint64_t ring(unsigned queue) { return queue * 4 * kPage; }

void store(uint8_t *to, const void *from, size_t bytes) {
  const auto *at = static_cast<const uint8_t *>(from);
  for (size_t i = 0; i < bytes;) {
    if (reinterpret_cast<uintptr_t>(to + i) % 8 == 0 && bytes - i >= 8) {
      uint64_t word;
      std::memcpy(&word, at + i, sizeof word);
      __atomic_store_n(reinterpret_cast<uint64_t *>(to + i), word, __ATOMIC_RELEASE);
      i += sizeof word;
    } else {
      __atomic_store_n(to + i, at[i], __ATOMIC_RELEASE);
      ++i;
    }
  }
}

void load(void *to, uint8_t *from, size_t bytes) {
  auto *at = static_cast<uint8_t *>(to);
  for (size_t i = 0; i < bytes; ++i) at[i] = __atomic_load_n(from + i, __ATOMIC_ACQUIRE);
}

uint8_t *map(uint64_t bytes) {
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) std::abort();
  return static_cast<uint8_t *>(p);
}

// ---- input ----

class Input {
 public:
  Input(const uint8_t *data, size_t size) : at_(data), end_(data + size) {}

  bool empty() const { return at_ == end_; }
  template <class T>
  T take() {
    T v{};
    const size_t n = std::min<size_t>(sizeof v, static_cast<size_t>(end_ - at_));
    std::memcpy(&v, at_, n);
    at_ += n;
    return v;
  }
  uint8_t byte() { return take<uint8_t>(); }
  std::vector<uint8_t> bytes() {
    std::vector<uint8_t> out(byte());
    for (uint8_t &b : out) b = byte();
    return out;
  }

 private:
  const uint8_t *at_, *end_;
};

// ---- commands ----

struct Cmd {
  uint8_t bytes[NPU_CMD_BYTES];
};

template <class T, class F>
Cmd with(F f) {
  T c = hw::make<T>();
  f(c);
  Cmd out;
  std::memcpy(out.bytes, &c, sizeof out);
  return out;
}

Cmd copy(uint8_t from, uint8_t to) {
  return with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.src_region = from;
    c.dst_region = to;
    std::fill_n(c.dims, 6, 1u);
    c.dims[4] = c.dims[5] = 8;
    c.src_stride[4] = 8;
    c.dst_stride[4] = 16;
    c.src_stride[5] = c.dst_stride[5] = 1;
  });
}

Cmd conv(uint8_t region) {
  return with<npu_cmd_conv>([&](npu_cmd_conv &c) {
    c.out_addr = 4096;
    c.wgt_region = c.param_region = region;
    c.flags = NPU_CONV_BIAS;
    c.n = c.groups = 1;
    c.ih = c.iw = c.oh = c.ow = 5;
    c.ic = c.oc = 4;
    c.kh = c.kw = 3;
    c.sh = c.sw = c.dh = c.dw = 1;
    c.pad_t = c.pad_l = 1;
  });
}

Cmd pool() {
  return with<npu_cmd_pool>([](npu_cmd_pool &c) {
    c.out_addr = 4096;
    c.n = 1;
    c.ih = c.iw = 6;
    c.c = 4;
    c.oh = c.ow = 3;
    c.kh = c.kw = c.sh = c.sw = 2;
    c.dh = c.dw = 1;
  });
}

Cmd matmul(uint8_t region) {
  return with<npu_cmd_matmul>([&](npu_cmd_matmul &c) {
    c.out_addr = 4096;
    c.wgt_region = region;
    c.batch = 2;
    c.m = c.k = c.n = 4;
    c.a_batch_stride = 16;
  });
}

Cmd eltwise() {
  return with<npu_cmd_eltwise>([](npu_cmd_eltwise &c) {
    c.b_addr = 1024;
    c.out_addr = 2048;
    std::fill_n(c.dims, 5, 1u);
    c.dims[3] = c.dims[4] = 4;
    c.a_stride[3] = c.b_stride[4] = 4;
    c.a_stride[4] = 1;
  });
}

Cmd unary() {
  return with<npu_cmd_unary>([](npu_cmd_unary &c) { c.out_addr = 64, c.count = 16, c.subop = NPU_ACT_RELU; });
}

Cmd softmax() {
  return with<npu_cmd_softmax>([](npu_cmd_softmax &c) { c.out_addr = 1024, c.rows = c.cols = 4; });
}

Cmd fill() {
  return with<npu_cmd_fill>([](npu_cmd_fill &c) {
    c.dst_region = 1;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = 64;
    c.dst_stride[5] = 1;
  });
}

/// A command with all sizes 1.
Cmd smallest(const hw::Command &command) {
  Cmd c{};
  c.bytes[0] = command.opcode;
  for (const hw::Field &f : command.fields)
    for (unsigned i = 0; f.legal == hw::Legal::NotZero && i < f.count; ++i)
      c.bytes[f.offset + i * hw::field_bytes(f.type)] = 1;
  return c;
}

/// Those that have an interesting shape, behind the smallest one of every other command.
std::vector<Cmd> make_templates() {
  const Cmd shaped[] = {
      conv(1), matmul(2), pool(), eltwise(), unary(), softmax(), copy(1, NPU_REGION_LOCAL), copy(NPU_REGION_LOCAL, 2),
      fill()};
  std::vector<Cmd> all;
  for (const hw::Command &command : hw::kCommands) {
    const auto same = [&](const Cmd &c) { return c.bytes[0] == command.opcode; };
    if (!command.reserved && std::none_of(std::begin(shaped), std::end(shaped), same)) all.push_back(smallest(command));
  }
  all.insert(all.end(), std::begin(shaped), std::end(shaped));
  return all;
}

Cmd template_of(unsigned i) {
  static const std::vector<Cmd> all = make_templates();
  if (all.size() != kTemplates) std::abort();
  return all[i % kTemplates];
}

/// Changes one field of a command: its header's or one that its opcode has.
void edit(Cmd &c, unsigned which, uint64_t value) {
  const hw::Command *known = hw::find_command(c.bytes[0]);
  const size_t fields = known ? known->fields.size() : 0;
  constexpr struct { uint8_t offset, bytes; } kHeader[] = {{0, 1}, {1, 1}, {2, 2}, {4, 4}, {8, 4}, {12, 4}};
  which %= std::size(kHeader) + fields;
  if (which < std::size(kHeader)) {
    std::memcpy(c.bytes + kHeader[which].offset, &value, kHeader[which].bytes);
    return;
  }
  const hw::Field &f = known->fields[which - std::size(kHeader)];
  const unsigned bytes = hw::field_bytes(f.type), element = static_cast<unsigned>(value >> 56) % f.count;
  std::memcpy(c.bytes + f.offset + element * bytes, &value, std::min(bytes, 7u + (f.count == 1)));
}

// ---- the chip and its board ----

class Driver {
 public:
  explicit Driver(const char *backend) : card_(map(kCardBytes)), system_(map(kSystemBytes)) {
    board_.dma_read = [](void *self, uint64_t addr, void *buf, size_t bytes) {
      uint8_t *at = static_cast<Driver *>(self)->reach(addr, bytes);
      return at ? load(buf, at, bytes), 0 : -1;
    };
    board_.dma_write = [](void *self, uint64_t addr, const void *buf, size_t bytes) {
      uint8_t *at = static_cast<Driver *>(self)->reach(addr, bytes);
      return at ? store(at, buf, bytes), 0 : -1;
    };
    board_.interrupt = [](void *, unsigned vector) {
      if (vector >= kVectors) std::abort();
    };
    npu_model_config config{};
    config.abi = NPU_MODEL_ABI;
    config.cores = kCores;
    config.queues = kQueues;
    config.asids = kAsids;
    config.vectors = kVectors;
    config.lmem_bytes = kLmem;
    config.ddr = card_;
    config.ddr_bytes = kCardBytes;
    config.backend = backend;
    config.board = &board_;
    config.opaque = this;
    char text[256] = "";
    int error;
    model_ = npu_model_create(&config, &error, text, sizeof text);
    if (!model_) {
      std::fprintf(stderr, "fuzz_chip: no chip: %s\n", text);
      std::abort();
    }
    make_tables();
    for (unsigned i = 0; i < npu_model_thread_count(model_); ++i)
      threads_.emplace_back([this, i] { npu_model_thread_main(model_, i); });
    bring_up();
  }

  ~Driver() {
    // Nothing may keep the chip from ending: what stands still because of a fault does so until the fault goes.
    for (unsigned f = 0; f < NPU_MODEL_FAULT_COUNT; ++f) npu_model_set_fault(model_, f, 0);
    npu_model_stop(model_);
    for (std::thread &t : threads_) t.join();
    npu_model_destroy(model_);
    munmap(card_, kCardBytes);
    munmap(system_, kSystemBytes);
  }
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

  void step(Input &in);

 private:
  static constexpr unsigned kVectors = 3;

  uint8_t *reach(uint64_t addr, size_t bytes) {
    const bool inside =
        addr >= kBusBase && addr - kBusBase <= kSystemBytes && bytes <= kSystemBytes - (addr - kBusBase);
    return inside ? system_ + (addr - kBusBase) : nullptr;
  }
  void word(uint64_t offset, uint64_t value) { store(card_ + offset, &value, sizeof value); }
  void w32(uint64_t reg, uint64_t v) { npu_model_write(model_, reg, v, 4); }
  void w64(uint64_t reg, uint64_t v) { npu_model_write(model_, reg, v, 8); }

  void make_tables() {
    for (unsigned asid = 0; asid < 2; ++asid) word(asid * sizeof(npu_asid_entry), kPage | NPU_ASID_VALID);
    for (uint64_t level = 1; level < NPU_PT_LEVELS; ++level) word(level * kPage, (level + 1) * kPage | NPU_PTE_VALID);
    for (unsigned page = 0; page < kCardPages; ++page) {
      leaf(page, page, NPU_PTE_WRITE);
      leaf(kCardPages + page, page, NPU_PTE_WRITE | NPU_PTE_SYSTEM);
      leaf(2 * kCardPages + page, page, NPU_PTE_CONST);
    }
  }
  /// Maps a page of the address space to the data area or, with SYSTEM, to system memory.
  void leaf(unsigned page, unsigned target, uint64_t flags) {
    const uint64_t base = flags & NPU_PTE_SYSTEM ? kBusBase : kData;
    word((kTables - 1) * kPage + page % NPU_PT_ENTRIES * 8, (base + target * kPage) | flags | NPU_PTE_VALID);
  }
  void bring_up() {
    w64(NPU_REG_ASID_TABLE, 0);
    w32(NPU_REG_EVENT_ENABLE, ~0u);
    w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
    for (unsigned q = 0; q < 2; ++q) enable(q, q, q + 1);
  }
  void enable(unsigned queue, uint8_t asid, uint8_t vector);
  void submit(unsigned queue, Input &in);
  void reset(uint8_t what);
  void wait(unsigned queue);
  void write_register(Input &in);
  void write_command(Input &in);
  void patch(uint8_t *memory, uint64_t size, Input &in);

  uint8_t *const card_, *const system_;
  npu_model_board board_{};
  npu_model *model_ = nullptr;
  std::vector<std::thread> threads_;
  std::array<uint32_t, kQueues> tail_{};
  std::array<uint64_t, kQueues> job_{};
};

void Driver::enable(unsigned queue, uint8_t asid, uint8_t vector) {
  const auto reg = [&](uint32_t r) { return NPU_QUEUE_REG(queue, r); };
  w64(reg(NPU_QUEUE_SQ_BASE), kBusBase + ring(queue));
  w64(reg(NPU_QUEUE_CQ_BASE), kBusBase + ring(queue) + kPage);
  w64(reg(NPU_QUEUE_FENCE_ADDR), kBusBase + ring(queue) + 2 * kPage);
  w32(reg(NPU_QUEUE_SQ_LOG2), 4);
  w32(reg(NPU_QUEUE_CQ_LOG2), 4);
  w32(reg(NPU_QUEUE_ASID), asid);
  w32(reg(NPU_QUEUE_PRIORITY), queue % 4);
  w32(reg(NPU_QUEUE_CORE_MASK), (1u << kCores) - 1);
  w32(reg(NPU_QUEUE_VECTOR), vector);
  w32(reg(NPU_QUEUE_CTRL), NPU_QUEUE_CTRL_ENABLE);
  tail_[queue] = 0;
}

/// A descriptor for the streams as they are, with some of its bytes spoiled, and its entry.
void Driver::submit(unsigned queue, Input &in) {
  const uint8_t counts[] = {in.byte(), in.byte()};
  const unsigned streams = 1 + in.byte() % kCores;
  struct {
    npu_job job{};
    npu_stream stream[kCores]{};
    npu_region region[4]{};
  } d;
  d.job.magic = NPU_JOB_MAGIC;
  d.job.version = NPU_JOB_VERSION;
  d.job.flags = in.byte() & (NPU_JOB_PROFILE | NPU_JOB_IRQ);
  d.job.stream_count = streams;
  d.job.region_count = std::size(d.region);
  if (d.job.flags & NPU_JOB_PROFILE) {
    d.job.profile_region = 1;
    d.job.profile_offset = 8 * kPage;
    d.job.profile_bytes = 512;
  }
  for (unsigned s = 0; s < streams; ++s) {
    d.stream[s].tiu_count = counts[0] % (kSlots + 1);
    d.stream[s].gdma_count = counts[1] % (kSlots + 1);
    d.stream[s].tiu_offset = d.stream[s].tiu_count ? 2 * s * kStreamBytes : 0;
    d.stream[s].gdma_offset = d.stream[s].gdma_count ? (2 * s + 1) * kStreamBytes : 0;
  }
  // 0: the streams, 1: card memory behind them, 2: system memory behind the rings, 3: constant memory.
  constexpr uint64_t kFirst[] = {0, 8, kCardPages + 32, 2 * kCardPages};
  for (unsigned r = 0; r < std::size(d.region); ++r) {
    d.region[r].va = kFirst[r] * kPage;
    d.region[r].bytes = (r == 0 ? 8 : 64) * kPage;
    d.region[r].access = r == 1 || r == 2 ? NPU_ACCESS_READ | NPU_ACCESS_WRITE : NPU_ACCESS_READ;
  }
  uint8_t bytes[sizeof d];
  uint32_t size = sizeof d.job;
  std::memcpy(bytes, &d.job, sizeof d.job);
  std::memcpy(bytes + size, d.stream, streams * sizeof(npu_stream));
  size += streams * sizeof(npu_stream);
  std::memcpy(bytes + size, d.region, sizeof d.region);
  size += sizeof d.region;
  for (unsigned n = in.byte() % 8; n; --n) {
    const uint8_t at = in.byte();
    bytes[at % size] = in.byte();
  }
  store(system_ + ring(queue) + 3 * kPage, bytes, size);
  npu_sqe e{};
  e.job_id = ++job_[queue];
  e.desc_addr = kBusBase + ring(queue) + 3 * kPage;
  e.desc_bytes = size;
  store(system_ + ring(queue) + tail_[queue] * sizeof e, &e, sizeof e);
  tail_[queue] = (tail_[queue] + 1) % 16;
  w32(NPU_DOORBELL_REG(queue, NPU_DOORBELL_SQ_TAIL), tail_[queue]);
  w32(NPU_DOORBELL_REG(queue, NPU_DOORBELL_CQ_HEAD), static_cast<uint32_t>((job_[queue] - 1) % 16));
}

void Driver::reset(uint8_t what) {
  if (what > 1) {
    w32(NPU_REG_CORE_RESET, what);
    return;
  }
  if (what)
    npu_model_reset(model_);
  else
    w32(NPU_REG_CTRL, NPU_CTRL_RESET);
  for (unsigned i = 0; i < 200 && !(npu_model_read(model_, NPU_REG_STATUS, 4) & NPU_STATUS_READY); ++i)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  bring_up();
}

void Driver::wait(unsigned queue) {
  const auto reg = [&](uint32_t r) { return npu_model_read(model_, NPU_QUEUE_REG(queue, r), 4); };
  for (unsigned i = 0; i < 200; ++i) {
    if (!(reg(NPU_QUEUE_STATUS) & NPU_QUEUE_STATUS_RUNNING) && reg(NPU_QUEUE_SQ_HEAD) == tail_[queue]) return;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void Driver::write_register(Input &in) {
  constexpr uint32_t kDevice[] = {NPU_REG_CTRL,       NPU_REG_CORE_RESET,  NPU_REG_EVENT_STATUS, NPU_REG_EVENT_ENABLE,
                                  NPU_REG_IRQ_TEST,   NPU_REG_INV_ADDR,    NPU_REG_INV_BYTES,    NPU_REG_INV_ASID,
                                  NPU_REG_ASID_TABLE, NPU_REG_CLOCK_SELECT};
  constexpr uint32_t kQueue[] = {NPU_QUEUE_SQ_BASE, NPU_QUEUE_CQ_BASE, NPU_QUEUE_FENCE_ADDR, NPU_QUEUE_SQ_LOG2,
                                 NPU_QUEUE_CQ_LOG2, NPU_QUEUE_ASID,    NPU_QUEUE_PRIORITY,   NPU_QUEUE_CORE_MASK,
                                 NPU_QUEUE_VECTOR,  NPU_QUEUE_CTRL,    NPU_QUEUE_ABORT_JOB};
  constexpr uint32_t kDoorbell[] = {NPU_DOORBELL_SQ_TAIL, NPU_DOORBELL_CQ_HEAD};
  unsigned which = in.byte() % (std::size(kDevice) + std::size(kQueue) + std::size(kDoorbell));
  const unsigned queue = in.byte() % kQueues;
  const auto value = in.take<uint64_t>();
  if (which < std::size(kDevice)) return w64(kDevice[which], value), w32(kDevice[which], value);
  which -= std::size(kDevice);
  if (which < std::size(kQueue))
    return w64(NPU_QUEUE_REG(queue, kQueue[which]), value), w32(NPU_QUEUE_REG(queue, kQueue[which]), value);
  w32(NPU_DOORBELL_REG(queue, kDoorbell[which - std::size(kQueue)]), value);
}

void Driver::write_command(Input &in) {
  const unsigned stream = in.byte() % kStreams, slot = in.byte() % kSlots;
  Cmd c = template_of(in.byte());
  for (unsigned n = in.byte() % 8; n; --n) {
    const uint8_t field = in.byte();
    edit(c, field, in.take<uint64_t>());
  }
  store(card_ + kData + stream * kStreamBytes + slot * NPU_CMD_BYTES, c.bytes, sizeof c.bytes);
}

void Driver::patch(uint8_t *memory, uint64_t size, Input &in) {
  const uint64_t at = in.take<uint32_t>() % size;
  const std::vector<uint8_t> bytes = in.bytes();
  store(memory + at, bytes.data(), std::min<uint64_t>(bytes.size(), size - at));
}

void Driver::step(Input &in) {
  switch (static_cast<Op>(in.byte() % static_cast<unsigned>(Op::kCount))) {
    case Op::WriteRegister:
      return write_register(in);
    case Op::WriteAny: {
      const auto offset = in.take<uint32_t>();
      const auto value = in.take<uint64_t>();
      return npu_model_write(model_, offset % NPU_BAR_REGS_BYTES, value, in.byte() % 16);
    }
    case Op::ReadAny: {
      const auto offset = in.take<uint32_t>();
      (void)npu_model_read(model_, offset % NPU_BAR_REGS_BYTES, in.byte() % 16);
      return;
    }
    case Op::Entry: {
      const auto at = in.take<uint16_t>();
      return word(at % (kTables * NPU_PT_ENTRIES) * 8, in.take<uint64_t>());
    }
    case Op::Map: {
      const auto page = in.take<uint16_t>(), target = in.take<uint16_t>();
      return leaf(page, target % (2 * kCardPages), in.byte() & (NPU_PTE_WRITE | NPU_PTE_SYSTEM | NPU_PTE_CONST));
    }
    case Op::Card:
      return patch(card_, kCardBytes, in);
    case Op::System:
      return patch(system_, kSystemBytes, in);
    case Op::Command:
      return write_command(in);
    case Op::Submit:
      return submit(in.byte() % kQueues, in);
    case Op::Enable: {
      const unsigned queue = in.byte() % kQueues;
      const uint8_t asid = in.byte();
      return enable(queue, asid % (kAsids + 1), in.byte() % (kVectors + 1));
    }
    case Op::Disable:
      return w32(NPU_QUEUE_REG(in.byte() % kQueues, NPU_QUEUE_CTRL), 0);
    case Op::Invalidate: {
      const uint8_t asid = in.byte();
      w64(NPU_REG_INV_ADDR, in.take<uint16_t>() * kPage);
      w64(NPU_REG_INV_BYTES, in.take<uint16_t>() * kPage);
      return w32(NPU_REG_INV_ASID, asid % (kAsids + 1));
    }
    case Op::Abort: {
      const unsigned queue = in.byte() % kQueues;
      return w64(NPU_QUEUE_REG(queue, NPU_QUEUE_ABORT_JOB), job_[queue] - in.byte() % 2);
    }
    case Op::Reset:
      return reset(in.byte());
    case Op::Fault: {
      const uint8_t fault = in.byte();
      npu_model_set_fault(model_, fault % (NPU_MODEL_FAULT_COUNT + 1), in.take<uint16_t>() % 8);
      return;
    }
    case Op::Wait:
      return wait(in.byte() % kQueues);
    case Op::kCount:
      return;
  }
}

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr unsigned kMaxSteps = 512;
  npu::fuzz::Input in(data, size);
  // auto is oneDNN where there is one; TSan's build has none that it could look into.
  npu::fuzz::Driver driver(in.byte() % 2 ? NPU_FUZZ_BACKEND : "reference");
  for (unsigned i = 0; i < kMaxSteps && !in.empty(); ++i) driver.step(in);
  return 0;
}
