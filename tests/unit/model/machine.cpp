// SPDX-License-Identifier: MIT
#include "tests/unit/model/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>

namespace npu::test {

namespace {

constexpr uint64_t kSystemBytes = 512 << 20;
constexpr auto kPatience = std::chrono::seconds(900);  // processors may be busy, and emulated

/// Those that have a clock.
std::vector<Machine *> machines;

/// Lets a machine's time pass until the chip has something to do. Where no chip has, some time passes.
bool pass_time() {
  for (Machine *m : machines)
    if (m->board.next(m->model())) return true;
  for (Machine *m : machines) m->board.set_clock(m->model(), m->board.now() + 1000000);
  return !machines.empty();
}

unsigned shift_of(unsigned level) { return NPU_PAGE_SHIFT + 9 * level; }

}  // namespace

Cmd nop(uint32_t wait) {
  npu_cmd c{};
  c.opcode = NPU_OP_NOP;
  c.wait = wait;
  return c;
}

void eventually(const std::function<bool()> &f, const char *what) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!f()) {
    if (pass_time() && std::chrono::steady_clock::now() < end) continue;
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << "did not happen: " << what;
      std::abort();  // threads of the chip are in an unknown state: nothing after this means anything
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

bool virtual_time() {
  const char *time = std::getenv("NPU_TEST_TIME");
  return time && std::strcmp(time, "virtual") == 0;
}

const char *status_name(uint32_t status) {
  for (const auto &v : hw::k_npu_status)
    if (v.value == status) return v.name.data();
  return "?";
}

// ---- queues ----

TestQueue::TestQueue(Machine &m, unsigned number, const QueueOptions &options)
    : m_(m), number_(number), options_(options) {
  sq_ = m.board.allocate(64u << options.sq_log2);
  cq_ = m.board.allocate(64u << options.cq_log2);
  fence_ = m.board.allocate(sizeof(npu_fence));
}

uint32_t TestQueue::reg(uint32_t r) { return m_.r32(NPU_QUEUE_REG(number_, r)); }
uint32_t TestQueue::status() { return reg(NPU_QUEUE_STATUS); }

void TestQueue::enable() {
  std::memset(m_.board.host(cq_), 0, 64u << options_.cq_log2);
  std::memset(m_.board.host(fence_), 0, sizeof(npu_fence));
  const auto reg = [&](uint32_t r) { return NPU_QUEUE_REG(number_, r); };
  m_.w64(reg(NPU_QUEUE_SQ_BASE), sq_);
  m_.w64(reg(NPU_QUEUE_CQ_BASE), cq_);
  m_.w64(reg(NPU_QUEUE_FENCE_ADDR), fence_);
  m_.w32(reg(NPU_QUEUE_SQ_LOG2), options_.sq_log2);
  m_.w32(reg(NPU_QUEUE_CQ_LOG2), options_.cq_log2);
  m_.w32(reg(NPU_QUEUE_ASID), options_.asid);
  m_.w32(reg(NPU_QUEUE_PRIORITY), options_.priority);
  m_.w32(reg(NPU_QUEUE_CORE_MASK), options_.core_mask ? options_.core_mask : (1u << m_.r32(NPU_REG_CORES)) - 1);
  m_.w32(reg(NPU_QUEUE_VECTOR), options_.vector);
  tail_ = head_ = seen_ = 0;
  phase_ = 1;
  m_.w32(reg(NPU_QUEUE_CTRL), NPU_QUEUE_CTRL_ENABLE);
}

void TestQueue::disable() {
  m_.w32(NPU_QUEUE_REG(number_, NPU_QUEUE_CTRL), 0);
  wait_off();
}

void TestQueue::wait_off() {
  eventually([&] { return status() == 0; }, "queue off");
}

void TestQueue::ring_doorbell() { m_.w32(NPU_DOORBELL_REG(number_, NPU_DOORBELL_SQ_TAIL), tail_); }

void TestQueue::submit_entry(const npu_sqe &e, bool ring) {
  std::memcpy(m_.board.host(sq_ + tail_ * sizeof e), &e, sizeof e);
  tail_ = (tail_ + 1) & ((1u << options_.sq_log2) - 1);
  if (ring) ring_doorbell();
}

uint64_t TestQueue::submit(const Prepared &p, bool ring) {
  npu_sqe e{};
  e.job_id = next_id_++;
  e.desc_addr = p.desc;
  e.desc_bytes = p.bytes;
  submit_entry(e, ring);
  return e.job_id;
}

uint64_t TestQueue::submit(const JobSpec &job) { return submit(m_.prepare(options_.asid, job)); }

std::optional<npu_cqe> TestQueue::poll(bool ack) {
  uint8_t *at = m_.board.host(cq_ + seen_ * sizeof(npu_cqe));
  const uint32_t phase = __atomic_load_n(reinterpret_cast<uint32_t *>(at + offsetof(npu_cqe, phase)), __ATOMIC_ACQUIRE);
  if ((phase & NPU_CQE_PHASE) != phase_) return std::nullopt;
  npu_cqe c;
  std::memcpy(&c, at, offsetof(npu_cqe, phase));
  c.phase = phase;
  seen_ = (seen_ + 1) & ((1u << options_.cq_log2) - 1);
  if (seen_ == 0) phase_ ^= 1;
  if (ack) consume();
  return c;
}

void TestQueue::consume() { m_.w32(NPU_DOORBELL_REG(number_, NPU_DOORBELL_CQ_HEAD), seen_); }

npu_cqe TestQueue::wait(bool ack) {
  std::optional<npu_cqe> c;
  eventually([&] { return (c = poll(ack)).has_value(); }, "completion");
  return *c;
}

npu_cqe TestQueue::run(const JobSpec &job) {
  const uint64_t id = submit(job);
  const npu_cqe c = wait();
  EXPECT_EQ(c.job_id, id);
  // The chip notes that it has completed the job after the completion can be seen.
  eventually([&] { return !(status() & NPU_QUEUE_STATUS_RUNNING); }, "the queue to be idle");
  return c;
}

void TestQueue::abort(uint64_t id) { m_.w64(NPU_QUEUE_REG(number_, NPU_QUEUE_ABORT_JOB), id); }

uint64_t TestQueue::fence_seqno() {
  return __atomic_load_n(reinterpret_cast<uint64_t *>(m_.board.host(fence_)), __ATOMIC_ACQUIRE);
}

void TestQueue::wait_fence(uint64_t id) {
  eventually([&] { return fence_seqno() == id; }, "the fence page");
}

const npu_fence TestQueue::fence() {
  npu_fence f;
  const uint8_t *at = m_.board.host(fence_);
  f.seqno = fence_seqno();
  std::memcpy(reinterpret_cast<uint8_t *>(&f) + sizeof f.seqno, at + sizeof f.seqno, sizeof f - sizeof f.seqno);
  return f;
}

// ---- the machine ----

Machine::Machine(const Options &options) : board(kSystemBytes), options_(options) {
  if (options.ddr)
    ddr_ = static_cast<uint8_t *>(
        mmap(nullptr, options.ddr, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  npu_model_config c{};
  c.abi = NPU_MODEL_ABI;
  c.cores = options.cores;
  c.queues = options.queues;
  c.asids = options.asids;
  c.vectors = 16;
  c.lmem_bytes = options.lmem;
  c.ddr_bytes = options.ddr;
  c.ddr = ddr_;
  c.backend = options.backend;
  if (options.clock || virtual_time()) {
    board.lend_clock();
    machines.push_back(this);
  }
  c.board = &board.calls();
  c.opaque = &board;
  if (options.edit) options.edit(c);
  char message[256] = "";
  int error = 0;
  model_ = npu_model_create(&c, &error, message, sizeof message);
  if (!model_) {
    ADD_FAILURE() << "no model: " << message;
    std::abort();
  }
  for (unsigned i = 0; i < npu_model_thread_count(model_); ++i)
    threads_.emplace_back([this, i] { npu_model_thread_main(model_, i); });
  asid_table_ = table_pages((options.asids * sizeof(npu_asid_entry) + kPage - 1) / kPage);
  for (uint32_t asid = 0; asid < options.asids; ++asid) set_root(asid, table_pages(1) | NPU_ASID_VALID);
  bring_up();
}

Machine::~Machine() {
  std::erase(machines, this);
  stop();
  npu_model_destroy(model_);
  if (ddr_) munmap(ddr_, options_.ddr);
}

void Machine::stop() {
  npu_model_stop(model_);
  for (auto &t : threads_)
    if (t.joinable()) t.join();
}

void Machine::bring_up() {
  w64(NPU_REG_ASID_TABLE, asid_table_ | (options_.system_tables ? NPU_ASID_TABLE_SYSTEM : 0));
  w32(NPU_REG_EVENT_ENABLE, ~0u);
  w32(NPU_REG_CTRL, NPU_CTRL_ENABLE);
}

void Machine::reset() {
  w32(NPU_REG_CTRL, NPU_CTRL_RESET);
  eventually([&] { return r32(NPU_REG_STATUS) & NPU_STATUS_READY; }, "reset done");
}

uint64_t Machine::card_pages(uint64_t pages, uint64_t align) {
  if (!ddr_) return board.allocate(pages * kPage);
  next_page_ = (next_page_ + align - 1) / align * align;
  const uint64_t at = next_page_;
  next_page_ += pages * kPage;
  if (next_page_ > options_.ddr) std::abort();
  return at;
}

uint64_t Machine::table_pages(uint64_t pages) {
  return options_.system_tables ? board.allocate(pages * kPage) : card_pages(pages);
}

void Machine::store(uint64_t address, uint64_t value) {
  __atomic_store_n(reinterpret_cast<uint64_t *>(table_memory(address)), value, __ATOMIC_RELEASE);
}

uint64_t Machine::load(uint64_t address) {
  return __atomic_load_n(reinterpret_cast<uint64_t *>(table_memory(address)), __ATOMIC_ACQUIRE);
}

void Machine::set_root(uint32_t asid, uint64_t entry) { store(asid_table_ + asid * sizeof(npu_asid_entry), entry); }

uint64_t Machine::table_of(uint32_t asid, uint64_t va, unsigned level) {
  uint64_t table = load(asid_table_ + asid * sizeof(npu_asid_entry)) & NPU_ASID_ROOT;
  for (unsigned l = NPU_PT_LEVELS - 1; l > level; --l) {
    const uint64_t at = table + (va >> shift_of(l) & 511) * 8;
    if (!(load(at) & NPU_PTE_VALID)) store(at, table_pages(1) | NPU_PTE_VALID);
    table = load(at) & NPU_PTE_ADDR;
  }
  return table;
}

uint64_t Machine::entry_of(uint32_t asid, uint64_t va, unsigned level) {
  return table_of(asid, va, level) + (va >> shift_of(level) & 511) * 8;
}

void Machine::map(uint32_t asid, uint64_t va, uint64_t addr, uint64_t flags) {
  const bool large = flags & NPU_PTE_LARGE;
  store(entry_of(asid, va, large ? 1 : 0), addr | flags | NPU_PTE_VALID);
  for (uint64_t at = 0; at < (large ? kBlock : kPage); at += kPage)
    pages_[{asid, (va + at) / kPage}] = {addr + at, (flags & NPU_PTE_SYSTEM) != 0};
}

void Machine::unmap(uint32_t asid, uint64_t va) { store(entry_of(asid, va), 0); }

uint32_t Machine::invalidate(uint32_t asid, uint64_t addr, uint64_t bytes) {
  w64(NPU_REG_INV_ADDR, addr);
  w64(NPU_REG_INV_BYTES, bytes);
  w32(NPU_REG_INV_ASID, asid);
  return r32(NPU_REG_INV_ISSUED);
}

void Machine::wait_invalidated(uint32_t ticket) {
  eventually([&] { return static_cast<int32_t>(r32(NPU_REG_INV_DONE) - ticket) >= 0; }, "invalidation");
}

Area Machine::allocate(uint64_t bytes, Place place, uint32_t asid, uint64_t extra) {
  const uint64_t unit = place == Place::CardBlocks ? kBlock : kPage, units = (bytes + unit - 1) / unit;
  const bool system = !ddr_ || place == Place::System || place == Place::SystemScattered;
  const bool scattered = place == Place::CardScattered || place == Place::SystemScattered;
  next_va_ = (next_va_ + unit - 1) / unit * unit;
  const Area area{asid, next_va_, bytes};
  next_va_ += units * unit + kPage;  // a guard page
  // Scattered: every other page, so that no two neighbours are neighbours in memory, in a random order.
  const uint64_t step = scattered ? 2 * unit : unit;
  const uint64_t base = system ? board.allocate(units * step) : card_pages(units * step / kPage, unit);
  std::vector<uint64_t> order(units);
  for (uint64_t i = 0; i < units; ++i) order[i] = base + i * step;
  if (scattered) std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(base)));
  const uint64_t flags = extra | (system ? NPU_PTE_SYSTEM : 0) | (unit == kBlock ? NPU_PTE_LARGE : 0);
  for (uint64_t i = 0; i < units; ++i) map(asid, area.va + i * unit, order[i], flags);
  return area;
}

Area Machine::allocate_at(uint64_t lead, uint64_t bytes, Place place, uint32_t asid) {
  Area a = allocate(lead + bytes, place, asid);
  a.va += lead;
  a.bytes = bytes;
  return a;
}

uint8_t *Machine::host(uint32_t asid, uint64_t va) {
  const Page &p = pages_.at({asid, va / kPage});
  return (p.system ? board.host(p.addr) : ddr_ + p.addr) + va % kPage;
}

void Machine::put(const Area &a, uint64_t offset, const void *data, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes;) {
    const uint64_t va = a.va + offset + i, n = std::min(bytes - i, kPage - va % kPage);
    std::memcpy(host(a.asid, va), static_cast<const uint8_t *>(data) + i, n);
    i += n;
  }
}

void Machine::get(const Area &a, uint64_t offset, void *data, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes;) {
    const uint64_t va = a.va + offset + i, n = std::min(bytes - i, kPage - va % kPage);
    std::memcpy(static_cast<uint8_t *>(data) + i, host(a.asid, va), n);
    i += n;
  }
}

std::vector<uint8_t> Machine::content(const Area &a) {
  std::vector<uint8_t> v(a.bytes);
  get(a, 0, v.data(), v.size());
  return v;
}

TestQueue &Machine::queue(unsigned number, QueueOptions options) {
  auto &q = queues_[number];
  if (!q) {
    q = std::make_unique<TestQueue>(*this, number, options);
    q->enable();
  }
  return *q;
}

uint64_t Machine::bus_copy(const void *data, size_t bytes) {
  const uint64_t at = board.allocate(bytes);
  std::memcpy(board.host(at), data, bytes);
  return at;
}

Prepared Machine::prepare(uint32_t asid, const JobSpec &job) {
  Prepared p;
  npu_job h{};
  h.magic = NPU_JOB_MAGIC;
  h.version = NPU_JOB_VERSION;
  h.flags = job.flags;
  h.stream_count = job.cores();
  h.core_mask = job.core_mask;
  h.budget = job.budget;
  h.profile_region = job.profile_region;
  h.profile_offset = job.profile_offset;
  h.profile_bytes = job.profile_bytes;
  std::vector<npu_region> regions = job.regions;
  std::vector<npu_stream> streams(job.cores());
  const auto commands_of = [&job](unsigned n) -> const std::vector<Cmd> & {
    return n < 2 ? job.stream[n] : job.more[n / 2 - 1][n % 2];
  };
  // A region for each stream, or, where there would be too many, one for all.
  const bool together = regions.size() + 2 * job.cores() > NPU_MAX_REGIONS;
  uint64_t total = 0;
  for (unsigned n = 0; n < 2 * job.cores(); ++n) total += commands_of(n).size() * NPU_CMD_BYTES;
  const Area all = together ? allocate(total, Place::Card, asid, 0) : Area{};
  uint64_t at = 0;
  if (together) regions.push_back(all.region(NPU_ACCESS_READ));
  for (unsigned n = 0; n < 2 * job.cores(); ++n) {
    const unsigned core = n / 2, e = n % 2;
    const std::vector<Cmd> &commands = commands_of(n);
    if (commands.empty()) continue;
    const uint64_t bytes = commands.size() * NPU_CMD_BYTES;
    const Area area = together ? all : allocate(bytes, Place::Card, asid, 0);
    put(area, at, commands.data(), bytes);
    if (!core) p.stream_va[e] = area.va + at;
    if (!together) regions.push_back(area.region(NPU_ACCESS_READ));
    npu_stream &s = streams[core];
    (e == kTiu ? s.tiu_region : s.gdma_region) = static_cast<uint8_t>(regions.size() - 1);
    (e == kTiu ? s.tiu_offset : s.gdma_offset) = at;
    (e == kTiu ? s.tiu_count : s.gdma_count) = static_cast<uint32_t>(commands.size());
    if (together) at += bytes;
  }
  h.region_count = static_cast<uint32_t>(regions.size());
  const size_t head = sizeof h + streams.size() * sizeof(npu_stream);
  std::vector<uint8_t> d(head + regions.size() * sizeof(npu_region));
  std::memcpy(&d[0], &h, sizeof h);
  std::memcpy(&d[sizeof h], streams.data(), head - sizeof h);
  if (!regions.empty()) std::memcpy(&d[head], regions.data(), regions.size() * sizeof(npu_region));
  p.bytes = static_cast<uint32_t>(d.size());
  if (job.edit) job.edit(d);
  p.desc = bus_copy(d.data(), d.size());
  return p;
}

}  // namespace npu::test
