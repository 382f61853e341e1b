// SPDX-License-Identifier: MIT
#include "tests/unit/runtime/models.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "npu_isa.hpp"
#include "npu_regs.h"

namespace test_models {

using npu::bmodel::NetDesc;
using npu::bmodel::StageDesc;
using npu::bmodel::SubNetDesc;
using npu::bmodel::TensorDesc;

namespace {

constexpr uint64_t kIo = npu::bmodel::kCoeffAddress + 0x1000000;
constexpr uint64_t kCtx = kIo + 0x1000000;

uint64_t element_bytes(uint32_t dtype) {
  return dtype == 2 || dtype == 3 ? 1 : dtype == 1 || dtype == 4 || dtype == 5 || dtype == 8 ? 2 : 4;
}

/// Batches in a word.
uint64_t lanes_of(int32_t store_mode) { return store_mode == 2 ? 4 : store_mode == 1 ? 2 : 1; }

uint64_t bytes_of(const TensorDesc &t) {
  uint64_t n = element_bytes(t.dtype), lanes = lanes_of(t.store_mode);
  for (const uint64_t d : t.shape) {
    n *= (d + lanes - 1) / lanes * lanes;
    lanes = 1;
  }
  return n;
}

template <class Command>
void append(std::vector<uint8_t> &to, const Command &c) {
  const auto *p = reinterpret_cast<const uint8_t *>(&c);
  to.insert(to.end(), p, p + sizeof c);
}

npu_cmd_eltwise eltwise(uint8_t subop, uint32_t a, uint32_t to, uint32_t count, uint32_t wait) {
  auto c = npu::hw::make<npu_cmd_eltwise>();
  c.subop = subop;
  c.wait = wait;
  c.a_addr = a;
  c.out_addr = to;
  c.a_dtype = c.b_dtype = c.out_dtype = NPU_DTYPE_F32;
  for (uint32_t &d : c.dims) d = 1;
  c.dims[4] = count;
  c.a_stride[4] = 1;
  return c;
}

}  // namespace

TensorDesc tensor(const std::string &name, std::vector<uint64_t> shape, uint32_t dtype, int32_t store_mode) {
  TensorDesc t;
  t.name = name;
  t.dtype = dtype;
  t.store_mode = store_mode;
  t.shape = std::move(shape);
  t.bytes = bytes_of(t);
  return t;
}

Stage &Stage::input(const std::string &name, std::vector<uint64_t> shape, uint32_t dtype) {
  desc.inputs.push_back(tensor(name, std::move(shape), dtype));
  return *this;
}

Stage &Stage::output(const std::string &name, std::vector<uint64_t> shape, uint32_t dtype) {
  desc.outputs.push_back(tensor(name, std::move(shape), dtype));
  return *this;
}

Stage &Stage::ctx(uint64_t bytes) {
  desc.ctx_address = kCtx;
  desc.ctx_bytes = bytes;
  return *this;
}

Stage &Stage::coeff(const std::vector<float> &values) {
  desc.coeff.resize(values.size() * sizeof(float));
  std::memcpy(desc.coeff.data(), values.data(), desc.coeff.size());
  return *this;
}

Stage &Stage::alias(uint16_t output, uint16_t input) {
  desc.aliases.push_back({output, input, 0});
  return *this;
}

Stage &Stage::copy(uint8_t from, uint64_t from_offset, uint8_t to, uint64_t to_offset, uint32_t count, uint32_t wait) {
  auto c = npu::hw::make<npu_cmd_copy>();
  c.wait = wait;
  c.src_region = from;
  c.dst_region = to;
  c.src_offset = from_offset;
  c.dst_offset = to_offset;
  c.src_dtype = c.dst_dtype = NPU_DTYPE_F32;
  for (uint32_t &d : c.dims) d = 1;
  c.dims[5] = count;
  c.src_stride[5] = c.dst_stride[5] = 1;
  append(desc.gdma, c);
  return *this;
}

Stage &Stage::move(uint8_t from, uint64_t from_offset, int32_t from_stride, uint8_t to, uint64_t to_offset,
                   int32_t to_stride, uint32_t count, uint32_t bytes) {
  auto c = npu::hw::make<npu_cmd_copy>();
  c.src_region = from;
  c.dst_region = to;
  c.src_offset = from_offset;
  c.dst_offset = to_offset;
  c.src_dtype = c.dst_dtype = bytes == 1 ? NPU_DTYPE_U8 : NPU_DTYPE_U16;
  for (uint32_t &d : c.dims) d = 1;
  c.dims[5] = count;
  c.src_stride[5] = from_stride;
  c.dst_stride[5] = to_stride;
  append(desc.gdma, c);
  return *this;
}

Stage &Stage::apply(uint8_t subop, uint32_t a, float constant, uint32_t to, uint32_t count, uint32_t wait) {
  npu_cmd_eltwise c = eltwise(subop, a, to, count, wait);
  c.flags = NPU_ELTWISEF_B_IMM;
  c.imm = constant;
  append(desc.tiu, c);
  return *this;
}

Stage &Stage::add(uint32_t a, uint32_t b, uint32_t to, uint32_t count, uint32_t wait) {
  npu_cmd_eltwise c = eltwise(NPU_ELTWISE_ADD, a, to, count, wait);
  c.b_addr = b;
  c.b_stride[4] = 1;
  append(desc.tiu, c);
  return *this;
}

StageDesc Stage::finish() {
  uint64_t at = kIo;
  auto region = [&](uint8_t kind, uint8_t access, size_t index, uint64_t address, uint64_t bytes) {
    desc.regions.push_back({kind, access, static_cast<uint16_t>(index), 0, address, bytes, 0});
  };
  auto place = [&](std::vector<TensorDesc> &list, uint8_t kind, uint8_t access) {
    for (size_t i = 0; i < list.size(); ++i) {
      list[i].address = at;
      region(kind, access, i, at, list[i].bytes);
      at += (list[i].bytes + 4095) / 4096 * 4096;
    }
  };
  place(desc.inputs, NPU_PROGRAM_INPUT, NPU_ACCESS_READ);
  place(desc.outputs, NPU_PROGRAM_OUTPUT, NPU_ACCESS_WRITE);
  desc.io_address = kIo;
  desc.io_bytes = at - kIo;
  if (desc.ctx_bytes) region(NPU_PROGRAM_CTX, NPU_ACCESS_READ | NPU_ACCESS_WRITE, 0, kCtx, desc.ctx_bytes);
  if (!desc.coeff.empty()) region(NPU_PROGRAM_COEFF, NPU_ACCESS_READ, 0, npu::bmodel::kCoeffAddress, desc.coeff.size());
  desc.lmem_bytes = 4096;
  desc.layers = {"first", "second"};
  return desc;
}

StageDesc plus(const std::vector<uint64_t> &shape, float constant) {
  Stage s;
  s.input("x", shape).output("y", shape);
  const auto count = static_cast<uint32_t>(s.desc.inputs[0].bytes / 4);
  s.copy(s.in(0), 0, NPU_REGION_LOCAL, 0, count);
  s.apply(NPU_ELTWISE_ADD, 0, constant, 2048, count, 1);
  s.copy(NPU_REGION_LOCAL, 2048, s.out(0), 0, count, 1);
  return s.finish();
}

StageDesc affine(uint32_t count) {
  std::vector<float> w;
  for (uint32_t i = 0; i < count; ++i) w.push_back(static_cast<float>(i + 1));
  Stage s;
  s.input("x", {count}).output("y", {count}).ctx(8192).coeff(w);
  s.copy(s.in(0), 0, s.ctx(), 4096, count);
  s.copy(s.ctx(), 4096, NPU_REGION_LOCAL, 0, count);
  s.copy(s.coeff(), 0, NPU_REGION_LOCAL, 1024, count);
  s.apply(NPU_ELTWISE_MUL, 0, 2.0f, 2048, count, 3);
  s.add(2048, 1024, 3072, count, 3);
  s.copy(NPU_REGION_LOCAL, 3072, s.ctx(), 0, count, 2);
  s.copy(s.ctx(), 0, s.out(0), 0, count);
  return s.finish();
}

StageDesc keep(uint32_t count, bool alias_facts) {
  Stage s;
  s.input("a", {count}).output("inc", {count}).output("keep", {count});
  if (alias_facts) s.alias(0, 0).alias(1, 0);
  s.copy(s.in(0), 0, NPU_REGION_LOCAL, 0, count);
  s.apply(NPU_ELTWISE_ADD, 0, 1.0f, 2048, count, 1);
  s.copy(NPU_REGION_LOCAL, 2048, s.out(0), 0, count, 1);
  s.copy(s.in(0), 0, NPU_REGION_LOCAL, 1024, count);
  s.copy(NPU_REGION_LOCAL, 1024, s.out(1), 0, count);
  return s.finish();
}

StageDesc sum() {
  Stage s;
  s.input("a", {1, 4}).input("b", {2, 2}).output("c", {4});
  s.copy(s.in(0), 0, NPU_REGION_LOCAL, 0, 4);
  s.copy(s.in(1), 0, NPU_REGION_LOCAL, 1024, 4);
  s.add(0, 1024, 2048, 4, 2);
  s.copy(NPU_REGION_LOCAL, 2048, s.out(0), 0, 4, 1);
  return s.finish();
}

StageDesc overrun(uint32_t count) {
  Stage s;
  s.input("x", {count}).output("y", {count});
  s.copy(s.in(0), 4, NPU_REGION_LOCAL, 0, count);
  return s.finish();
}

StageDesc deadlock() {
  Stage s;
  s.input("x", {4}).output("y", {4});
  s.copy(s.in(0), 0, s.out(0), 0, 4, 7);
  return s.finish();
}

StageDesc relay(bool signal) {
  Stage first, second;
  for (Stage *s : {&first, &second}) s->input("x", {1, 8}).output("y", {1, 8}).ctx(4096);
  first.copy(first.in(0), 0, NPU_REGION_LOCAL, 0, 8);
  first.apply(NPU_ELTWISE_ADD, 0, 1.0f, 2048, 8, 1);
  first.copy(NPU_REGION_LOCAL, 2048, first.ctx(), 0, 8, 1);
  auto give = npu::hw::make<npu_cmd_sem_signal>();
  give.sem = 3;
  give.value = 1;
  if (signal) append(first.desc.gdma, give);
  auto take = npu::hw::make<npu_cmd_sem_wait>();
  take.sem = 3;
  take.value = 1;
  append(second.desc.gdma, take);
  second.copy(second.ctx(), 0, NPU_REGION_LOCAL, 0, 8);
  second.apply(NPU_ELTWISE_MUL, 0, 2.0f, 2048, 8, 2);
  second.copy(NPU_REGION_LOCAL, 2048, second.out(0), 0, 8, 1);
  StageDesc stage = first.finish();
  stage.more_cores.push_back({second.desc.tiu, second.desc.gdma});
  return stage;
}

uint64_t stored_at(uint64_t lanes, uint64_t inner, uint64_t b, uint64_t i) {
  return b / lanes * lanes * inner + i * lanes + b % lanes;
}

StageDesc mirror(const std::vector<uint64_t> &shape, uint32_t dtype, int32_t x_mode, int32_t y_mode) {
  Stage s;
  s.desc.inputs.push_back(tensor("x", shape, dtype, x_mode));
  s.desc.outputs.push_back(tensor("y", shape, dtype, y_mode));
  uint64_t inner = 1;
  for (size_t d = 1; d < shape.size(); ++d) inner *= shape[d];
  const uint64_t bytes = element_bytes(dtype), from = lanes_of(x_mode), to = lanes_of(y_mode);
  for (uint64_t b = 0; b < shape[0]; ++b)
    s.move(s.in(0), stored_at(from, inner, b, inner - 1) * bytes, -static_cast<int32_t>(from), s.out(0),
           stored_at(to, inner, b, 0) * bytes, static_cast<int32_t>(to), static_cast<uint32_t>(inner),
           static_cast<uint32_t>(bytes));
  return s.finish();
}

namespace {

SubNetDesc sub(int32_t mode, int32_t id, std::vector<TensorDesc> inputs, std::vector<TensorDesc> outputs, Ids next) {
  SubNetDesc s;
  s.mode = mode;
  s.id = id;
  s.inputs = std::move(inputs);
  s.outputs = std::move(outputs);
  s.next = std::move(next);
  return s;
}

}  // namespace

SubNetDesc on_npu(int32_t id, const StageDesc &program, std::vector<std::string> inputs,
                  std::vector<std::string> outputs, Ids next) {
  SubNetDesc s = sub(0, id, program.inputs, program.outputs, std::move(next));
  static_cast<npu::bmodel::ProgramDesc &>(s) = program;
  for (size_t i = 0; i < inputs.size(); ++i) s.inputs[i].name = inputs[i];
  for (size_t i = 0; i < outputs.size(); ++i) s.outputs[i].name = outputs[i];
  return s;
}

SubNetDesc on_cpu(int32_t id, int32_t op, std::vector<TensorDesc> inputs, std::vector<TensorDesc> outputs, Ids next,
                  npu_cpu_param param) {
  SubNetDesc s = sub(1, id, std::move(inputs), std::move(outputs), std::move(next));
  s.op = op;
  param.magic = NPU_CPU_PARAM_MAGIC;
  param.version = NPU_CPU_PARAM_VERSION;
  param.bytes = sizeof param;
  append(s.param, param);
  return s;
}

SubNetDesc on_cpu(int32_t id, const npu::cpu::HostGraph &graph, std::vector<TensorDesc> inputs,
                  std::vector<TensorDesc> outputs, Ids next) {
  const std::vector<uint8_t> bytes = npu::cpu::encode_host_graph(graph);
  npu_cpu_param param{};
  param.count = static_cast<uint32_t>(bytes.size());
  SubNetDesc s = on_cpu(id, NPU_CPU_GRAPH, std::move(inputs), std::move(outputs), std::move(next), param);
  s.param.insert(s.param.end(), bytes.begin(), bytes.end());
  return s;
}

SubNetDesc merge(int32_t id, std::vector<TensorDesc> inputs, std::vector<TensorDesc> outputs, std::vector<Ids> from,
                 Ids next) {
  SubNetDesc s = sub(2, id, std::move(inputs), std::move(outputs), std::move(next));
  s.from = std::move(from);
  return s;
}

SubNetDesc branch(int32_t id, std::vector<TensorDesc> inputs, std::vector<TensorDesc> outputs, Ids from, Ids branches,
                  Ids next) {
  SubNetDesc s = sub(3, id, std::move(inputs), std::move(outputs), std::move(next));
  for (const int32_t f : from) s.from.push_back({f});
  s.branch = std::move(branches);
  return s;
}

StageDesc flow(std::vector<TensorDesc> inputs, std::vector<TensorDesc> outputs, std::vector<SubNetDesc> subs) {
  StageDesc s;
  s.inputs = std::move(inputs);
  s.outputs = std::move(outputs);
  s.subs = std::move(subs);
  uint64_t at = kIo;
  for (auto *list : {&s.inputs, &s.outputs})
    for (TensorDesc &t : *list) at = (t.address = at) + (t.bytes + 4095) / 4096 * 4096;
  s.io_address = kIo;
  s.io_bytes = at - kIo;
  return s;
}

StageDesc choose() {
  const std::vector<uint64_t> row{1, 8};
  const auto x = tensor("x", row), flag = tensor("flag", {1}, 6), y = tensor("y", row), m = tensor("m", row);
  npu_cpu_param last_axis{};
  last_axis.axis = -1;
  return flow({x, flag}, {y, tensor("index", {1}, 6)},
              {branch(7, {x, flag}, {tensor("no", row), tensor("yes", row)}, {0, 0}, {0, 1}, {1, 2}),
               on_npu(1, plus(row, 10), {"no"}, {"ten"}, {3}), on_npu(2, plus(row, 20), {"yes"}, {"twenty"}, {3}),
               merge(3, {tensor("ten", row), tensor("twenty", row)}, {m}, {{0, 1}}, {4}),
               on_npu(4, plus(row, 1), {"m"}, {"y"}, {5}),
               on_cpu(5, NPU_CPU_ARGMAX, {y}, {tensor("index", {1}, 6)}, {}, last_axis)});
}

StageDesc there_and_back() {
  const std::vector<uint64_t> row{1, 8};
  return flow({tensor("x", row)}, {tensor("y", row)},
              {on_npu(0, plus(row, 1), {"x"}, {"a"}, {1}),
               on_cpu(1, NPU_CPU_CAST, {tensor("a", row)}, {tensor("b", row, 6)}, {2}),
               on_cpu(2, NPU_CPU_CAST, {tensor("b", row, 6)}, {tensor("c", row)}, {3}),
               on_npu(3, plus(row, 2), {"c"}, {"y"}, {-1})});
}

npu::cpu::HostGraph rows_by_index() {
  npu::cpu::HostGraph g;
  g.inputs = {{npu::cpu::Dtype::F32, {8}}, {npu::cpu::Dtype::I32, {3}}};
  g.nodes.push_back({npu::cpu::Op::Gather, npu::cpu::GatherAttrs{0}, {0, 1}});
  g.outputs = {2};
  return g;
}

StageDesc pick(const npu::cpu::HostGraph &graph) {
  const auto x = tensor("x", {8}), index = tensor("index", {3}, 6), y = tensor("y", {3});
  return flow({x, index}, {y},
              {on_npu(0, plus({8}, 1), {"x"}, {"more"}, {1}), on_cpu(1, graph, {tensor("more", {8}), index}, {y}, {})});
}

NetDesc net(const std::string &name, std::vector<StageDesc> stages) { return {name, 0, std::move(stages)}; }

std::vector<uint8_t> file(std::vector<NetDesc> nets) {
  std::vector<uint8_t> bytes;
  const npu::Status built = npu::bmodel::build({std::move(nets), ""}, bytes);
  if (built.ok()) return bytes;
  std::fprintf(stderr, "test model: %s\n", built.message().c_str());
  std::abort();
}

std::vector<uint8_t> sample() {
  return file(
      {net("plus", {plus({1, 8}, 3)}), net("affine", {affine(16)}), net("keep", {keep(4, true)}), net("sum", {sum()})});
}

}  // namespace test_models
