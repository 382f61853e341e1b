// SPDX-License-Identifier: MIT
#include "compiler/api/npuc.h"

#include <algorithm>
#include <exception>

#include "compiler/import/importer.h"
#include "compiler/passes/passes.h"
#include "compiler/schedule/check_sync.h"
#include "compiler/schedule/program.h"

namespace npu::compiler {
namespace {

uint64_t aligned(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

std::vector<uint8_t> encoded(const std::vector<Command> &stream) {
  std::vector<uint8_t> out(stream.size() * NPU_CMD_BYTES);
  for (size_t i = 0; i < stream.size(); ++i) std::ranges::copy(encode(stream[i]), out.data() + i * NPU_CMD_BYTES);
  return out;
}

Status make_graph(const graph::RawModel &raw, const Options &options, graph::Graph &g) {
  NPU_TRY(graph::import_model(raw, {options.shapes}, g));
  graph::remove_dead(g);
  graph::merge_pad(g);
  graph::fold_affine(g);
  graph::fuse_activation(g);
  // A window of one channel and its result have to fit, twice each.
  graph::split_pool(g, options.lmem_bytes / kElementBytes / 4);
  return {};
}

/// Outputs that are written before an input has been read for the last time. Only the GDMA touches either.
void find_aliases(const std::vector<Command> &gdma, const Lowered &lowered, bmodel::StageDesc &stage) {
  std::map<int, size_t> last_read, first_write;
  for (size_t i = 0; i < gdma.size(); ++i) {
    const auto kind_is = [&](int s, StorageKind k) {
      return s >= 0 && static_cast<size_t>(s) < lowered.storages.size() &&
             lowered.storages[static_cast<size_t>(s)].kind == k;
    };
    if (kind_is(gdma[i].src_storage, StorageKind::Input))
      last_read[lowered.storages[static_cast<size_t>(gdma[i].src_storage)].index] = i;
    if (kind_is(gdma[i].dst_storage, StorageKind::Output))
      first_write.emplace(lowered.storages[static_cast<size_t>(gdma[i].dst_storage)].index, i);
  }
  for (const auto &[output, write] : first_write)
    for (const auto &[input, read] :
         last_read)  // one command that does both is a direct copy: it must not overlap either
      if (write <= read) stage.aliases.push_back({static_cast<uint16_t>(output), static_cast<uint16_t>(input), 0});
}

/// Linear addresses: coefficients, then inputs and outputs, then activation memory.
void lay_out(const graph::Graph &g, const Bound &bound, bmodel::StageDesc &stage) {
  uint64_t at = stage.io_address = aligned(bmodel::kCoeffAddress + stage.coeff.size(), 4096);
  const auto tensor = [&](const std::string &name, const Shape &shape) {
    bmodel::TensorDesc t;
    t.name = name;
    for (int64_t d : shape) t.shape.push_back(static_cast<uint64_t>(d));
    t.address = at;
    t.bytes = static_cast<uint64_t>(graph::element_count(shape) * kElementBytes);
    at = aligned(at + t.bytes, 256);
    return t;
  };
  for (graph::ValueId v : g.inputs) stage.inputs.push_back(tensor(g[v].name, g[v].shape));
  for (size_t k = 0; k < g.outputs.size(); ++k)
    stage.outputs.push_back(tensor(g.output_names[k], g[g.outputs[k]].shape));
  stage.io_bytes = at - stage.io_address;
  stage.ctx_address = aligned(at, 4096);
  stage.ctx_bytes = bound.ctx_bytes;
  for (const Region &r : bound.regions) {
    npu_program_region out{};
    out.access = static_cast<uint8_t>((r.read ? NPU_ACCESS_READ : 0) | (r.write ? NPU_ACCESS_WRITE : 0));
    out.index = static_cast<uint16_t>(r.index);
    out.bytes = r.bytes;
    switch (r.kind) {
      case StorageKind::Const:
        out.kind = NPU_PROGRAM_COEFF;
        out.address = bmodel::kCoeffAddress;
        break;
      case StorageKind::Temp:
        out.kind = NPU_PROGRAM_CTX;
        out.address = stage.ctx_address;
        break;
      case StorageKind::Input:
        out.kind = NPU_PROGRAM_INPUT;
        out.address = stage.inputs[static_cast<size_t>(r.index)].address;
        break;
      case StorageKind::Output:
        out.kind = NPU_PROGRAM_OUTPUT;
        out.address = stage.outputs[static_cast<size_t>(r.index)].address;
        break;
    }
    stage.regions.push_back(out);
  }
}

void set_cost(bmodel::StageDesc &stage) {
  const hw::CostParams p;
  const uint32_t cost[] = {p.mac_ic,    p.mac_oc,     p.mac_pixels,  p.lmem_bw, p.ew_lanes,
                           p.tiu_fixed, p.gdma_fixed, p.ddr_latency, p.ddr_bw};
  std::copy(std::begin(cost), std::end(cost), stage.cost);
}

void report_layers(const graph::Graph &g, const Lowered &lowered, const Generated &generated, const Streams &s,
                   Report &r) {
  std::vector<std::array<uint64_t, 2>> busy(g.sources.size());
  for (const graph::Source &source : g.sources) {
    LayerReport l;
    l.name = source.name;
    l.type = source.type;
    l.where = source.fate;
    r.layers.push_back(std::move(l));
  }
  const std::vector<Command> *const streams[] = {&s.tiu, &s.gdma};
  for (size_t e = 0; e < 2; ++e)
    for (size_t i = 0; i < streams[e]->size(); ++i) {
      const Command &c = (*streams[e])[i];
      const uint32_t layer = c.layer();
      const hw::Span span = s.timeline.spans[e][i];
      busy[layer][e] += span.end - span.start;
      r.layers[layer].macs += cost_of(c).macs;
      ++r.layers[layer].commands;
      (e ? r.gdma_busy : r.tiu_busy) += span.end - span.start;
    }
  for (const OpReport &o : generated.reports) {
    LayerReport &l = r.layers[static_cast<size_t>(lowered.ops[static_cast<size_t>(o.op)].source)];
    l.tiles += o.tiles;
    l.lmem_bytes = std::max(l.lmem_bytes, o.lmem_bytes);
  }
  for (size_t i = 0; i < r.layers.size(); ++i) {
    LayerReport &l = r.layers[i];
    l.busy = std::max(busy[i][0], busy[i][1]);
    if (l.commands)
      l.where = busy[i][0] && busy[i][1] ? "TIU+GDMA" : busy[i][0] ? "TIU" : "GDMA";
    else if (l.where.empty())
      l.where = "dead";
  }
}

/// The least that the network's arithmetic and its compulsory traffic can take.
void report_bounds(const bmodel::StageDesc &stage, Report &r) {
  const hw::CostParams p;
  uint64_t macs = 0, bytes = stage.coeff.size();
  for (const LayerReport &l : r.layers) macs += l.macs;
  for (const auto &t : stage.inputs) bytes += t.bytes;
  for (const auto &t : stage.outputs) bytes += t.bytes;
  r.mac_bound = macs / (uint64_t{p.mac_ic} * p.mac_oc * p.mac_pixels);
  r.memory_bound = bytes / p.ddr_bw;
  r.coeff_bytes = stage.coeff.size();
  r.io_bytes = stage.io_bytes;
  r.ctx_bytes = stage.ctx_bytes;
}

Status compile_graph(graph::Graph &g, const Options &options, Compiled &out) {
  Lowered all;
  NPU_TRY(lower(g, all));
  fuse_sums(g, all);
  Program program;
  NPU_TRY(make_program(all, g.sources, options.lmem_bytes, kMinLmemBytes, program));
  auto &[lowered, generated, lmem_bytes, gap_bytes, bound, streams] = program;
  bmodel::StageDesc stage;
  stage.tiu = encoded(streams.tiu);
  stage.gdma = encoded(streams.gdma);
  const Status sync = check_sync(stage.tiu, stage.gdma);
  if (!sync.ok()) return Status::error("internal error, please report: " + sync.message());
  stage.coeff = std::move(lowered.coeff);
  stage.lmem_bytes = static_cast<uint64_t>(lmem_bytes);
  stage.cycles = streams.timeline.cycles;
  set_cost(stage);
  for (const graph::Source &s : g.sources) stage.layers.push_back(s.name);
  find_aliases(streams.gdma, lowered, stage);
  lay_out(g, bound, stage);
  Report &r = out.report;
  r.lmem_used = lmem_bytes;
  r.lmem_bytes = options.lmem_bytes;
  r.cycles = stage.cycles;
  r.tiu_commands = streams.tiu.size();
  r.gdma_commands = streams.gdma.size();
  report_layers(g, lowered, generated, streams, r);
  report_bounds(stage, r);
  out.net.name = !options.name.empty() ? options.name : !g.name.empty() ? g.name : "network";
  out.net.addr_mode = options.io_alone ? 1 : 0;
  out.net.stages.push_back(std::move(stage));
  return {};
}

Status compile_raw(const graph::RawModel &raw, const Options &options, Compiled &out) {
  if (options.lmem_bytes < kMinLmemBytes || options.lmem_bytes > kMaxLmemBytes || options.lmem_bytes % 4096)
    return Status::error("local memory of " + std::to_string(options.lmem_bytes) + " bytes: a multiple of 4096 from " +
                         std::to_string(kMinLmemBytes) + " to " + std::to_string(kMaxLmemBytes) + " is expected");
  graph::Graph g;
  NPU_TRY(make_graph(raw, options, g));
  if (g.inputs.empty()) return Status::error("the network has no input: all that it computes is constant");
  return compile_graph(g, options, out);
}

/// Runs f; running out of memory is an error like any other.
template <class F>
Status guarded(F f) {
  try {
    return f();
  } catch (const std::bad_alloc &) {
    return Status::error("not enough memory on this machine for a network of that size");
  } catch (const std::exception &e) {
    return Status::error(std::string("internal error, please report: ") + e.what());
  }
}

}  // namespace

Status compile_onnx(const void *bytes, size_t size, const Options &options, Compiled &out) {
  return guarded([&] {
    graph::RawModel raw;
    NPU_TRY(graph::read_onnx(bytes, size, raw));
    return compile_raw(raw, options, out);
  });
}

Status compile_onnx_file(const std::string &path, const Options &options, Compiled &out) {
  return guarded([&]() -> Status {
    graph::RawModel raw;
    NPU_TRY(graph::read_onnx_file(path, raw));
    const Status status = compile_raw(raw, options, out);
    return status.ok() ? status : Status::error(path + ": " + status.message());
  });
}

namespace {

bool same_tensors(const std::vector<bmodel::TensorDesc> &a, const std::vector<bmodel::TensorDesc> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto &x, const auto &y) { return x.name == y.name && x.dtype == y.dtype; });
}

}  // namespace

Status add_stage(const Compiled &more, Compiled &to) {
  const bmodel::StageDesc &stage = more.net.stages[0], &first = to.net.stages[0];
  if (!same_tensors(stage.inputs, first.inputs) || !same_tensors(stage.outputs, first.outputs))
    return Status::error("the stages of network '" + to.net.name + "' differ in the names or types of their tensors");
  for (size_t s = 0; s < to.net.stages.size(); ++s)
    if (std::equal(stage.inputs.begin(), stage.inputs.end(), to.net.stages[s].inputs.begin(),
                   [](const auto &x, const auto &y) { return x.shape == y.shape; }))
      return Status::error("stage " + std::to_string(to.net.stages.size()) + " of network '" + to.net.name +
                           "' has the input shapes of stage " + std::to_string(s));
  to.net.stages.push_back(stage);
  return {};
}

Status make_dynamic(const void *bytes, size_t size, Compiled &compiled) {
  return guarded([&]() -> Status {
    graph::RawModel raw;
    NPU_TRY(graph::read_onnx(bytes, size, raw));
    bool open = false;
    for (const graph::RawValue &input : raw.inputs) {
      open = open || !input.has_shape;
      for (const graph::RawDim &d : input.dims) open = open || d.value < 0;
    }
    if (!open) return Status::error("--dynamic: the file fixes all dimensions of its inputs, none may vary");
    const auto *p = static_cast<const uint8_t *>(bytes);
    compiled.net.source.assign(p, p + size);
    for (bmodel::StageDesc &stage : compiled.net.stages) stage.is_dynamic = 1;
    return {};
  });
}

Status make_dynamic_file(const std::string &path, Compiled &compiled) {
  std::vector<char> bytes;
  NPU_TRY(graph::read_bytes(path, bytes));
  const Status status = make_dynamic(bytes.data(), bytes.size(), compiled);
  return status.ok() ? status : Status::error(path + ": " + status.message());
}

Status make_batch_dynamic(Compiled &compiled) {
  for (bmodel::StageDesc &stage : compiled.net.stages) {
    for (const auto *list : {&stage.inputs, &stage.outputs})
      for (const bmodel::TensorDesc &t : *list)
        if (t.shape.empty() || stage.inputs[0].shape.empty() || t.shape[0] != stage.inputs[0].shape[0])
          return Status::error("--dynamic-batch: dimension 0 of '" + t.name + "' is not that of '" +
                               stage.inputs[0].name + "', the batch");
    stage.is_dynamic = stage.n_dynamic = 1;
  }
  return {};
}

Status write_bmodel(const Compiled &compiled, std::vector<uint8_t> &out) {
  bmodel::ModelDesc model;
  model.nets.push_back(compiled.net);
  return bmodel::build(model, out);
}

}  // namespace npu::compiler
