// SPDX-License-Identifier: MIT
#include "compiler/api/npuc.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <set>

#include "compiler/api/bounds.h"
#include "compiler/api/compile_graph.h"
#include "compiler/api/cores.h"
#include "compiler/api/dump.h"
#include "compiler/api/edges.h"
#include "compiler/api/host_part.h"
#include "compiler/api/schedule_report.h"
#include "compiler/import/help.h"
#include "compiler/import/importer.h"
#include "compiler/import/open_batch.h"
#include "compiler/passes/passes.h"
#include "compiler/quantize/half.h"
#include "compiler/schedule/check_sync.h"
#include "compiler/schedule/program.h"
#include "runtime/bmodel/room.h"

namespace npu::compiler {
namespace {

static_assert(kMaxCores == NPU_MAX_CORES);

uint64_t aligned(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

std::vector<uint8_t> encoded(const std::vector<Command> &stream) {
  std::vector<uint8_t> out(stream.size() * NPU_CMD_BYTES);
  for (size_t i = 0; i < stream.size(); ++i) std::ranges::copy(encode(stream[i]), out.data() + i * NPU_CMD_BYTES);
  return out;
}

struct Pass {
  const char *name;
  Status (*run)(graph::Graph &, const Options &);
};

/// A pass that needs no option and always succeeds.
template <void (*pass)(graph::Graph &)>
Status plain(graph::Graph &g, const Options &) {
  pass(g);
  return {};
}

constexpr Pass kPasses[] = {
    {"remove_dead", plain<graph::remove_dead>},
    // Before the passes that change weights and biases in float32.
    {"fuse_quantized", plain<graph::fuse_quantized>},
    {"io_types", [](graph::Graph &g, const Options &options) { return graph::set_io_types(g, options.io_types); }},
    {"merge_equal", plain<graph::merge_equal>},
    {"merge_pad", plain<graph::merge_pad>},
    {"fold_affine", plain<graph::fold_affine>},
    {"join_affine", plain<graph::join_affine>},
    {"fuse_activation", plain<graph::fuse_activation>},
    {"repeat_late", plain<graph::repeat_late>},
    {"expand_reduce", plain<graph::expand_reduce>},
    // A window of one channel and its result have to fit, twice each.
    {"split_pool",
     [](graph::Graph &g, const Options &options) {
       graph::split_pool(g, options.lmem_bytes / 4 / graph::dtype_bytes(graph::Dtype::F32));
       return Status();
     }},
};

/// After all others.
constexpr Pass kUseHalf{"use_half", [](graph::Graph &g, const Options &options) {
                          if (graph::is_half(options.reals)) graph::use_half(g, options.reals);
                          return Status();
                        }};

/// What comes before a float32 network becomes one of integers.
constexpr Pass kFloatPasses[] = {
    {"remove_dead", plain<graph::remove_dead>},
    {"merge_equal", plain<graph::merge_equal>},
    {"merge_pad", plain<graph::merge_pad>},
    {"fold_affine", plain<graph::fold_affine>},
    {"join_affine", plain<graph::join_affine>},
    {"expand_reduce",
     [](graph::Graph &g, const Options &) {
       graph::expand_reduce(g, [](const graph::Node &n) {
         return std::get<graph::ReduceAttrs>(n.attrs).kind != graph::ReduceKind::Prod;
       });
       return Status();
     }},
};

/// Inputs or outputs that --input-type or --output-type makes integers of 8 bits.
std::set<std::string> made_bytes(const std::vector<std::string> &names, const graph::IoTypes::Side &types) {
  std::set<std::string> out;
  for (const std::string &name : names) {
    const auto named = types.named.find(name);
    if (graph::is_byte(named == types.named.end() ? types.all : named->second)) out.insert(name);
  }
  return out;
}

/// Compares a network with itself in 16 bits, between inputs and outputs of the file's types, as samples are.
Status compare_half(graph::Graph g, Options options, const quantize::Options &how, quantize::Result &out) {
  options.io_types = {};
  for (const Pass &pass : kPasses) NPU_TRY(pass.run(g, options));
  return quantize::compare_half(g, how, out);
}

Status make_graph(graph::RawModel raw, const Options &options, graph::Graph &g, Compiled &out) {
  quantize::Result &quantized = out.quantized;
  graph::ImportOptions import_options{options.shapes, options.values};
  import_options.failing_branches = options.failing_branches;
  if (options.assume_batch) out.report.warnings = graph::assume_batch(raw, import_options);
  NPU_TRY(graph::import_model(raw, import_options, g, &out.refusal.findings));
  raw = {};  // weights that passes replace are needed no more
  out.report.imported_layers = g.sources.size();
  if (options.memory_maps) out.report.edges = edges_of(g);
  size_t number = 0;
  NPU_TRY(dump(g, options, number, "import"));
  const auto run = [&](const Pass &pass) {
    NPU_TRY(pass.run(g, options));
    return dump(g, options, ++number, pass.name);
  };
  quantize::Options how = options.quantize;
  how.reals = options.reals;
  std::vector<std::string> inputs;
  for (graph::ValueId v : g.inputs) inputs.push_back(g[v].name);
  how.inputs = made_bytes(inputs, options.io_types.inputs);
  how.outputs = made_bytes(g.output_names, options.io_types.outputs);
  const bool integers = how.type != quantize::Type::None;
  if (integers) {
    for (const Pass &pass : kFloatPasses) NPU_TRY(run(pass));
    NPU_TRY(quantize::quantize(g, how, quantized));
    NPU_TRY(dump(g, options, ++number, "quantize"));
  }
  std::optional<graph::Graph> compared;
  if (!integers && graph::is_half(how.reals) && how.samples) compared = g;
  for (const Pass &pass : kPasses) NPU_TRY(run(pass));
  if (compared) NPU_TRY(compare_half(std::move(*compared), options, how, quantized));
  return run(kUseHalf);
}

/// What stands in front of the names of dumped parts: they come behind all passes.
size_t number_of_parts(const Options &options) {
  const bool quantizes = options.quantize.type != quantize::Type::None;
  return std::size(kPasses) + 2 + (quantizes ? std::size(kFloatPasses) + 1 : 0);
}

/// Outputs that are written before an input has been read for the last time. Only the GDMA touches either. Nothing
/// orders what several cores do with them.
void find_aliases(const Program &from, bmodel::ProgramDesc &program) {
  const size_t cores = from.streams.cores.size();
  std::map<int, size_t> last_read, first_write;
  for (size_t core = 0; core < cores; ++core) {
    const std::vector<Command> &gdma = from.streams.cores[core].gdma;
    const std::vector<Storage> &storages = from.lowered.cores[core].storages;
    for (size_t i = 0; i < gdma.size(); ++i) {
      const auto tensor = [&](int s, StorageKind kind) -> const Storage * {
        if (s < 0 || static_cast<size_t>(s) >= storages.size()) return nullptr;
        return storages[static_cast<size_t>(s)].kind == kind ? &storages[static_cast<size_t>(s)] : nullptr;
      };
      if (const Storage *in = tensor(gdma[i].src_storage, StorageKind::Input)) last_read[in->index] = i;
      if (const Storage *to = tensor(gdma[i].dst_storage, StorageKind::Output)) first_write.emplace(to->index, i);
    }
  }
  for (const auto &[output, write] : first_write)
    for (const auto &[input, read] :
         last_read)  // one command that does both is a direct copy: it must not overlap either
      if (write <= read || cores > 1)
        program.aliases.push_back({static_cast<uint16_t>(output), static_cast<uint16_t>(input), 0});
}

/// Linear addresses: coefficients, then inputs and outputs, then activation memory.
void lay_out(const graph::Graph &g, bmodel::StageDesc &stage) {
  uint64_t at = stage.io_address = aligned(bmodel::kCoeffAddress + stage.coeff.size(), 4096);
  const auto tensor = [&](const std::string &name, const graph::Value &value) {
    bmodel::TensorDesc t = tensor_desc(name, value);
    t.address = at;
    at = aligned(at + t.bytes, 256);
    return t;
  };
  for (graph::ValueId v : g.inputs) {
    stage.inputs.push_back(tensor(g[v].name, g[v]));
    stage.inputs.back().scale = 1 / stage.inputs.back().scale;
  }
  for (size_t k = 0; k < g.outputs.size(); ++k) stage.outputs.push_back(tensor(g.output_names[k], g[g.outputs[k]]));
  stage.io_bytes = at - stage.io_address;
  stage.ctx_address = aligned(at, 4096);
}

/// The regions of a program between these tensors.
void set_regions(const Bound &bound, const bmodel::StageDesc &stage, const std::vector<bmodel::TensorDesc> &inputs,
                 const std::vector<bmodel::TensorDesc> &outputs, bmodel::ProgramDesc &program) {
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
      case StorageKind::Exchange:
        out.kind = NPU_PROGRAM_CTX;
        out.address = stage.ctx_address;
        break;
      case StorageKind::Input:
        out.kind = NPU_PROGRAM_INPUT;
        out.address = inputs[static_cast<size_t>(r.index)].address;
        break;
      case StorageKind::Output:
        out.kind = NPU_PROGRAM_OUTPUT;
        out.address = outputs[static_cast<size_t>(r.index)].address;
        break;
    }
    program.regions.push_back(out);
  }
}

void set_cost(bmodel::ProgramDesc &program) {
  const hw::CostParams p;
  const uint32_t cost[] = {p.mac_ic,    p.mac_oc,     p.mac_pixels,  p.lmem_bw, p.ew_lanes,
                           p.tiu_fixed, p.gdma_fixed, p.ddr_latency, p.ddr_bw};
  std::copy(std::begin(cost), std::end(cost), program.cost);
  program.rate_16 = p.rate_16;
  program.rate_8 = p.rate_8;
}

/// A line for each node of the file, and for what the passes have added to it.
void add_layers(const graph::Graph &g, Report &r) {
  for (const graph::Source &source : g.sources) {
    LayerReport &l = r.layers.emplace_back();
    l.name = source.name;
    l.type = source.type;
    l.outputs = source.outputs;
  }
  for (const graph::Node &n : g.nodes) {
    const graph::TensorKind &result = g[n.output];
    std::vector<graph::TensorKind> &outputs = r.layers[static_cast<size_t>(n.source)].outputs;
    if (outputs.empty()) outputs = {result};
    // Passes change types: the last node of a layer makes its result.
    if (outputs[0].shape == result.shape) outputs[0].dtype = result.dtype;
  }
}

/// Gives layers that passes have put into another one the type in which that one computes: of its operand for a layer
/// in front of it, else of its result.
void set_joined_types(const graph::Graph &g, Report &r) {
  struct Place {
    size_t source;
    graph::Dtype reads, makes;
  };
  std::map<std::string, Place> places;
  std::map<std::string, std::string> fates;
  for (const graph::Source &s : g.sources) fates.emplace(s.name, s.fate);
  for (const graph::Node &n : g.nodes) {
    const graph::Dtype makes = g[n.output].dtype;
    const bool reads = !n.inputs.empty() && n.inputs[0] != graph::kNoValue;
    const auto source = static_cast<size_t>(n.source);
    places.try_emplace(g.sources[source].name, Place{source, reads ? g[n.inputs[0]].dtype : makes, makes})
        .first->second.makes = makes;
  }
  constexpr std::string_view kIn = "in ";
  for (size_t i = 0; i < g.sources.size(); ++i) {
    std::string fate = g.sources[i].fate;
    for (size_t steps = 0; fate.starts_with(kIn) && steps < g.sources.size(); ++steps) {
      const std::string name = fate.substr(kIn.size());
      const auto place = places.find(name);
      if (place != places.end()) {
        for (graph::TensorKind &kind : r.layers[i].outputs)
          if (graph::is_real(kind.dtype))
            kind.dtype = i < place->second.source ? place->second.reads : place->second.makes;
        break;
      }
      const auto next = fates.find(name);
      fate = next == fates.end() ? "" : next->second;
    }
  }
}

/// Gives edges of the file the types of the layers that make them, and of the network's inputs.
void set_edge_types(const graph::Graph &g, Report &r) {
  std::map<std::string, graph::Dtype> inputs;
  for (graph::ValueId v : g.inputs) inputs.emplace(g[v].name, g[v].dtype);
  for (EdgeReport &e : r.edges) {
    if (e.from == EdgeReport::kOutside) {
      if (const auto input = inputs.find(e.tensor); input != inputs.end()) e.kind.dtype = input->second;
    } else if (const auto &outputs = r.layers[e.from].outputs;
               outputs.size() == 1 && outputs[0].shape == e.kind.shape) {
      e.kind.dtype = outputs[0].dtype;
    }
  }
}

/// The report's layers for those of a part: of the first `shared` they are the same, the others are its own.
std::vector<size_t> layers_of(const std::vector<graph::Source> &sources, size_t shared, Report &r) {
  std::vector<size_t> out;
  for (size_t i = 0; i < sources.size(); ++i) {
    out.push_back(i < shared ? i : r.layers.size());
    if (i >= shared) {
      LayerReport &l = r.layers.emplace_back();
      l.name = sources[i].name;
      l.type = sources[i].type;
      l.outputs = sources[i].outputs;
    }
    if (LayerReport &l = r.layers[out.back()]; l.where.empty()) l.where = sources[i].fate;
  }
  return out;
}

/// What the commands of a program do for each layer.
void report_program(const std::vector<graph::Source> &sources, size_t shared, const Program &program, bool maps,
                    Report &r) {
  const std::vector<size_t> layers = layers_of(sources, shared, r);
  report_schedule(program, layers, maps, r);
  const size_t cores = program.streams.cores.size();
  for (size_t core = 0; core < cores; ++core)
    for (const OpReport &o : program.generated[core].reports) {
      const LoweredOp &op = program.lowered.cores[core].ops[static_cast<size_t>(o.op)];
      LayerReport &l = r.layers[layers[static_cast<size_t>(op.source)]];
      l.tiles += o.tiles;
      l.lmem_bytes = std::max(l.lmem_bytes, o.lmem_bytes);
    }
  r.lmem_used = std::max(r.lmem_used, program.lmem_bytes);
  r.cores = std::max(r.cores, cores);
}

void report_host_part(const graph::Part &part, size_t shared, Report &r) {
  const std::vector<size_t> layers = layers_of(part.graph.sources, shared, r);
  ++r.host_parts;
  r.host_nodes += part.graph.nodes.size();
  for (const graph::Node &n : part.graph.nodes) r.layers[layers[static_cast<size_t>(n.source)]].on_cpu = true;
}

/// Where each layer runs, once all parts are known.
void report_places(Report &r) {
  for (LayerReport &l : r.layers) {
    const std::string places = engines_text(l);
    if (!places.empty())
      l.where = places;
    else if (l.where.empty())
      l.where = "dead";
  }
}

/// The least that the arithmetic and the compulsory traffic of the programs can take, on cores that each have a part of
/// both. Parts for the CPU have no cycles.
void report_bounds(const bmodel::StageDesc &stage, Report &r) {
  const hw::CostParams p;
  r.mac_bound = r.array_macs / (uint64_t{p.mac_ic} * p.mac_oc * p.mac_pixels * r.cores);
  r.memory_bound = (r.constant_bytes + r.moved_io_bytes) / (uint64_t{p.ddr_bw} * r.cores);
  r.coeff_bytes = stage.coeff.size();
  for (const auto *list : {&stage.inputs, &stage.outputs})
    for (const bmodel::TensorDesc &t : *list) r.io_bytes += bmodel::tensor_room(t.bytes);
  r.ctx_bytes = stage.subs.empty() ? stage.ctx_bytes : bmodel::tensor_room(stage.ctx_bytes);
}

/// Counts what else a launch needs on the card: commands, with one copy for each output that may have to be staged, and
/// tensors between sub-networks, in whole pages as in the runtime.
void report_memory(const bmodel::StageDesc &stage, Report &r) {
  const auto add_code = [&r](const bmodel::ProgramDesc &p, size_t outputs) {
    if (p.tiu.empty() && p.gdma.empty()) return;
    r.code_bytes += p.tiu.size() + p.gdma.size() + outputs * NPU_CMD_BYTES;
    for (const bmodel::CoreDesc &core : p.more_cores) r.code_bytes += core.tiu.size() + core.gdma.size();
  };
  add_code(stage, stage.outputs.size());
  std::vector<std::string> inputs, outputs;
  for (const bmodel::TensorDesc &t : stage.inputs) inputs.push_back(t.name);
  for (const bmodel::TensorDesc &t : stage.outputs) outputs.push_back(t.name);
  const std::vector<std::string> names = bmodel::written_names(inputs, outputs);
  const std::set<std::string> outer(names.begin(), names.end());
  for (const bmodel::SubNetDesc &sub : stage.subs) {
    add_code(sub, sub.outputs.size());
    for (const bmodel::TensorDesc &t : sub.outputs)
      if (!outer.count(t.name)) r.between_bytes += bmodel::tensor_room(t.bytes);
  }
}

/// Encodes the streams of a program, and checks that what has to be is ordered.
Status encode_streams(const Streams &streams, const Bound &bound, bmodel::ProgramDesc &out) {
  std::vector<bmodel::CoreDesc> cores;
  for (const CoreStreams &core : streams.cores) cores.push_back({encoded(core.tiu), encoded(core.gdma)});
  std::vector<EncodedCore> spans;
  for (const bmodel::CoreDesc &core : cores) spans.push_back({core.tiu, core.gdma});
  std::vector<uint8_t> outputs;
  for (size_t r = 0; r < bound.regions.size() && cores.size() > 1; ++r)
    if (bound.regions[r].kind == StorageKind::Output) outputs.push_back(static_cast<uint8_t>(r));
  const Status sync = check_sync(spans, outputs);
  if (!sync.ok()) return Status::error(kInternalError + sync.message());
  out.tiu = std::move(cores[0].tiu);
  out.gdma = std::move(cores[0].gdma);
  cores.erase(cores.begin());
  out.more_cores = std::move(cores);
  return {};
}

/// Compiles a graph that the chip can compute, with its constants appended to the coefficients of the stage.
/// `shared`: layers of the report that are the network's.
Status compile_program(const graph::Graph &g, size_t shared, const Options &options, bmodel::StageDesc &stage,
                       bmodel::ProgramDesc &out, Bound &bound, Report &report) {
  Made made;
  NPU_TRY(make_on_cores(g, options, static_cast<int64_t>(stage.coeff.size()), made, report));
  Program &program = made.program;
  NPU_TRY(encode_streams(program.streams, program.bound, out));
  out.lmem_bytes = static_cast<uint64_t>(program.lmem_bytes);
  out.cycles = program.streams.timeline.cycles;
  set_cost(out);
  for (const graph::Source &s : made.sources) out.layers.push_back(s.name);
  find_aliases(program, out);
  report_program(made.sources, shared, program, options.memory_maps, report);
  report.moved_io_bytes += io_bytes(program);
  program.coeff.write(stage.coeff);
  stage.ctx_bytes = std::max(stage.ctx_bytes, program.bound.ctx_bytes);
  bound = std::move(program.bound);
  return {};
}

/// Names of the tensors between sub-networks: unique, and the network's own for its inputs and outputs.
class TensorNames {
 public:
  explicit TensorNames(const graph::Graph &g) : graph_(g) {
    std::vector<std::string> inputs;
    for (graph::ValueId v : g.inputs) set(v, inputs.emplace_back(g[v].name));
    const std::vector<std::string> outputs = bmodel::written_names(inputs, g.output_names);
    for (size_t k = 0; k < g.outputs.size(); ++k) set(g.outputs[k], outputs[k]);
    taken_.insert(g.output_names.begin(), g.output_names.end());
  }

  const std::string &name(graph::ValueId v) {
    const auto known = names_.find(v);
    if (known != names_.end()) return known->second;
    std::string name = graph_[v].name.empty() ? "tensor" : graph_[v].name;
    if (taken_.count(name)) name += "#" + std::to_string(static_cast<int>(v));
    while (taken_.count(name)) name += "'";
    return set(v, name);
  }

  std::vector<bmodel::TensorDesc> tensors(const std::vector<graph::ValueId> &values) {
    std::vector<bmodel::TensorDesc> out;
    for (graph::ValueId v : values) out.push_back(tensor_desc(name(v), graph_[v]));
    return out;
  }

 private:
  const std::string &set(graph::ValueId v, const std::string &name) {
    taken_.insert(name);
    return names_[v] = name;
  }

  const graph::Graph &graph_;
  std::map<graph::ValueId, std::string> names_;
  std::set<std::string> taken_;
};

/// A network of several parts: sub-networks one after another.
Status compile_parts(const graph::Graph &g, std::vector<graph::Part> &parts, const Options &options,
                     bmodel::StageDesc &stage, Report &report) {
  TensorNames names(g);
  std::vector<Bound> bounds(parts.size());
  const size_t shared = g.sources.size();
  for (size_t p = 0; p < parts.size(); ++p) {
    bmodel::SubNetDesc &sub = stage.subs.emplace_back();
    sub.id = static_cast<int32_t>(p);
    sub.next = {p + 1 < parts.size() ? static_cast<int32_t>(p) + 1 : -1};
    sub.inputs = names.tensors(parts[p].inputs);
    sub.outputs = names.tensors(parts[p].outputs);
    if (parts[p].on_chip) {
      NPU_TRY(compile_program(parts[p].graph, shared, options, stage, sub, bounds[p], report));
    } else {
      NPU_TRY(make_host_part(parts[p], sub));
      report_host_part(parts[p], shared, report);
    }
  }
  lay_out(g, stage);
  for (size_t p = 0; p < parts.size(); ++p)
    set_regions(bounds[p], stage, stage.subs[p].inputs, stage.subs[p].outputs, stage.subs[p]);
  return {};
}

}  // namespace

std::string engines_text(const LayerReport &l) {
  std::string places = l.on_tiu ? "TIU" : "";
  if (l.on_gdma) places += places.empty() ? "GDMA" : "+GDMA";
  if (l.on_cpu) places += places.empty() ? "CPU" : "+CPU";
  return places;
}

Status run_passes(graph::Graph &g, const Options &options) {
  for (const Pass &pass : kPasses) NPU_TRY(pass.run(g, options));
  return kUseHalf.run(g, options);
}

Status compile_graph(graph::Graph &g, const Options &options, Compiled &out) {
  bmodel::StageDesc stage;
  Report &r = out.report;
  r.notes = g.notes;
  r.warnings.insert(r.warnings.end(), g.warnings.begin(), g.warnings.end());
  std::vector<graph::Part> parts = graph::partition(g);
  add_layers(g, r);
  set_joined_types(g, r);
  if (options.memory_maps) add_edges_of_passes(g, r.imported_layers, r.edges);
  set_edge_types(g, r);
  for (size_t p = 0; p < parts.size(); ++p)
    NPU_TRY(dump(parts[p].graph, options, number_of_parts(options),
                 "part" + std::to_string(p) + (parts[p].on_chip ? "-npu" : "-cpu")));
  if (parts.size() == 1 && parts[0].on_chip && parts[0].inputs == g.inputs && parts[0].outputs == g.outputs) {
    Bound bound;
    NPU_TRY(compile_program(parts[0].graph, g.sources.size(), options, stage, stage, bound, r));
    lay_out(g, stage);
    set_regions(bound, stage, stage.inputs, stage.outputs, stage);
  } else {
    NPU_TRY(compile_parts(g, parts, options, stage, r));
  }
  r.lmem_bytes = options.lmem_bytes;
  report_places(r);
  report_bounds(stage, r);
  report_memory(stage, r);
  out.net.name = !options.name.empty() ? options.name : !g.name.empty() ? g.name : "network";
  out.net.addr_mode = options.io_alone ? 1 : 0;
  out.net.stages.push_back(std::move(stage));
  return {};
}

Status check_lmem(int64_t bytes) {
  if (bytes >= kMinLmemBytes && bytes <= kMaxLmemBytes && bytes % 4096 == 0) return {};
  return Status::error("local memory of " + std::to_string(bytes) + " bytes: a multiple of 4096 from " +
                       std::to_string(kMinLmemBytes) + " to " + std::to_string(kMaxLmemBytes) + " is expected");
}

Status replace_outputs(const std::vector<std::string> &names, graph::RawModel &raw) {
  if (names.empty()) return {};
  std::map<std::string, graph::RawValue> known;
  for (const graph::RawNode &n : raw.nodes)
    for (const std::string &name : n.outputs) known[name].name = name;
  for (const std::vector<graph::RawValue> *list : {&raw.values, &raw.outputs})
    for (const graph::RawValue &v : *list)
      if (known.count(v.name)) known[v.name] = v;
  std::vector<graph::RawValue> outputs;
  for (const std::string &name : names) {
    if (!known.count(name)) return Status::error("no node of the file makes a tensor '" + name + "'");
    outputs.push_back(known[name]);
  }
  raw.outputs = std::move(outputs);
  return {};
}

namespace {

Status compile_raw(graph::RawModel raw, const Options &options, Compiled &out) {
  NPU_TRY(check_lmem(options.lmem_bytes));
  if (options.cores < 1 || options.cores > kMaxCores)
    return Status::error(std::to_string(options.cores) + " cores: 1 to " + std::to_string(kMaxCores) + " are expected");
  NPU_TRY(replace_outputs(options.outputs, raw));
  graph::Graph g;
  NPU_TRY(make_graph(std::move(raw), options, g, out));
  if (g.inputs.empty())
    return graph::refuse(graph::Obstacle::NoInput, "the network has no input: all that it computes is constant");
  return compile_graph(g, options, out);
}

/// Of a file that cannot be read.
Status unreadable(const Status &status) {
  const bool known = graph::obstacle_of(status) != graph::Obstacle::Other;
  return status.ok() || known ? status : graph::refuse(graph::Obstacle::File, status.message());
}

/// Says what would help against an error.
Status explained(const Status &status, Compiled &out) {
  Refusal &r = out.refusal;
  r.message = status.message();
  r.obstacle = graph::obstacle_of(status);
  if (status.ok() || !r.findings.empty()) return status;
  if (r.message.find(kInternalError) != std::string::npos)
    r.help = "please report it with the model, or with a smaller one that reproduces it";
  else if (r.obstacle != graph::Obstacle::Other)
    r.help = graph::help_for(r.obstacle);
  return status;
}

}  // namespace

std::string Refusal::text() const {
  if (findings.empty()) return message + (help.empty() ? "" : "\n  help: " + help);
  const size_t at = message.find(findings.headline);
  return message.substr(0, at == std::string::npos ? 0 : at) + findings.text(true);
}

Status compile_onnx(const void *bytes, size_t size, const Options &options, Compiled &out) {
  out.refusal = {};
  const Status status = guarded([&]() -> Status {
    graph::RawModel raw;
    NPU_TRY(unreadable(graph::read_onnx(bytes, size, raw)));
    return compile_raw(std::move(raw), options, out);
  });
  return explained(status, out);
}

Status compile_onnx_file(const std::string &path, const Options &options, Compiled &out) {
  std::error_code ignored;
  out.refusal = {};
  const Status status = guarded([&]() -> Status {
    graph::RawModel raw;
    NPU_TRY(unreadable(graph::read_onnx_file(path, raw)));
    return compile_raw(std::move(raw), options, out).within(path);
  });
  const Status told = explained(status, out);
  // A path that is wrong says so itself.
  if (out.refusal.obstacle == graph::Obstacle::File && !std::filesystem::is_regular_file(path, ignored))
    out.refusal.help.clear();
  return told;
}

namespace {

bool same_tensors(const std::vector<bmodel::TensorDesc> &a, const std::vector<bmodel::TensorDesc> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto &x, const auto &y) { return x.name == y.name && x.dtype == y.dtype; });
}

/// A batch is cut from one program.
Status refuse_host_parts(const Compiled &compiled) {
  for (const bmodel::StageDesc &stage : compiled.net.stages)
    if (!stage.subs.empty())
      return Status::error(
          std::string("--dynamic-batch: the network ") +
          (compiled.report.host_parts ? "has nodes that run on the CPU"
                                      : "has so many inputs and outputs that it is several programs") +
          ", and a stage of such a network runs with its own batch alone: use --dynamic, which compiles for the batch "
          "of a launch, or give each batch as a --stage");
  return {};
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
  NPU_TRY(refuse_host_parts(compiled));
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
  return bmodel::build_one(compiled.net, out);
}

}  // namespace npu::compiler
